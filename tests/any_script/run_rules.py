"""Rules for every run of any script, derived from the specified behaviors and not from the tested code."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from run_specialist.loop.transcript import FEW_CHARACTERS
from run_specialist.providers.base import Choice
from run_specialist.record.events import BudgetSpent, Called, Finished, Replied, Requested, Started, Summarized, Warned
from run_specialist.record.messages import Block, Message, encode
from tests.any_script.run_script import AugmentedCall, ScriptedRun
from tests.any_script.scripted_model import ModelRequest

EXIT_CODES = {"answered": {0}, "landed": {0}, "partial": {0}, "failed": {3, 4}, "aborted": {130}}


def the_run_has_an_outcome(played: ScriptedRun) -> None:
    """Check that every run has an outcome, with the exit code of its status."""
    assert played.outcome is not None or played.cancelled
    assert played.cancelled == played.was_cancelled or played.is_aborted
    if played.outcome is None:
        return
    end = played.outcome
    assert int(end.exit_code) in EXIT_CODES[end.status]
    is_full = "; the model's context is full" in str(end.error)  # refused by the endpoint
    assert (end.exit_code == 3) == (end.status == "failed" and (is_full or not _is_silence(end.error)))
    assert end.answer.strip() or end.status in {"failed", "aborted"}
    assert "internal error" not in (end.error or "") or "a bug" in str(end.error)
    assert (end.landing is not None) or end.status != "landed"
    encode(end.as_json())


def _is_silence(error: str | None) -> bool:
    words = (
        "without an answer",
        "refused to answer",
        "internal error",
        "no answer at the limit",
        "cut off",
        "context",
        "match output_schema",
        "paused",
    )
    return any(one in (error or "") for one in words)


def a_stopped_run_sends_no_more_requests(played: ScriptedRun) -> None:
    """Check that an aborted run sends no further request and starts no further calls, except those of the same turn."""
    if played.script.abort_at is not None:
        assert all(asked.events <= played.script.abort_at for asked in played.requests)
        stopped, after = played.events[played.script.abort_at :][:1], played.events[played.script.abort_at + 1 :]
        begun = any(isinstance(event, Called) and event.phase == "started" for event in after)
        # During a call, other calls of the same turn may start.
        assert not begun or any(isinstance(event, Called | BudgetSpent) for event in stopped)


def nothing_gathered_is_lost(played: ScriptedRun) -> None:
    """Check that the answer is not empty if a reply had text or a tool call succeeded with output."""
    end = played.end
    gathered = any(told.executed.text.strip() and not told.executed.is_error for told in played.told)
    # JSON that was cut off before its answer says nothing.
    said = any(
        asked.reply and asked.reply.text and not (asked.choice is Choice.SCHEMA and asked.reply.text == '{"ans')
        for asked in played.requests
    )
    if gathered or said:
        assert end.answer.strip()


def every_call_has_one_result(played: ScriptedRun) -> None:
    """Check that every call has exactly one result in the next message and in call order, in all transcripts."""
    for messages in (*(asked.messages for asked in played.requests), played.transcript):
        for at, message in enumerate(messages):
            called = [block["id"] for block in message.content if block["type"] == "tool_use"]
            behind = messages[at + 1].content if at + 1 < len(messages) else ()
            answers = [block["tool_use_id"] for block in behind if block["type"] == "tool_result"]
            if message.role == "assistant":
                assert called == answers, f"{called} were called and {answers} answered"
                assert message.content
                assert message.landing_instruction is None
            else:
                assert not called
                assert not (at == 0 and any(block["type"] == "tool_result" for block in message.content))
                assert not (at + 1 < len(messages) and behind[0]["type"] == "tool_result")


def history_is_only_added_to(played: ScriptedRun) -> None:
    """Check that each request extends the previous one byte for byte.

    Exceptions: a summary, and the last message of a request that did not become history.
    """
    (opening,) = played.model.openings
    assert opening is played.opening
    for one, two in pairwise(played.requests):
        if any(isinstance(event, Summarized) for event in played.events[one.events : two.events]) or played.is_deaf:
            continue
        kept = len(one.encoded)
        if two.encoded[:kept] == one.encoded:
            continue
        assert one.reply is None or not _entered(one, two)
        assert two.encoded[:-1] == one.encoded[:-1]
        for before, after in zip(one.messages[-1].blocks, two.messages[-1].blocks, strict=True):
            assert after == before or after == _cut(before)


def _cut(block: Block) -> Block:
    """Return a result block as it is sent after truncation for a full context."""
    return {**block, "content": f"{block.get('content', '')[:FEW_CHARACTERS]}\n[truncated]"}


def _entered(one: ModelRequest, two: ModelRequest) -> bool:
    return len(two.messages) > len(one.messages)


def events_match_the_outcome(played: ScriptedRun) -> None:
    """Check the events of a run.

    `Started` is first and `Finished` last, each result has one event, and amounts never decrease or exceed those of the
    outcome.
    """
    assert isinstance(played.events[0], Started)
    deaf_at = None if played.script.cancel_at is not None else played.script.deaf_at
    assert deaf_at is None or len(played.events) <= deaf_at + 1, "a listener that failed is told nothing more"
    assert sum(isinstance(event, Started | Finished) for event in played.events[1:]) == (not played.is_deaf)
    for event in played.events:
        encode(event.as_json())
    spent: dict[str, float] = {}
    for event in played.of(BudgetSpent):
        assert event.used >= spent.get(event.kind, 0)
        spent[event.kind] = event.used
    if played.is_deaf:
        return
    for kind, used in spent.items():
        final = played.end.limits[kind].used
        assert final is None or used <= final + 0.001 or played.is_stopped, f"{kind}: {used} told, {final} at the end"
    replied = [
        (event.turn, isinstance(event, Replied)) for event in played.events if isinstance(event, Requested | Replied)
    ]
    for (turn, was_reply), (later, is_reply) in pairwise(replied):
        assert (later == turn and not was_reply) if is_reply else later == turn + was_reply
    warned = Counter(event.text for event in played.of(Warned))
    assert not warned - Counter(played.end.warnings)
    if not played.is_stopped and not played.of(Summarized):
        answered = _count(played.transcript, "type", "tool_result") - _count(played.transcript, "name", "respond")
        phases = Counter(event.phase for event in played.of(Called))
        if "internal error" not in (played.end.error or ""):
            assert answered == phases["finished"] + phases["failed"] + phases["skipped"]


def _count(messages: Sequence[Message], key: str, value: str) -> int:
    return sum(block.get(key) == value for message in messages for block in message.content)


def results_contain_the_tool_outputs(played: ScriptedRun) -> None:
    """Check that each result starts with the raw output and ends with the warning and the countdown, if any."""
    if played.is_deaf:
        return
    for told in played.told:
        contents = _contents(played, told)
        if not contents or len(contents) > 1:
            continue
        content, text = contents[0], told.executed.text
        if played.script.fields or played.script.limit_fields:
            continue
        assert (
            content.startswith(text or ("[truncated]" if told.executed.truncated else "(no output)"))
            or not text.strip()
        )
        assert told.executed.truncated == ("[truncated]" in content.split("\n"))
        words = told.lines
        assert content.endswith("\n".join(words))
        if (
            not words
            and not told.executed.truncated
            and text.strip()
            and not told.executed.note
            and not told.executed.repeated
        ):
            assert content == text


def _contents(played: ScriptedRun, told: AugmentedCall) -> list[str]:
    """Return the contents of the call's results in the next request; several if ids repeat."""
    asked = next((one for one in played.requests if one.events and played.replies_before(one) == told.turn), None)
    if asked is None:
        return []
    return [
        block["content"]
        for block in asked.messages[-1].blocks
        if block["type"] == "tool_result"
        and block["tool_use_id"] == told.executed.call.id
        and not block["content"].startswith("SUMMARIZED")
    ]


RULES = (
    the_run_has_an_outcome,
    a_stopped_run_sends_no_more_requests,
    nothing_gathered_is_lost,
    every_call_has_one_result,
    history_is_only_added_to,
    events_match_the_outcome,
    results_contain_the_tool_outputs,
)
