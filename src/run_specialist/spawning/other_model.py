"""Adapt a stored run for another model, which accepts only text and tool calls from earlier replies."""

from dataclasses import replace

from run_specialist.loop.job import ResumeState
from run_specialist.loop.portable import (
    named_arguments,
    named_blocks,
    naming,
    portable_blocks,
    portable_id,
    portable_messages,
)
from run_specialist.store.stored import StoredRun


def for_other_model(state: ResumeState, *, also_written: bool = False) -> ResumeState:
    """Return the state without the parts that only the first model accepts; the same object if there are none.

    also_written: also remove thinking that a server wrote at the beginning of the text.
    """
    messages = portable_messages(state.messages, also_written=also_written)
    pending = state.pending and replace(state.pending, content=portable_blocks(state.pending.content))
    if messages == state.messages and pending == state.pending:
        return state
    # The adapted transcript is stored as a new part, all of it copied.
    return replace(state, messages=messages, part=state.part + 1, copies=len(messages), pending=pending)


def with_own_ids(run: StoredRun) -> StoredRun:
    """Return a run in which all calls have new ids, for the reasons given in `portable_id`."""
    contents = [*(turn.blocks for turn in run.turns), *(one.message.blocks for one in run.messages)]
    ids = dict.fromkeys(block["id"] for blocks in contents for block in blocks if block.get("type") == "tool_use")
    # A run that has changed its model may have two ids of one call.
    known = {portable_id(call_id): call_id for call_id in ids if portable_id(call_id) != call_id}
    firsts = dict.fromkeys(known.get(call_id, call_id) for call_id in ids)
    names = {call_id: f"copied_{number}" for number, call_id in enumerate(firsts, 1)}
    names |= {call_id: names[known[call_id]] for call_id in ids if call_id in known}

    def name(call_id: str) -> str:
        return names.get(call_id, call_id)

    return replace(
        run,
        turns=tuple(replace(turn, blocks=named_blocks(turn.blocks, name)) for turn in run.turns),
        calls=tuple(
            replace(
                one,
                call=replace(one.call, id=name(one.call.id), arguments=named_arguments(one.call.arguments, name)),
                note=naming(one.note, name),
            )
            for one in run.calls
        ),
        messages=tuple(
            replace(one, message=replace(one.message, blocks=named_blocks(one.message.blocks, name)))
            for one in run.messages
        ),
    )
