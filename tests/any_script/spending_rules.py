"""Rules for spending and landing in every run, derived from the specified behaviors and not from the tested code."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

from run_specialist.budget import Kind, Limit
from run_specialist.prompts import WARNING
from run_specialist.record.events import Called, Landed, Replied, Requested, Summarized
from run_specialist.record.messages import Reply, Stop, Usage
from tests.any_script.run_script import ScriptedRun
from tests.any_script.scripted_model import ModelRequest


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
    waits = 1 + 6 + 3 if played.script.landing == "finalize" else 0
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
        assert told[-1:] == [is_spent and played.script.limit_fields] or not told


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


SPENDING_RULES = (
    executed_calls_stay_within_their_limit,
    landings_are_bounded,
    other_limits_stop_the_work,
    usage_is_the_sum_of_all_replies,
    countdown_lines_match_the_budget,
)
