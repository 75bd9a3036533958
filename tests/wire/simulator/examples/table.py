"""All examples."""

from . import caching, formats, http, messages, options, server_tools, thinking, tools
from .base import Example

EXAMPLES: tuple[Example, ...] = (
    *http.EXAMPLES,
    *options.EXAMPLES,
    *formats.EXAMPLES,
    *tools.EXAMPLES,
    *server_tools.EXAMPLES,
    *messages.EXAMPLES,
    *thinking.EXAMPLES,
    *caching.EXAMPLES,
)
