"""Examples for cache markers and for the size of the prompt."""

from typing import Any

from .base import (
    HAIKU,
    MARK,
    OLDER,
    SEARCH,
    Body,
    Example,
    assistant,
    call,
    chat,
    request,
    result,
    user,
    words,
)

HOUR = {"type": "ephemeral", "ttl": "1h"}


def marked(*markers: Any, **fields: Any) -> Body:
    """Return a request whose text blocks carry these markers."""
    return request(messages=[user(*(words("owls", cache_control=marker) for marker in markers))], **fields)


def inside_result(**fields: Any) -> Body:
    """Return a conversation with a result of one text block."""
    return chat(assistant(call()), user(result(content=[words("mice", **fields)])))


def everywhere(count: int) -> Body:
    """Return a request with a marker on a tool, the system prompt, and so many on messages."""
    tool, system = {**SEARCH, "cache_control": MARK}, [words("Be brief.", cache_control=MARK)]
    return marked(*[MARK] * count, tools=[tool], system=system)


PAIRS: list[tuple[str, str, Body, Body]] = [
    ("cache_control.shape", "'ephemeral'", marked({"type": "forever"}), marked(MARK)),
    ("cache_control.shape", "'5m' or '1h'", marked({**MARK, "ttl": "2h"}), marked(HOUR)),
    (
        "cache_control.shape",
        "ephemeral",
        inside_result(cache_control="yes"),
        inside_result(cache_control=MARK),
    ),
    ("cache_control.count", "maximum of 4 blocks", marked(*[MARK] * 5), marked(*[MARK] * 4)),
    (
        "cache_control.count",
        "Found 5",
        marked(*[MARK] * 4, cache_control=MARK),
        marked(*[MARK] * 3, cache_control=MARK),
    ),
    ("cache_control.count", "Found 5", everywhere(3), everywhere(2)),
    ("cache_control.ttl_order", "must not come after", marked(MARK, HOUR), marked(HOUR, MARK)),
    (
        "cache_control.ttl_order",
        "must not come after",
        marked(MARK, None, cache_control=HOUR),
        marked(HOUR, None, cache_control=MARK),
    ),
    (
        "cache_control.empty_text",
        "empty text blocks",
        request(messages=[user("owls", words("", cache_control=MARK))]),
        request(messages=[user("owls", words("mice", cache_control=MARK))]),
    ),
    (
        "cache_control.thinking",
        "thinking.cache_control",
        chat(
            assistant({"type": "thinking", "thinking": "So.", "signature": "c28=", "cache_control": MARK}, "Mice."),
            user("And foxes?"),
        ),
        chat(assistant(words("Mice.", cache_control=MARK)), user("And foxes?")),
    ),
    (
        "prompt.too_long",
        "prompt is too long: 200011 tokens > 200000 maximum",
        request(messages=[user("a" * 800_020)]),
        request(messages=[user("a" * 799_970)]),
    ),
    (
        "prompt.too_long",
        "> 200000 maximum",
        request(model=OLDER, system="a" * 400_000, messages=[user("a" * 400_000)]),
        request(model=HAIKU, system="a" * 400_000, messages=[user("a" * 399_900)]),
    ),
]
EXAMPLES = tuple(Example(*pair) for pair in PAIRS)
