"""What each request took, and what the prompt cache did for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.record.messages import Usage
from run_specialist.store.stored import StoredRun, StoredTurn
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.formats import counted, lasted

LOST_BELOW = 0.5
"""A request that reads less than this share of what was there to be read has lost it."""
LEAST_CACHED = 1_024
"""Less than this is not kept by most caches [tokens]."""
CACHE_LIVES = 300
"""How long an entry of the cache lives unless it is read again [s]."""

FORCED = (
    "by its nature: with another tool choice than the request before it has, the messages are new to the cache; "
    "system prompt and tools are still read from it"
)
REWRITTEN = "by its nature: a summary stands in place of the older messages, so what follows it is new to the cache"
WAITED = "it came {} after the one before, and an entry that nobody reads is kept for about 5 minutes"
UNKNOWN = "nothing that this run did explains it: the entry was given up by the server, or the text before it changed"


@dataclass(frozen=True, slots=True)
class _Request:
    """A request on its way into the table."""

    turn: StoredTurn
    before: StoredTurn | None
    summarised: bool
    """True when the transcript was summarised right before it."""

    @property
    def cached(self) -> int:
        """What was there to be read [tokens]."""
        if self.before is None:
            return 0
        usage = self.before.usage
        marked = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        # Servers that cache by themselves do not say what they write.
        return marked if usage.cache_creation_input_tokens else _whole(usage)

    @property
    def waited(self) -> float:
        """How long after the request before it went out [s]."""
        return 0 if self.before is None else _begin(self.turn) - _begin(self.before)


def requests(run: StoredRun, axis: Axis) -> dict[str, Any]:
    """Return the table of the requests, those for summaries among them, and what is to say about the cache."""
    summaries = [event for event in run.events if event.body.get("event") == "summarized"]
    uses_cache = any(turn.usage.cache_read_input_tokens or turn.usage.cache_creation_input_tokens for turn in run.turns)
    rows: list[dict[str, Any]] = []
    before: StoredTurn | None = None
    for turn in run.turns:
        since = before.at if before else run.started_at
        made = [event for event in summaries if since < event.at <= turn.at]
        rows += [_summary_row(event.body, axis(event.at)) for event in made]
        lost = _lost(_Request(turn, before, bool(made))) if uses_cache else None
        rows.append(_row(turn, axis, lost))
        before = turn
    later = [event for event in summaries if before is None or event.at > before.at]
    rows += [_summary_row(event.body, axis(event.at)) for event in later]
    asked = [row for row in rows if row["turn"] is not None]
    return {
        "rows": rows,
        "largest": max((row["total"] for row in rows), default=0),
        "sentences": _sentences(asked, uses_cache=uses_cache),
        "losses": [{"turn": row["turn"], "words": row["lost"]} for row in asked if row["lost"]],
        "total": {key: sum(row[key] for row in rows) for key in ("input", "read", "written", "output", "total")}
        | {"cost": None if any(row["cost"] is None for row in rows) else sum(row["cost"] for row in rows)},
    }


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


def _lost(request: _Request) -> str | None:
    """Return why a request read much less than was there; None where it did not."""
    read, cached = request.turn.usage.cache_read_input_tokens, request.cached
    if cached < LEAST_CACHED or read >= cached * LOST_BELOW:
        return None
    return f"read {read:,} of the {cached:,} tokens that were there: {_why(request)}"


def _why(request: _Request) -> str:
    if request.summarised:
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
        return ["The prompt cache was neither read nor written, or the server does not tell."]
    return list(_on_the_cache(rows))


def _on_the_cache(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
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
        yield f"{counted(losses, 'request')} lost what the one before had left there."
    elif len(rows) > 1:
        yield "No request lost what the one before had left there."


def _whole(usage: Usage) -> int:
    return usage.total_tokens - usage.output_tokens


def _begin(turn: StoredTurn) -> float:
    return turn.at - turn.seconds
