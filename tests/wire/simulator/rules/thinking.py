"""Rules on thinking: its parameters, and the thinking blocks that are sent back."""

from collections.abc import Iterator

from tests.wire.simulator.memory import sealed_prefix, thinking_mode
from tests.wire.simulator.prompt import THINKING, canonical, prefixes

from .base import Call, Table
from .options import is_int

KINDS: dict[str, tuple[str, ...]] = {
    "adaptive": ("type", "display"),
    "enabled": ("type", "budget_tokens", "display"),
    "disabled": ("type",),
    "between_tools": ("type",),
}
DISPLAYS = (None, "summarized", "omitted")
SMALLEST_BUDGET = 1_024
RULES_ON_OPTION = Table()


@RULES_ON_OPTION.rule("thinking.shape")
def shape(call: Call) -> Iterator[str]:
    """Require a known type, with the fields of that type."""
    given = call.body.get("thinking")
    if given is None:
        return
    allowed = KINDS.get(given.get("type"))
    if allowed is None:
        yield f"thinking: Input tag should be one of {', '.join(map(repr, KINDS))}"
        return
    for name in given:
        if name not in allowed:
            yield f"thinking.{given['type']}.{name}: Extra inputs are not permitted"
    if given.get("display") not in DISPLAYS:
        yield f"thinking.{given['type']}.display: Input should be 'summarized' or 'omitted'"


def _kind(call: Call) -> str | None:
    return call.body.get("thinking", {}).get("type")


def _is_enough(budget: object) -> bool:
    return is_int(budget) and budget >= SMALLEST_BUDGET


RULES_ON_OPTION.refuse(
    "thinking.off",
    'thinking: type "disabled" is not supported for this model.',
    lambda call: call.model.always_thinks and _kind(call) == "disabled",
)
RULES_ON_OPTION.refuse(
    "thinking.between_tools",
    'thinking: type "between_tools" is not supported for this model.',
    lambda call: not call.model.always_thinks and _kind(call) == "between_tools",
)
RULES_ON_OPTION.refuse(
    "thinking.budget",
    f"thinking.enabled.budget_tokens: Input should be greater than or equal to {SMALLEST_BUDGET}",
    lambda call: _kind(call) == "enabled" and not _is_enough(call.body["thinking"].get("budget_tokens")),
)
RULES_ON_OPTION.refuse(
    "thinking.budget_fits",
    "`max_tokens` must be greater than `thinking.budget_tokens`.",
    lambda call: _kind(call) == "enabled" and call.body["thinking"]["budget_tokens"] >= call.body["max_tokens"],
)


RULES_ON_BLOCKS = Table()


@RULES_ON_BLOCKS.rule("thinking.switched")
def switched(call: Call) -> Iterator[str]:
    """Refuse to switch thinking on or off inside a tool loop."""
    mode = thinking_mode(call.body, call.model)
    for index in _loop(call):
        for block in call.turns[index][2]:
            issued = call.memory.call(block.get("id"))
            if issued is not None and issued.mode != mode:
                yield (
                    f"messages.{index}: thinking was {issued.mode} when this tool loop began and is now {mode}; "
                    "it cannot be switched on or off inside a tool loop."
                )


@RULES_ON_BLOCKS.rule("thinking.signature")
def signature(call: Call) -> Iterator[str]:
    """Refuse a thought that is not ours, every byte of it."""
    for where, _, block in call.blocks(*THINKING):
        if sealed_prefix(block) is None:
            yield f"{where}: Invalid `signature` in `{block['type']}` block"


@RULES_ON_BLOCKS.rule("thinking.dropped")
def dropped(call: Call) -> Iterator[str]:
    """Require every thought of a tool loop back, in its order."""
    for index in _loop(call):
        blocks = call.turns[index][2]
        returned = tuple(canonical(block) for block in blocks if block["type"] in THINKING)
        for block in blocks:
            issued = call.memory.call(block.get("id"))
            if issued is not None and issued.thoughts != returned:
                yield (
                    f"messages.{index}: `thinking` or `redacted_thinking` blocks in the latest assistant message "
                    "cannot be modified. These blocks must remain as they were in the original response."
                )


@RULES_ON_BLOCKS.rule("history.append_only")
def append_only(call: Call) -> Iterator[str]:
    """Refuse changes in front of a thought on the newest models."""
    if not call.model.append_only:
        return
    before = prefixes(call.segments)
    for at, segment in enumerate(call.segments):
        if segment.kind in THINKING and sealed_prefix(segment.block) != before[at]:
            yield (
                f"{segment.where}: `{segment.kind}` blocks are bound to the conversation before them: `system`, "
                "`tools` and earlier messages cannot be modified."
            )


def _loop(call: Call) -> Iterator[int]:
    """Yield the assistant's messages since the last user message that is not a tool result."""
    start = 0
    for index, role, blocks in call.turns:
        if role == "user" and all(block["type"] != "tool_result" for block in blocks):
            start = index
    yield from (index for index, role, _ in call.turns[start:] if role == "assistant")
