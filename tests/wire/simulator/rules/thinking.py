"""Rules on thinking: its parameters, and the thinking blocks that are sent back."""

from collections.abc import Iterator

from tests.wire.simulator.memory import sealed_prefix, thinking_mode
from tests.wire.simulator.prompt import THINKING, canonical, prefixes

from .base import Call, rule
from .options import is_int

KINDS: dict[str, tuple[str, ...]] = {
    "adaptive": ("type", "display"),
    "enabled": ("type", "budget_tokens", "display"),
    "disabled": ("type",),
    "between_tools": ("type",),
}
DISPLAYS = (None, "summarized", "omitted")
SMALLEST_BUDGET = 1_024


@rule("thinking.shape")
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


@rule("thinking.off")
def off(call: Call) -> Iterator[str]:
    """Refuse to stop the newest models from thinking."""
    if call.model.always_thinks and call.body.get("thinking", {}).get("type") == "disabled":
        yield 'thinking: type "disabled" is not supported for this model.'


@rule("thinking.between_tools")
def between_tools(call: Call) -> Iterator[str]:
    """Refuse the step in between to all other models."""
    if not call.model.always_thinks and call.body.get("thinking", {}).get("type") == "between_tools":
        yield 'thinking: type "between_tools" is not supported for this model.'


@rule("thinking.budget")
def budget(call: Call) -> Iterator[str]:
    """Require a whole number of at least 1,024 tokens."""
    given = call.body.get("thinking", {})
    if given.get("type") == "enabled":
        asked = given.get("budget_tokens")
        if not is_int(asked) or asked < SMALLEST_BUDGET:
            yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {SMALLEST_BUDGET}"


@rule("thinking.budget_fits")
def budget_fits(call: Call) -> Iterator[str]:
    """Require a budget that leaves room for an answer."""
    given = call.body.get("thinking", {})
    if given.get("type") == "enabled" and given["budget_tokens"] >= call.body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


@rule("thinking.switched")
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


@rule("thinking.signature")
def signature(call: Call) -> Iterator[str]:
    """Refuse a thought that is not ours, every byte of it."""
    for where, _, block in call.blocks(*THINKING):
        if sealed_prefix(block) is None:
            yield f"{where}: Invalid `signature` in `{block['type']}` block"


@rule("thinking.dropped")
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


@rule("history.append_only")
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


RULES_ON_OPTION = (shape, off, between_tools, budget, budget_fits)
RULES_ON_BLOCKS = (switched, signature, dropped, append_only)
