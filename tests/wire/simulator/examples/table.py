"""All examples."""

from . import caching, http, messages, options, thinking, tools
from .base import Example

EXAMPLES: tuple[Example, ...] = (
    *http.EXAMPLES,
    *options.EXAMPLES,
    *tools.EXAMPLES,
    *messages.EXAMPLES,
    *thinking.EXAMPLES,
    *caching.EXAMPLES,
)
