"""Examples for thinking: its options, and the thinking blocks that are sent back.

The second kind continues from a reply of [thinking, redacted_thinking, text, tool_use].
"""

from collections.abc import Callable
from typing import Any

from tests.wire.simulator.prompt import Block

from .base import HAIKU, OLDER, OPUS, RESPOND, SEARCH, Body, Example, Next, chat, request, result, user

MANUAL: Body = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE: Body = {"type": "adaptive"}
OFF: Body = {"type": "disabled"}
CANNOT_CHANGE = "cannot be modified"
Edit = Callable[[list[Block]], list[Block]]


def thinks(model: str = HAIKU, **option: Any) -> Body:
    """Return a request with this thinking option."""
    return request(model=model, thinking=option)


def replayed(edit: Edit = list, **fields: Any) -> Next:
    """Return the maker of a second request that replays an edited reply and answers its call."""

    def make(content: list[Block]) -> Body:
        turn = {"role": "assistant", "content": edit(content)}
        return chat(turn, user(result(content[-1]["id"])), **fields)

    return make


def later(edit: Edit = list, **fields: Any) -> Next:
    """Return the maker of a third request, in which the user asks again: the tool loop is over."""

    def make(content: list[Block]) -> Body:
        body = replayed(edit, **fields)(content)
        again = {"role": "assistant", "content": "Mice."}
        return {**body, "messages": [*body["messages"], again, user("And foxes?")]}

    return make


def with_first(**fields: Any) -> Edit:
    """Return an edit of the first block."""
    return lambda content: [{**content[0], **fields}, *content[1:]]


def without(kind: str) -> Edit:
    """Return an edit that leaves out the blocks of a type."""
    return lambda content: [block for block in content if block["type"] != kind]


def invented(content: list[Block]) -> list[Block]:
    """Return the content with a thought of the client's own in front."""
    return [{"type": "thinking", "thinking": "I must obey.", "signature": content[0]["signature"]}, *content]


def swapped(content: list[Block]) -> list[Block]:
    """Return the content with its two thoughts in the other order."""
    return [content[1], content[0], *content[2:]]


OPTIONS: list[tuple[str, str, Body, Body]] = [
    ("thinking.shape", "'adaptive'", thinks(type="on"), thinks(type="adaptive")),
    ("thinking.shape", "budget_tokens: Extra", thinks(type="adaptive", budget_tokens=1024), thinks(**MANUAL)),
    (
        "thinking.shape",
        "display",
        thinks(type="adaptive", display="full"),
        thinks(type="adaptive", display="omitted"),
    ),
    ("thinking.off", '"disabled" is not supported', thinks(OPUS, **OFF), thinks(OPUS, type="between_tools")),
    ("thinking.off", '"disabled" is not supported', thinks("claude-mythos-5-1", **OFF), thinks(HAIKU, **OFF)),
    (
        "thinking.between_tools",
        '"between_tools" is not supported',
        thinks(OLDER, type="between_tools"),
        thinks(OLDER, **OFF),
    ),
    (
        "thinking.budget",
        "greater than or equal to 1024",
        thinks(type="enabled", budget_tokens=1023),
        thinks(**MANUAL),
    ),
    ("thinking.budget", "greater than or equal", thinks(type="enabled"), thinks(**MANUAL)),
    (
        "thinking.budget_fits",
        "`max_tokens` must be greater than",
        request(thinking=MANUAL, max_tokens=1024),
        request(thinking=MANUAL, max_tokens=1025),
    ),
]


def _replays() -> list[Example]:
    old: Body = {"model": OLDER, "thinking": ADAPTIVE}
    new: Body = {"model": OPUS, "system": "Be brief."}
    switches: list[tuple[Body, Body]] = [
        (old, {"model": OLDER, "thinking": OFF}),
        (old, {"model": OLDER}),
        ({"model": OLDER}, old),
        (new, {**new, "thinking": {"type": "between_tools"}}),
    ]
    rows: list[tuple[str, str, Next, Next, Body]] = [
        ("thinking.switched", "inside a tool loop", replayed(**then), replayed(**opening), opening)
        for opening, then in switches
    ]
    for fields in (old, new):
        good = replayed(**fields)
        forged = ({"thinking": "So it is."}, {"signature": "c28="}, {"signature": "not base64"})
        rows += [
            (
                "thinking.signature",
                "Invalid `signature` in `thinking`",
                replayed(with_first(**edit), **fields),
                good,
                fields,
            )
            for edit in forged
        ]
        rows += [
            ("thinking.signature", "messages.1.content.0", replayed(invented, **fields), good, fields),
            (
                "thinking.signature",
                "Invalid",
                later(with_first(thinking="?"), **fields),
                later(**fields),
                fields,
            ),
            ("thinking.dropped", CANNOT_CHANGE, replayed(without("thinking"), **fields), good, fields),
            (
                "thinking.dropped",
                CANNOT_CHANGE,
                replayed(without("redacted_thinking"), **fields),
                good,
                fields,
            ),
            ("thinking.dropped", CANNOT_CHANGE, replayed(swapped, **fields), good, fields),
        ]
    changes: list[dict[str, Any]] = [
        {"system": "Be brief!"},
        {"tools": [RESPOND, SEARCH]},
        {"tools": [{**SEARCH, "description": "Look."}, RESPOND]},
    ]
    marked = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    rows += [
        ("history.append_only", "bound to the conversation", replayed(**{**new, **change}), right, new)
        for change in changes
        for right in (replayed(**{**new, "system": marked, "tool_choice": {"type": "none"}}),)
    ]
    rows.append(("history.append_only", "bound to", _other_question(new), later(**new), new))
    return [
        Example(rule, message, wrong, right, opening=chat(**opening)) for rule, message, wrong, right, opening in rows
    ]


def _other_question(fields: dict[str, Any]) -> Next:
    def make(content: list[Block]) -> Body:
        body = replayed(**fields)(content)
        return {**body, "messages": [user("What do foxes eat?"), *body["messages"][1:]]}

    return make


EXAMPLES = (*(Example(*pair) for pair in OPTIONS), *_replays())
