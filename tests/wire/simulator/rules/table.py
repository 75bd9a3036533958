"""The table of all rules, in the order in which the API checks a request."""

from . import blocks, caching, formats, http, messages, options, server_tools, thinking, tools
from .base import Rule

RULES: tuple[Rule, ...] = (
    *http.RULES,
    *options.RULES,
    *formats.RULES,
    *tools.RULES,
    *server_tools.RULES_ON_TOOLS,
    *thinking.RULES_ON_OPTION,
    *messages.RULES_BEFORE_BLOCKS,
    *blocks.RULES_ON_SHAPE,
    *caching.RULES_ON_MARKERS,
    *blocks.RULES_ON_TEXT,
    *messages.RULES,
    *server_tools.RULES_ON_BLOCKS,
    *thinking.RULES_ON_BLOCKS,
    *caching.RULES_ON_PROMPT,
)
ALL_RULES = frozenset(rule.id for rule in RULES)
