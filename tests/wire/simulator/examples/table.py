"""All examples."""

from . import caching, formats, http, messages, options, thinking, tools
from .base import Example

EXAMPLES: tuple[Example, ...] = (
    *http.EXAMPLES,
    *options.EXAMPLES,
    *formats.EXAMPLES,
    *tools.EXAMPLES,
    *messages.EXAMPLES,
    *thinking.EXAMPLES,
    *caching.EXAMPLES,
)
