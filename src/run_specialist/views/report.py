"""The page of a run: question, answer, children, forks, changed files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from types import MappingProxyType
from typing import Any, NamedTuple

from run_specialist import budget
from run_specialist.budget import Kind
from run_specialist.errors import RunNotFound
from run_specialist.loop.account import drawn
from run_specialist.record.journal import Received, Returned
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import NO_MODEL, OFFLINE, Child
from run_specialist.specialist.tool_names import DELEGATE, RESPOND
from run_specialist.store.rows import restored
from run_specialist.store.stored import StoredRun
from run_specialist.views import page
from run_specialist.views.markdown import answer_html
from run_specialist.views.run_charts import HOW, axis, budget_chart, events_of, marks, timeline
from run_specialist.views.run_turns import holders, models, requests, turns

MOST_CALLS = 200
"""Maximum number of calls shown per child run; the child's own report shows all."""
BRIEF = 160
"""Maximum length of a call's arguments [characters]."""

# Child runs, and their child runs, by id.
_Descendants = Mapping[str, StoredRun]


@dataclass(frozen=True, slots=True)
class ChildRun:
    """One child run."""

    child: Child
    run: StoredRun | None
    """The stored run; None if it is no longer stored."""
    call: Returned | None
    """The `delegate` call that started the run; None if it did not return."""


def descendants(run: StoredRun, load: Callable[[str], StoredRun]) -> dict[str, StoredRun]:
    """Return all child runs, and their child runs, by id.

    load: returns a stored run by its id.
    """
    found: dict[str, StoredRun] = {}
    remaining = [*run.children]
    while remaining:
        run_id = remaining.pop().run_id
        if run_id not in found:
            found[run_id] = load(run_id)
            remaining += found[run_id].children
    return found


def child_runs(run: StoredRun, stored: _Descendants) -> list[ChildRun]:
    """Return the direct child runs, in the order of their start."""
    in_outcome = [restored(Child, values) for values in (run.outcome or {}).get("children", ())]
    stored_ids = {one.run_id for one in run.children}
    # A fork's copied calls have no child runs of its own.
    unmatched = [call for call in run.calls if call.call.name == DELEGATE and call.turn > (run.forked_at or 0)]
    found = []
    for child in (*run.children, *(one for one in in_outcome if one.run_id not in stored_ids)):
        child_run = stored.get(child.run_id)
        matching = (
            one
            for one in unmatched
            if (given := one.call.arguments or {}).get("specialist") == child.specialist
            and (child_run is None or given.get("query") == child_run.first_question)
        )
        call = next(matching, None)
        if call:
            unmatched.remove(call)
        found.append(ChildRun(child, child_run, call))
    return found


def spent(run: StoredRun, found: Sequence[ChildRun]) -> Iterator[tuple[float, Kind, float]]:
    """Yield the amounts that child runs spent of a shared budget: time [seconds since 1970], kind, amount."""
    if not _shares_budget(run):
        return
    for one in found:
        ends = (one.call.at if one.call else None, one.run.ended_at if one.run else None, run.ended_at)
        at = next((moment for moment in ends if moment is not None), run.started_at)
        for kind, amount in drawn(one.child).items():
            yield at, kind, amount


def children(run: StoredRun, found: Sequence[ChildRun], stored: _Descendants) -> dict[str, Any]:
    """Return the tree of child runs and its total usage; the usage of each run includes its own children."""
    return {
        "asked": [_child(one, stored) for one in found],
        "calls": sum(one.child.tool_calls for one in found),
        "tokens": sum(one.child.usage.total_tokens for one in found),
        "cost_usd": page.total(one.child.cost_usd for one in found),
        "shared": _shares_budget(run),
    }


def _child(one: ChildRun, stored: _Descendants) -> dict[str, Any]:
    child, run = one.child, one.run
    outcome = (run and run.outcome) or {}
    calls = run.calls if run else ()
    below = [ChildRun(inner, stored.get(inner.run_id), None) for inner in child.children]
    if run:
        below = child_runs(run, stored)
    return {
        "run_id": child.run_id,
        "specialist": child.specialist,
        "status": run.status if run else child.status,
        "call": one.call and one.call.number,
        "calls": child.tool_calls,
        "limit": (outcome.get("tool_calls") or {}).get("limit"),
        "tokens": child.usage.total_tokens,
        "cost_usd": child.cost_usd,
        "kept": run is not None,
        "model": run.model if run else None,
        "question": run.question if run else None,
        "seconds": axis(run).seconds if run else None,
        "answer": outcome.get("answer", ""),
        "unjudged": run and _unjudged(run),
        "evidence": [dict(quote) for quote in outcome.get("evidence", ())],
        "support": list(outcome.get("support") or ()),
        "gaps": list(outcome.get("gaps", ())),
        "did": [
            {
                "number": call.number,
                "name": call.call.name,
                "brief": page.brief(call.call.arguments, BRIEF),
                "state": "failed" if call.is_error else "finished",
            }
            for call in calls[:MOST_CALLS]
        ],
        "left_out": max(len(calls) - MOST_CALLS, 0),
        "asked": [_child(inner, stored) for inner in below],
    }


def _unjudged(run: StoredRun) -> str | None:
    return NO_MODEL if run.model == OFFLINE else None


def _shares_budget(run: StoredRun) -> bool:
    return bool((run.frozen.get("settings") or {}).get("share_budget", True))


_STATUS = {
    "answered": "answered by itself",
    "landed": "answered at a limit",
    "partial": "a partial answer, or the gathered material",
    "failed": "no answer",
    "aborted": "stopped before it answered",
    "running": "still running; this report shows the data stored so far",
    "interrupted": "its process ended before it answered",
}


def status(run: StoredRun) -> str:
    """Return the status as a sentence, with the limit that was reached."""
    meaning = _STATUS.get(run.status, run.status)
    outcome = run.outcome or {}
    landing = outcome.get("landing")
    if not landing:
        return meaning
    kind = Kind(landing["reason"])
    limit = outcome["limits"][kind]["limit"]
    cause = "the context window was full" if limit is None else f"the limit of {budget.amount(kind, limit)} was reached"
    how = HOW.get(landing["how"], landing["how"])
    requests = landing["requests"]
    effort = f" in {budget.counted(requests, 'request')}" if requests else ""
    return ("" if run.status == "landed" else f"{meaning}; ") + f"{cause}, and {how}{effort}"


def answer(run: StoredRun, turns: Sequence[Mapping[str, Any]], holders: Sequence[Returned | None]) -> dict[str, Any]:
    """Return the answer with its evidence; each quote links to its position in the report.

    turns: the turns as shown in the report.
    holders: for each piece of evidence, the call whose result contains it.
    """
    outcome = run.outcome or {}
    marked = {piece["quote"] for turn in turns for call in turn["calls"] for piece in call["result"]}
    return {
        "text": outcome.get("answer", ""),
        "question": outcome.get("question"),
        "output": outcome.get("output"),
        "newest_text": "" if run.outcome or not run.snapshot else run.snapshot.last_text,
        "evidence": [
            {
                "number": number,
                **one,
                "call": call and call.number,
                "name": call and call.call.name,
                "target": call and (f"quote-{number}" if number in marked else f"result-{call.number}"),
            }
            for number, (one, call) in enumerate(zip(outcome.get("evidence", ()), holders, strict=True), 1)
        ],
        "support": list(outcome.get("support") or ()),
        "gaps": list(outcome.get("gaps", ())),
        "warnings": list(outcome.get("warnings", run.snapshot.warnings if run.snapshot else ())),
        "unjudged": _unjudged(run),
        "error": outcome.get("error"),
    }


def facts(run: StoredRun, kinds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the calls, turns, tokens and cost of the run.

    kinds: usage by kind, as shown in the report.
    """
    used = {kind["kind"]: kind["used"] for kind in kinds}
    outcome = run.outcome or {}
    skipped = run.snapshot.skipped if run.snapshot else 0
    return {
        "calls": int(used[Kind.TOOL_CALLS]),
        "limit": next(kind["limit"] for kind in kinds if kind["kind"] == Kind.TOOL_CALLS),
        "failed": sum(call.is_error for call in run.calls),
        "skipped": outcome["tool_calls"]["skipped"] if outcome else skipped,
        "turns": len(run.own_turns),
        # `usage` includes child runs, also if they do not share the budget.
        "tokens": Usage(**outcome["usage"]).total_tokens if outcome else int(used[Kind.TOKENS]),
        "cost_usd": outcome.get("cost_usd", run.cost_usd),
    }


# Maximum number of forks compared with their source; the newest are used.
_MOST_FORKS = 20
# Maximum length of the description of the first turn that differs [characters].
_BRIEF_CALL = 120


class RelatedRuns(NamedTuple):
    """The runs that a run is compared with."""

    source: StoredRun | None = None
    """The source run of a fork; None for other runs, or if it is no longer stored."""
    forks: tuple[StoredRun, ...] = ()
    """The runs that begin with its turns, oldest first."""


NO_KIN = RelatedRuns()


def kin(run: StoredRun, load: Callable[[str], StoredRun], forks: Sequence[str]) -> RelatedRuns:
    """Return the runs that a run is compared with.

    load: returns a stored run by its whole id.
    forks: ids of its forks, oldest first.
    """

    def loaded(run_id: str) -> StoredRun | None:
        # The id of a deleted run may be the beginning of another one.
        with suppress(RunNotFound):
            found = load(run_id)
            return found if found.run_id == run_id else None
        return None

    others = tuple(other for one in forks[-_MOST_FORKS:] if (other := loaded(one)))
    return RelatedRuns(loaded(run.forked_from) if run.forked_from else None, others)


def comparison(run: StoredRun, kin: RelatedRuns) -> list[dict[str, Any]]:
    """Return the pairs of the report: the run and its source, then the run and each of its forks."""
    pairs = [_pair(run, kin.source, run)] if run.forked_from else []
    return [*pairs, *(_pair(run, run, fork) for fork in kin.forks)]


def _pair(this: StoredRun, source: StoredRun | None, fork: StoredRun) -> dict[str, Any]:
    at = fork.forked_at or 0
    before = source or fork
    calls = sum(call.turn <= at for call in before.calls)
    gone = {"run_id": fork.forked_from, "kept": False, "model": (fork.frozen.get("fork") or {}).get("model")}
    sides = [{"role": "source", **(gone if source is None else _side(source, at))}, {"role": "fork", **_side(fork, at)}]
    return {"at": at, "calls": calls, "sides": [{**one, "this": one["run_id"] == this.run_id} for one in sides]}


def _side(run: StoredRun, at: int) -> dict[str, Any]:
    later = [turn for turn in run.turns if turn.number > at]
    outcome = run.outcome or {}
    evidence = outcome.get("evidence", ())
    tokens, cost = _spent(run, at, later)
    done = ""
    if later:
        # The calls of the first turn, otherwise its text.
        calls = (
            f"{one.name} {page.brief(one.arguments, _BRIEF_CALL)}" if one.name != RESPOND else one.name
            for one in later[0].reply.calls
        )
        done = ", ".join(calls) or " ".join(later[0].reply.text.split())
    return {
        "run_id": run.run_id,
        "kept": True,
        "model": run.model,
        "status": run.status,
        "status_words": status(run),
        "turns": len(later),
        "calls": sum(call.turn > at for call in run.calls),
        "tokens": tokens,
        "cost_usd": cost,
        "next": page.cut(done, _BRIEF_CALL),
        # With its quotes in place, because they are not listed below it.
        "answer": {"text": outcome.get("answer", ""), "evidence": []},
        "output": outcome.get("output"),
        "quotes": len(evidence),
        "verified": sum(one["verified"] is True for one in evidence),
        "unjudged": _unjudged(run),
    }


def _spent(run: StoredRun, at: int, later: Sequence[Received]) -> tuple[int, float | None]:
    """Return tokens and cost of a run after its first turns, including summaries and child runs.

    at: number of these turns.
    """
    since = max((turn.at for turn in run.turns if turn.number <= at), default=run.started_at)
    summaries = [one.body for one in events_of(run, "summarized") if one.at > since]
    children = [one.child for one in child_runs(run, {}) if one.call is None or one.call.turn > at]
    spent = [(turn.reply.usage, turn.cost_usd) for turn in later]
    spent += [(child.usage, child.cost_usd) for child in children]
    spent += [(Usage(**body["usage"]), body["cost_usd"]) for body in summaries]
    return sum(usage.total_tokens for usage, _ in spent), page.total(cost for _, cost in spent)


NO_DESCENDANTS: _Descendants = MappingProxyType({})


def data(run: StoredRun, descendants: _Descendants = NO_DESCENDANTS, kin: RelatedRuns = NO_KIN) -> Mapping[str, Any]:
    """Return the data of the report as JSON values; times within the run are working time [s].

    descendants: the child runs and their child runs, by id.
    kin: the runs that it is compared with.
    """
    working = axis(run)
    marks_between = marks(run, working)
    sources = holders(run)
    direct = child_runs(run, descendants)
    child_ids = {one.call.number: one.child.run_id for one in direct if one.call}
    replies = turns(run, working, marks_between, sources, child_ids)
    usage = budget_chart(run, working, spent(run, direct))
    tools = []
    for one in run.frozen.get("tools") or ():
        # Chat completions nest a definition one level deeper.
        inner = one.get("function", one) if isinstance(one, Mapping) else {"name": one}
        tools.append({key: str(inner.get(key, "")) for key in ("name", "description")})
    return {
        **{key: getattr(run, key) for key in _OF_RUN},
        "models": models(run),
        "status_words": status(run),
        "seconds": working.seconds,
        "facts": facts(run, usage["kinds"]),
        "answer": answer(run, replies, sources),
        "changes": file_changes(run, descendants),
        "copied": {
            "turns": len(run.turns) - len(run.own_turns),
            "calls": sum(call.turn <= (run.forked_at or 0) for call in run.calls),
        },
        "comparison": comparison(run, kin),
        "children": children(run, direct, descendants),
        "budget": usage,
        "timeline": timeline(run, working, marks_between),
        "requests": requests(run, working),
        "turns": replies,
        "after": [mark for mark in marks_between if not replies or mark["before"] > replies[-1]["number"]],
        "setup": {
            "system": str(run.frozen.get("system") or ""),
            "tools": tools,
            "settings": run.frozen.get("settings"),
            "facts": {key: str(run.frozen[key]) for key in _FACTS if run.frozen.get(key) is not None},
        },
    }


def report(run: StoredRun, descendants: _Descendants = NO_DESCENDANTS, kin: RelatedRuns = NO_KIN) -> str:
    """Return the report as one self-contained HTML document; all untrusted text is escaped.

    descendants: the child runs and their child runs, by id.
    kin: the runs that it is compared with.
    """
    return render(data(run, descendants, kin))


render = page.HtmlPage("report", {"answer_html": answer_html}).render
"""Return the report with this data, as from `data`."""


MOST_LINES = 2_000
"""Maximum number of lines shown of one diff."""
_KINDS = {"+": "new", "-": "old", "@": "place"}
_HEADERS = ("diff --git ", "--- ", "+++ ", "new file mode ", "deleted file mode ")


def file_changes(run: StoredRun, descendants: _Descendants) -> list[dict[str, Any]]:
    """Return the changes in the order in which they were made, each with the lines of its diff.

    descendants: the child runs and their child runs, by id.
    """
    events = [(one, event) for one in (run, *descendants.values()) for event in events_of(one, "file_changed")]
    found = []
    for owner, event in sorted(events, key=lambda one: one[1].at):
        body = event.body
        numbers = {call.call.id: call.number for call in run.calls} if owner is run else {}
        diff = str(body["diff"]).removesuffix("\n")
        lines = list(dropwhile(lambda line: line.startswith(_HEADERS), diff.split("\n"))) if diff else []
        found.append(
            {
                "path": str(body["path"]),
                "is_new": bool(body["is_new"]),
                "change": str(body.get("change", "created" if body["is_new"] else "changed")),
                "undoable": bool(body.get("undoable", True)),
                "dry_run": bool(body["dry_run"]),
                "added": body["added"],
                "removed": body["removed"],
                "by": None if owner is run else owner.specialist,
                "call": numbers.get(str(body["call_id"])),
                "lines": [{"kind": _KINDS.get(one[:1], "same"), "text": one} for one in lines[:MOST_LINES]],
                "left_out": max(len(lines) - MOST_LINES, 0),
            }
        )
    return found


_OF_RUN = (
    *("run_id", "parent_id", "forked_from", "forked_at", "specialist", "model", "question"),
    *("status", "started_at", "ended_at"),
)
_FACTS = ("file", "digest", "root", "effort", "version")
