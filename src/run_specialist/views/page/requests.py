"""Tokens, cost and prompt cache usage of each request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.record.messages import Usage
from run_specialist.store.stored import StoredRun, StoredTurn
from run_specialist.views.page import asked_models
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.formats import counted, lasted

LOST_BELOW = 0.5
"""A request that reads a smaller share of the cached tokens counts as a cache miss."""
LEAST_CACHED = 1_024
"""Minimum size of a cache entry with most providers [tokens]."""
CACHE_LIVES = 300
"""Time to live of a cache entry since its last read [s]."""

FORCED = (
    "expected: its tool choice differs from that of the previous request, so the cached messages do not match; "
    "system prompt and tools are still read from the cache"
)
OTHER_MODEL = "expected: it went to another model, which has no cache of what was sent before"
REWRITTEN = "expected: a summary replaced the older messages, so the messages after it are not cached"
WAITED = "it was sent {} after the previous request, and unused cache entries expire after about 5 minutes"
UNKNOWN = "no cause within this run: the server evicted the entry, or the text before it changed"


@dataclass(frozen=True, slots=True)
class _Request:
    """A request and its context."""

    turn: StoredTurn
    before: StoredTurn | None
    summarized: bool
    """True if the transcript was summarized just before the request."""
    changed: bool
    """True if the request before went to another model."""

    @property
    def cached(self) -> int:
        """Tokens that the cache should contain."""
        if self.before is None:
            return 0
        usage = self.before.usage
        marked = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        # Servers with automatic caching do not report cache writes.
        return marked if usage.cache_creation_input_tokens else _input_tokens(usage)

    @property
    def waited(self) -> float:
        """Time since the start of the previous request [s]."""
        return 0 if self.before is None else _begin(self.turn) - _begin(self.before)


def requests(run: StoredRun, axis: Axis) -> dict[str, Any]:
    """Return the table of requests, including those for summaries, and sentences about the cache."""
    summaries = [event for event in run.events if event.body.get("event") == "summarized"]
    uses_cache = any(
        turn.usage.cache_read_input_tokens or turn.usage.cache_creation_input_tokens for turn in run.own_turns
    )
    rows: list[dict[str, Any]] = []
    before: StoredTurn | None = None
    for turn in run.own_turns:
        since = before.at if before else run.started_at
        preceding = [event for event in summaries if since < event.at <= turn.at]
        rows += [_summary_row(event.body, axis(event.at)) for event in preceding]
        changed = before is not None and run.model_of(turn.number) != run.model_of(before.number)
        lost = _cache_miss(_Request(turn, before, bool(preceding), changed)) if uses_cache else None
        rows.append(_row(turn, axis, lost))
        before = turn
    later = [event for event in summaries if before is None or event.at > before.at]
    rows += [_summary_row(event.body, axis(event.at)) for event in later]
    turns = [row for row in rows if row["turn"] is not None]
    return {
        "rows": rows,
        "largest": max((row["total"] for row in rows), default=0),
        "sentences": [*_copied(run), *asked_models.sentences(run), *_sentences(turns, uses_cache=uses_cache)],
        "losses": [{"turn": row["turn"], "words": row["lost"]} for row in turns if row["lost"]],
        "total": {key: sum(row[key] for row in rows) for key in ("input", "read", "written", "output", "total")}
        | {"cost": None if any(row["cost"] is None for row in rows) else sum(row["cost"] for row in rows)},
    }


def _copied(run: StoredRun) -> Iterator[str]:
    number = len(run.turns) - len(run.own_turns)
    if number:
        turns = "turn is" if number == 1 else f"{number} turns are"
        yield f"The first {turns} copied from {run.forked_from}, which paid for them; these figures are without them."


def _row(turn: StoredTurn, axis: Axis, lost: str | None) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "name": f"turn {turn.number}",
        "begin": axis(_begin(turn)),
        "seconds": turn.seconds,
        "choice": turn.choice,
        "landing": turn.landing,
        "stop": turn.stop,
        "reason": turn.reason,
        "lost": lost,
        **_tokens(turn.usage),
        "cost": turn.cost_usd,
    }


def _summary_row(body: Any, at: float) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {
        "turn": None,
        "name": "summary",
        "begin": at,
        "seconds": None,
        "choice": "auto",
        "landing": False,
        "stop": "",
        "reason": "",
        "lost": None,
        **_tokens(Usage(**body["usage"])),
        "cost": body["cost_usd"],
    }


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input": usage.input_tokens,
        "read": usage.cache_read_input_tokens,
        "written": usage.cache_creation_input_tokens,
        "output": usage.output_tokens,
        "total": usage.total_tokens,
    }


def _cache_miss(request: _Request) -> str | None:
    """Return the cause of a cache miss; None if the request read the cache as expected."""
    read, cached = request.turn.usage.cache_read_input_tokens, request.cached
    if cached < LEAST_CACHED or read >= cached * LOST_BELOW:
        return None
    return f"read {read:,} of {cached:,} cached tokens: {_cause(request)}"


def _cause(request: _Request) -> str:
    if request.changed:
        return OTHER_MODEL
    if request.summarized:
        return REWRITTEN
    if request.before is not None and request.turn.choice != request.before.choice:
        return FORCED
    if request.waited > CACHE_LIVES:
        return WAITED.format(lasted(request.waited))
    return UNKNOWN


def _sentences(rows: Sequence[dict[str, Any]], *, uses_cache: bool) -> list[str]:
    if not any(row["total"] for row in rows):
        return ["No tokens were billed."] if rows else ["No request was answered."]
    if not uses_cache:
        return ["The prompt cache was neither read nor written, or the server does not report it."]
    return list(_cache_sentences(rows))


def _cache_sentences(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    inputs = sum(row["input"] + row["read"] + row["written"] for row in rows)
    read = sum(row["read"] for row in rows)
    readers = [row for row in rows if row["read"]]
    verb = "reads" if len(readers) == 1 else "read"
    yield (
        f"{len(readers)} of {counted(len(rows), 'request')} {verb} from the cache: "
        f"{read:,} of {inputs:,} input tokens, {read / inputs:.0%}."
    )
    losses = sum(1 for row in rows if row["lost"])
    if losses:
        yield f"{counted(losses, 'request')} missed the cache entry of the previous request."
    elif len(rows) > 1:
        yield "No request missed the cache entry of the previous request."


def _input_tokens(usage: Usage) -> int:
    return usage.total_tokens - usage.output_tokens


def _begin(turn: StoredTurn) -> float:
    return turn.at - turn.seconds
