"""Rules for every run of any script, derived from the specified behaviors and not from the tested code."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from run_specialist.budget import Kind, Limit
from run_specialist.loop.transcript import FEW_CHARACTERS
from run_specialist.prompts import WARNING
from run_specialist.providers.base import Choice
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    Finished,
    Landed,
    Replied,
    Requested,
    Started,
    Summarized,
    Warned,
)
from run_specialist.record.messages import Block, Message, Reply, Stop, Usage, encode
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
    assert opening is played.job.opening
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


def executed_calls_stay_within_their_limit(played: ScriptedRun) -> None:
    """Check that no more calls run than the limit allows; skipped calls and `respond` do not count."""
    end, limit = played.end, played.script.limits.get(Kind.TOOL_CALLS)
    assert limit is None or end.tool_calls.used <= limit
    assert len(played.done) <= end.tool_calls.used
    if played.is_deaf:
        return
    phases = Counter(event.phase for event in played.of(Called))
    assert phases["finished"] + phases["failed"] <= phases["started"] <= end.tool_calls.used
    assert phases["skipped"] == end.tool_calls.skipped
    if not played.is_stopped:
        assert phases["finished"] + phases["failed"] == phases["started"] == end.tool_calls.used == len(played.told)
        assert phases["failed"] == end.tool_calls.failed
    landed = next((at for at, event in enumerate(played.events) if isinstance(event, Landed)), len(played.events))
    assert not any(isinstance(event, Called) and event.phase == "started" for event in played.events[landed:])


def landings_are_bounded(played: ScriptedRun) -> None:
    """Check that a landing takes at most three answered requests, and that the outcome has their number."""
    end = played.end
    if end.landing is None:
        assert played.is_deaf or not played.of(Landed)
        return
    assert 0 <= end.landing.requests <= 3
    first = next((at for at, event in enumerate(played.events) if isinstance(event, Landed)), len(played.events))
    assert all(event.choice == "auto" for event in played.events[:first] if isinstance(event, Requested))
    told = [event.how.value for event in played.of(Landed)]
    assert len(told) == len(set(told)), "a rung is tried once"
    if played.is_deaf or played.is_stopped:
        return
    assert end.landing.requests == _counted(played)


def _counted(played: ScriptedRun) -> int:
    """Count the replies of the landing, except those that were requested again."""
    excused: Counter[str] = Counter()
    counted, rung, events = 0, None, played.events
    replies = iter([asked for asked in played.requests if asked.reply])
    following = {id(asked): later for asked, later in pairwise(played.requests)}
    for at, event in enumerate(events):
        if isinstance(event, Landed):
            rung = event.how
        if not isinstance(event, Replied):
            continue
        answered = next(replies)
        reply = answered.reply
        assert reply is not None
        asked_again = any(isinstance(one, Requested) for one in events[at + 1 :])
        lacks_quote = id(answered) in following and _is_for_lack_of_a_quote(answered, following[id(answered)])
        why = _excuse(reply) if asked_again and not lacks_quote else None
        if why and excused[why] < EXCUSES[why]:
            excused[why] += 1
        elif rung is not None:
            counted += 1
    return counted


def _is_for_lack_of_a_quote(answered: ModelRequest, later: ModelRequest) -> bool:
    """Tell whether a request returns the answer to the one before it because of its quotes, which counts."""
    tail = later.messages[-1]
    return tail != answered.messages[-1] and any(words in str(tail.content) for words in LACKS_QUOTE)


LACKS_QUOTE = ("it has no quote from the results", "none of its quotes stands")
EXCUSES = {"cut": 1, "full": 1, "no answer": 2}
"""How often a reply may be requested again without counting: truncated, context full, missing or invalid answer."""


def _excuse(reply: Reply) -> str | None:
    """Return the reason for which a reply may be requested again, or None."""
    if reply.stop is Stop.TRUNCATED:
        return "cut" if reply.more_room_helps else "full"
    works = reply.stop is not Stop.ANSWERED and reply.calls and all(call.name != "respond" for call in reply.calls)
    is_paused = reply.stop is Stop.PAUSED and not reply.calls
    return None if works or is_paused else "no answer"


def other_limits_stop_the_work(played: ScriptedRun) -> None:
    """Check that no ordinary request follows once a limit is spent, and that the landing stays short."""
    end, limits = played.end, played.script.limits
    if played.is_deaf:
        return
    landed = next((at for at, event in enumerate(played.events) if isinstance(event, Landed)), len(played.events))
    before = [event for event in played.events[:landed] if isinstance(event, Replied | Summarized)]
    while before and isinstance(before[-1], Summarized):
        before.pop()
    ordinary = [one for one in before if isinstance(one, Replied)]
    turns, tokens, cost = (limits.get(kind) for kind in (Kind.TURNS, Kind.TOKENS, Kind.COST))
    # Before the notice is sent, the model may still call tools once, pause, and be asked again.
    waits = 1 + 6 + 3 if played.script.settings.get("landing") == "finalize" else 0
    if turns is not None:
        assert len(ordinary) <= max(turns - 1, 0) + waits
    assert end.limits["turns"].used <= len(ordinary) + 3 + 3 + 1
    spent = sum(one.usage.total_tokens for one in before[:-1])
    if tokens is not None and ordinary and not waits:
        assert spent < tokens
    if cost is not None and ordinary and played.script.priced and not waits:
        assert spent * 1e-5 < cost
    characters = limits.get(Kind.CHARACTERS)
    assert characters is None or end.limits["characters"].used <= characters
    time = limits.get(Kind.TIME)
    jumps = any(line.jump for line in (*played.script.lines, *played.script.summaries)) or "jump" in played.done
    if time is not None and not jumps:
        assert played.seconds <= time + min(max(time / 10, 5), time / 2) + 0.001


def usage_is_the_sum_of_all_replies(played: ScriptedRun) -> None:
    """Check that usage and cost include every reply and summary."""
    end = played.end
    if played.is_deaf:
        return
    told = [event.usage for event in played.events if isinstance(event, Replied | Summarized)]
    # An interrupted summary is paid for as well, and no event reports it.
    assert sum(told, Usage()) == end.usage or played.has_summarizer
    assert end.usage.total_tokens == end.limits["tokens"].used
    replies = [asked.reply for asked in played.requests if asked.reply is not None]
    assert end.limits["turns"].used == len(played.of(Replied)) == len(replies)
    if all(one.total_tokens for one in played.model.used):
        assert sum(played.model.used, Usage()) == end.usage
    if played.script.priced:
        assert end.cost_usd is not None
        assert abs(end.cost_usd - end.usage.total_tokens * 1e-5) < 1e-6
    else:
        assert end.cost_usd is None or not told


def countdown_lines_match_the_budget(played: ScriptedRun) -> None:
    """Check the budget of each call in call order, its countdown if the phase requires one, and at most one warning."""
    if played.is_deaf:
        return
    characters = 0
    begun = played.told[0].turn if played.told else 0
    for number, told in enumerate(played.told, 1):
        budget = told.executed.budget
        characters += len(told.executed.text)
        assert budget[Kind.TOOL_CALLS].used == number
        assert budget[Kind.CHARACTERS].used == characters
        assert budget[Kind.TURNS].used == told.turn >= begun
        assert budget[Kind.TOKENS].used == told.tokens
        assert budget[Kind.TIME].used <= told.seconds
        tightest = max(budget.limits, key=lambda one: (one.limit is not None, _rank(one), _share(one)))
        counted = [line for line in told.lines if line != WARNING]
        assert bool(counted) == (_rank(tightest) > 0 and played.script.countdown_from is not None)
        if counted and played.script.style == "remaining" and tightest.kind is Kind.TOOL_CALLS:
            left = max(played.script.limits[Kind.TOOL_CALLS] - number, 0)
            assert counted == [f"{left} tool call{'' if left == 1 else 's'} remaining"]
        if told.executed.number == told.executed.of_turn:
            _check_limit_fields(played, told.turn, is_spent=_rank(tightest) == 2)
    assert sum(told.warned for told in played.told) <= 1
    assert not any(told.warned and any(_rank(one) == 2 for one in told.executed.budget.limits) for told in played.told)


def _check_limit_fields(played: ScriptedRun, turn: int, *, is_spent: bool) -> None:
    """Check that only the last result of a turn has the JSON field `limit_reached`, and only if the limit is spent."""
    asked = next((one for one in played.requests if played.replies_before(one) == turn), None)
    if asked is not None:
        blocks = [block for block in asked.messages[-1].blocks if block["type"] == "tool_result"]
        told = ['"limit_reached": true' in block["content"] for block in blocks]
        assert not any(told[:-1])
        has_fields = played.script.limit_fields and played.script.countdown_from is not None
        assert told[-1:] == [is_spent and has_fields] or not told


def _rank(limit: Limit) -> int:
    """Return 0 for silent, 1 for countdown, 2 for spent."""
    if limit.limit is None:
        return 0
    if limit.used + limit.held_back >= limit.limit:
        return 2
    start = limit.countdown_from
    if start is None:
        return 0
    if isinstance(start, int):
        return int(limit.limit - limit.used <= start)
    return int(limit.used >= Fraction(str(start)) * Fraction(str(limit.limit)))


def _share(limit: Limit) -> float:
    return 0.0 if limit.limit is None else limit.used / limit.limit if limit.limit else 1.0


RULES = (
    the_run_has_an_outcome,
    a_stopped_run_sends_no_more_requests,
    nothing_gathered_is_lost,
    every_call_has_one_result,
    history_is_only_added_to,
    events_match_the_outcome,
    results_contain_the_tool_outputs,
    executed_calls_stay_within_their_limit,
    landings_are_bounded,
    other_limits_stop_the_work,
    usage_is_the_sum_of_all_replies,
    countdown_lines_match_the_budget,
)
