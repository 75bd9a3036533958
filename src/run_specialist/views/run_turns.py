"""The turns of a run on its page: requests, calls, results, quotes."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist import budget, prompts
from run_specialist.loop.evidence import forms, is_in, label
from run_specialist.record.journal import Received, Returned
from run_specialist.record.messages import Block, Usage, sendable, text_of
from run_specialist.record.outcome import AskedModel
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.store.stored import StoredEvent, StoredRun
from run_specialist.views.page import MOST_CHARACTERS, brief, lasted, pretty, total
from run_specialist.views.run_charts import Axis, calls_by_turn, events_of


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A tool result as the model received it."""

    content: str
    """The result without the landing instruction."""
    instruction: str = ""
    """The landing instruction, if the result contains one."""
    is_error: bool = False

    def parted(self, text: str, notes: Sequence[str]) -> tuple[str, list[str]]:
        """Return the tool's output and the lines appended to it.

        text: the output of the tool.
        notes: appended lines to omit, because they belong to the output.
        """
        for output in (text, prompts.EMPTY_RESULT):
            if output and self.content.startswith(output):
                lines = [*self.content[len(output) :].split("\n"), self.instruction]
                return output, [line for line in lines if line and line not in notes]
        return self.content, [self.instruction] if self.instruction else []


def results(run: StoredRun) -> dict[tuple[int, int], ShownResult]:
    """Return the result of each call by the number of its turn and its position in the turn, from 0.

    Call ids are not used as keys, because servers may reuse them.
    """
    found: dict[tuple[int, int], ShownResult] = {}
    copies = {one.part: one.message for one in run.messages if one.copied}
    turn, following = None, 0
    for one in run.messages:
        if one.copied:
            continue
        # If a summary preceded sending, only the copy in the next part has the landing instruction.
        again = copies.get(one.part + 1)
        message = again if again is not None and _same(again.blocks, one.message.blocks) else one.message
        if message.role == "assistant":
            later = range(following, len(run.turns))
            at = next(
                (place for place in later if _same(sendable(run.turns[place].reply.content), message.blocks)), None
            )
            turn = None if at is None else run.turns[at]
            following = following if at is None else at + 1
        elif turn is not None:
            blocks = [block for block in message.blocks if block.get("type") == "tool_result"]
            for position, block in enumerate(blocks):
                instruction = message.landing_instruction if block is blocks[-1] else None
                shown = ShownResult(text_of(block.get("content")), instruction or "", bool(block.get("is_error")))
                found[turn.number, position] = shown
            turn = None
    return found


def _same(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return len(one) == len(other) and all(dict(a) == dict(b) for a, b in zip(one, other, strict=True))


BRIEF = 160
"""Maximum length of the arguments in a call's heading [characters]."""

_UNFINISHED = prompts.STOPPED.partition(":")[0]


def turns(
    run: StoredRun,
    axis: Axis,
    marks: Sequence[Mapping[str, Any]],
    holders: Sequence[Returned | None],
    child_ids: Mapping[int, str],
) -> list[dict[str, Any]]:
    """Return the turns in order, each with the marks before it, the model's text, and its calls.

    holders: for each piece of evidence, the call whose result contains it.
    child_ids: ids of child runs by the number of the `delegate` call.
    """
    shown = results(run)
    quotes: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for number, (holder, one) in enumerate(zip(holders, (run.outcome or {}).get("evidence", ()), strict=False), 1):
        if holder is not None:
            quotes[holder.number].append((number, str(one["quote"])))
    executed = calls_by_turn(run)
    return [
        {
            "number": turn.number,
            **_request(turn, axis),
            "text": turn.reply.text,
            "copied": turn.number <= (run.forked_at or 0),
            "before": [mark for mark in marks if mark["before"] == turn.number],
            "calls": list(_calls(turn, executed[turn.number], shown, quotes, child_ids)),
        }
        for turn in run.turns
    ]


def _request(turn: Received, axis: Axis) -> dict[str, Any]:
    own = {key: getattr(turn, key) for key in ("seconds", "choice", "landing")}
    return {"begin": axis(turn.at - turn.seconds), **own, "stop": turn.reply.stop, "reason": turn.reply.reason}


def _calls(
    turn: Received,
    executed: Iterable[Returned],
    shown: Mapping[tuple[int, int], ShownResult],
    quotes: Mapping[int, Sequence[tuple[int, str]]],
    child_ids: Mapping[int, str],
) -> Iterator[dict[str, Any]]:
    """Yield the calls of a turn: the executed ones, and the others with the result that the model received."""
    unmatched = list(executed)
    before = [one.call for one in unmatched if not one.turn]
    blocks: list[Block] = [{"input": one.arguments} for one in before]
    blocks += [block for block in turn.reply.content if block.get("type") == "tool_use"]
    both = zip(blocks, (*before, *turn.reply.calls), strict=True)
    for position, (block, call) in enumerate(both, -len(before)):
        # Completed calls are stored in call order; interrupted ones are not stored.
        stored = next((one for one in unmatched if one.call == call), None)
        result = shown.get((turn.number, position))
        ending = ""
        marked: Sequence[tuple[int, str]] = ()
        if stored is not None:
            unmatched.remove(stored)
            state, marked = "failed" if stored.is_error else "finished", quotes.get(stored.number, ())
            notes = [prompts.TRUNCATED, prompts.SAME_CALL, *stored.note.split("\n")]
            content, added = (result or ShownResult(stored.text)).parted(stored.text, notes)
            ending = next((line for line in reversed(added) if result is None or line != result.instruction), "")
        else:
            content, added = (result.content, [result.instruction]) if result else ("", [])
            if call.name == RESPOND:
                state = "not taken" if result and result.is_error else "answer"
            else:
                state = "skipped" if result and not content.startswith(_UNFINISHED) else "unfinished"
        yield {
            "anchor": str(stored.number) if stored else f"{turn.number}-{position + 1}",
            "name": call.name,
            "call_id": call.id,
            "arguments": pretty(block.get("input")),
            "brief": brief(block.get("input"), BRIEF),
            "number": stored and stored.number,
            "child": child_ids.get(stored.number) if stored else None,
            "state": state,
            "repeated": stored is not None and stored.repeated,
            "seconds": stored and stored.seconds,
            "characters": len(stored.text) if stored else None,
            "whole": len(stored.whole) if stored else None,
            "note": stored.note if stored else "",
            "ending": ending,
            "added": [line for line in added if line],
            "result": parted(content[:MOST_CHARACTERS], marked),
            "left_out": max(len(content) - MOST_CHARACTERS, 0),
        }


# Separators between two words of a quote, including the location that tools print before each line.
_SPACE = r"(?:\s*\n(?:[^\n:]{1,300}:\d+[:-] ?|[ \t]*\d+\t)?\s*|\s+)"


def holders(run: StoredRun) -> list[Returned | None]:
    """Return, for each piece of evidence, the call whose result contains it; None if no result does."""
    evidence: Sequence[Mapping[str, Any]] = (run.outcome or {}).get("evidence") or ()
    candidates = [(call, forms(call.text)) for call in run.calls if not call.is_error] if evidence else []
    found: list[Returned | None] = []
    for one in evidence:
        source, quote = str(one["source"]), str(one["quote"])
        # A salvaged answer quotes the start of a result, which may end inside a notice and then is no quote of it.
        holding = [call for call, texts in candidates if is_in(texts, quote) or (quote and call.text.startswith(quote))]
        found.append(min(holding, key=lambda call: (not _matches(call, source), call.number), default=None))
    return found


def _matches(call: Returned, source: str) -> bool:
    """Return whether a call concerns a source: usually `path:line`; in a salvaged answer, the call itself."""
    path, _, line = source.rpartition(":")
    if path and (f"{source}:" in call.text or f"{path}-{line}-" in call.text):
        return True
    arguments = {value for value in (call.call.arguments or {}).values() if isinstance(value, str)}
    return source == label(call.call) or bool({source, path or source} & arguments)


def parted(text: str, quotes: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """Split a text into pieces `{"text", "quote"}`, where `quote` is the number of a quote, or None.

    quotes: pairs of number and quote.
    """
    spans = []
    for number, quote in quotes:
        words = quote.split()
        if words and (found := re.search(_SPACE.join(map(re.escape, words)), text)):
            spans.append((*found.span(), number))
    pieces: list[dict[str, Any]] = []
    position = 0
    for begin, end, number in sorted(spans):
        if begin >= position:
            pieces += [{"text": text[position:begin], "quote": None}, {"text": text[begin:end], "quote": number}]
            position = end
    return [piece for piece in (*pieces, {"text": text[position:], "quote": None}) if piece["text"]]


# A request that reads a smaller share of the cached tokens counts as a cache miss.
_LOST_BELOW = 0.5
# Minimum size of a cache entry with most providers [tokens].
_LEAST_CACHED = 1_024
# Time to live of a cache entry since its last read [s].
_CACHE_LIVES = 300


_SUMMED = ("input", "read", "written", "output", "total", "cost")


def requests(run: StoredRun, axis: Axis) -> dict[str, Any]:
    """Return the table of requests, including those for summaries, and sentences about the cache."""
    usages = [turn.reply.usage for turn in run.own_turns]
    uses_cache = any(one.cache_read_input_tokens or one.cache_creation_input_tokens for one in usages)
    rows: list[dict[str, Any]] = []
    before: Received | None = None
    is_summarized = False
    both: list[StoredEvent | Received] = [*events_of(run, "summarized"), *run.own_turns]
    for one in sorted(both, key=lambda one: one.at):
        if isinstance(one, Received):
            lost = _cache_miss(run, one, before, is_summarized=is_summarized) if uses_cache and before else None
            row = {"turn": one.number, "name": f"turn {one.number}", **_request(one, axis), "lost": lost}
            rows.append({**row, **_tokens(one.reply.usage), "cost": one.cost_usd})
            before, is_summarized = one, False
        else:
            row = {"turn": None, "name": "summary", "begin": axis(one.at), "seconds": None, "choice": "auto"}
            row |= {"landing": False, "stop": "", "reason": "", "lost": None}
            rows.append({**row, **_tokens(Usage(**one.body["usage"])), "cost": one.body["cost_usd"]})
            is_summarized = True
    turns = [row for row in rows if row["turn"] is not None]
    return {
        "rows": rows,
        "largest": max((row["total"] for row in rows), default=0),
        "sentences": list(_sentences(run, turns, uses_cache=uses_cache)),
        "losses": [{"turn": row["turn"], "words": row["lost"]} for row in turns if row["lost"]],
        "total": {key: total(row[key] for row in rows) for key in _SUMMED},
    }


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input": usage.input_tokens,
        "read": usage.cache_read_input_tokens,
        "written": usage.cache_creation_input_tokens,
        "output": usage.output_tokens,
        "total": usage.total_tokens,
    }


def _cache_miss(run: StoredRun, turn: Received, before: Received, *, is_summarized: bool) -> str | None:
    """Return the cause of a cache miss; None if a request read the cache as expected.

    before: the previous request.
    is_summarized: whether the transcript was summarized between the two.
    """
    usage = before.reply.usage
    cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    if not usage.cache_creation_input_tokens:
        # Servers with automatic caching do not report cache writes.
        cached = usage.total_tokens - usage.output_tokens
    read, waited = turn.reply.usage.cache_read_input_tokens, (turn.at - turn.seconds) - (before.at - before.seconds)
    if cached < _LEAST_CACHED or read >= cached * _LOST_BELOW:
        return None
    if run.model_of(turn.number) != run.model_of(before.number):
        cause = "expected: it went to another model, which has no cache of what was sent before"
    elif is_summarized:
        cause = "expected: a summary replaced the older messages, so the messages after it are not cached"
    elif turn.choice != before.choice:
        cause = "expected: its tool choice differs from that of the previous request, so the messages do not match"
    elif waited > _CACHE_LIVES:
        cause = f"it was sent {lasted(waited)} after the previous request, and unused entries expire in about 5 minutes"
    else:
        cause = "no cause within this run: the server evicted the entry, or the text before it changed"
    return f"read {read:,} of {cached:,} cached tokens: {cause}"


def _sentences(run: StoredRun, rows: Sequence[dict[str, Any]], *, uses_cache: bool) -> Iterator[str]:
    """Yield sentences about copied turns, the models, and the cache."""
    if number := len(run.turns) - len(run.own_turns):
        turns = "turn is" if number == 1 else f"{number} turns are"
        yield f"The first {turns} copied from {run.forked_from}, which paid for them; these figures are without them."
    for one in _several(run):
        if not one.turns:
            yield f"{one.model} answered no request."
            continue
        last = one.since_turn + one.turns - 1
        asked = f"Turn {last} was" if one.turns == 1 else f"Turns {one.since_turn} to {last} were"
        cost = "price unknown" if one.cost_usd is None else budget.dollars(one.cost_usd)
        yield f"{asked} requested from {one.model}: {budget.counted(one.usage.total_tokens, 'token')}, {cost}."
    if not any(row["total"] for row in rows):
        yield "No tokens were billed." if rows else "No request was answered."
        return
    if not uses_cache:
        yield "The prompt cache was neither read nor written, or the server does not report it."
        return
    inputs = sum(row["input"] + row["read"] + row["written"] for row in rows)
    read = sum(row["read"] for row in rows)
    readers = sum(bool(row["read"]) for row in rows)
    verb = "reads" if readers == 1 else "read"
    share = f"{read:,} of {inputs:,} input tokens, {read / inputs:.0%}"
    yield f"{readers} of {budget.counted(len(rows), 'request')} {verb} from the cache: {share}."
    losses = sum(1 for row in rows if row["lost"])
    if losses or len(rows) > 1:
        missed = budget.counted(losses, "request") if losses else "No request"
        yield f"{missed} missed the cache entry of the previous request."


def models(run: StoredRun) -> list[dict[str, Any]]:
    """Return the models in order, each with its turns and their cost; empty if there is only one."""
    return [
        {
            **{key: getattr(one, key) for key in ("model", "turns", "cost_usd", "failure")},
            "tokens": one.usage.total_tokens,
        }
        for one in _several(run)
    ]


def _several(run: StoredRun) -> tuple[AskedModel, ...]:
    asked = run.snapshot.models if run.snapshot else ()
    return asked if len(asked) > 1 else ()
