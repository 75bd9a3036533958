"""Find stored runs that need not be repeated, because nothing that they depend on has changed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from run_specialist.errors import RunNotFound, RunSpecialistError, StoreMissing, UsageError
from run_specialist.evals.plan import EvalPlan, PlannedRun
from run_specialist.safety.redact import redactor
from run_specialist.spawning.prompt_texts import agent_memory, read_texts
from run_specialist.spawning.trust import RunContext
from run_specialist.tools.base import Tool
from run_specialist.tools.delegate import NAME as DELEGATE
from run_specialist.tools.files import file_tools
from run_specialist.tools.threads import in_thread

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner
    from run_specialist.record.journal import Returned
    from run_specialist.store.reader import RunSteps, Store
    from run_specialist.store.stored import StoredRun

ENDED = frozenset({"answered", "landed", "partial", "failed"})
"""Statuses of runs that are reused; others are resumed."""
READING = frozenset({"search", "grep", "glob", "read", "ls", DELEGATE})
"""Tools whose results depend on files, and the tool whose child runs may use them."""

Steps = Callable[[str], "RunSteps | None"]
"""Returns the requests and calls of a stored run, without results; None if it is not stored."""
_Settings = tuple[tuple[str, ...], int]


class StoredRuns:
    """The runs in a store; empty if nothing is stored."""

    def __init__(self, store: "Store | None") -> None:
        """Set the store; None if nothing is stored yet."""
        self.store = store

    def load(self, run_id: str) -> "StoredRun | None":
        """Return a run with its calls; None if it is not stored."""
        try:
            run = None if self.store is None else self.store.load(run_id)
        except RunNotFound:
            return None
        return run if run is not None and run.run_id == run_id else None

    def statuses(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the status of each of these runs that is stored."""
        return {} if self.store is None else self.store.statuses(run_ids)

    def steps_of(self, run_ids: Sequence[str]) -> Steps:
        """Return a function that returns the steps of one of these runs; the first call loads all runs."""

        @cache
        def steps() -> "Mapping[str, RunSteps]":
            return {} if self.store is None else self.store.steps(run_ids)

        return lambda run_id: steps().get(run_id)

    def questions(self, specialist: str, project: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the questions and outcomes of the ended runs of a specialist, newest first, without those of judges."""
        if self.store is not None:
            for past in self.store.past(specialist, project):
                run = self.store.find(past.run_id)
                if run.parent_id is None:
                    yield run.question, past.outcome

    def unfinished(self, eval_id: str) -> tuple[bool, frozenset[str]]:
        """Return what an interrupted call of an eval left: whether it was to be fresh, and the ids of its runs."""
        if self.store is not None:
            from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`

            with StoredBatches(self.store.url) as batches:
                try:
                    earlier = batches.find(eval_id)
                except RunNotFound:
                    return False, frozenset()
                if earlier.batch_id == eval_id and (earlier.state != "ended" or earlier.reason is not None):
                    is_fresh = bool(earlier.frozen.get("eval", {}).get("fresh"))
                    return is_fresh, frozenset(item.run_id for item in batches.items(eval_id))
        return False, frozenset()


@contextmanager
def stored_runs(url: str | None) -> Iterator[StoredRuns]:
    """Open the store of a runner for reading; raises StoreUnusable."""
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - as above

    where = place(url).url
    try:
        opened = None if where == NONE else Store(where)
    except StoreMissing:
        opened = None
    try:
        yield StoredRuns(opened)
    finally:
        if opened is not None:
            opened.close()


class ReusePlan(NamedTuple):
    """A plan in which each run has its generation."""

    plan: EvalPlan
    earlier: frozenset[str]
    stale: int = 0
    """Number of runs to be repeated because files that they read have changed."""


async def reused(plan: EvalPlan, runner: "Runner", known: StoredRuns, *, fresh: bool) -> ReusePlan:
    """Return the plan with the newest stored run of each question, or a new run where that is outdated.

    An interrupted eval continues with its planned runs.
    fresh: reuse no stored run, except those of an interrupted eval that was fresh, too.
    """
    newest: dict[tuple[str, int], PlannedRun] = {}
    statuses: dict[str, str] = {}
    waiting = [*{(one.key, one.repeat): replace(one, generation=1) for one in plan.runs}.values()]
    while waiting:
        found = known.statuses([one.run_id for one in waiting])
        statuses |= found
        stored = [one for one in waiting if one.run_id in found]
        newest |= {(one.key, one.repeat): one for one in stored}
        waiting = [replace(one, generation=one.generation + 1) for one in stored]
    was_fresh, begun = known.unfinished(plan.eval_id)
    unchanged = Unchanged(runner, known, known.steps_of([*statuses]))
    runs, earlier, stale = list[PlannedRun](), set[str](), 0
    for one in plan.runs:
        last = newest.get((one.key, one.repeat))
        if last is None:
            runs.append(one)
            continue
        chosen, following = replace(one, generation=last.generation), replace(one, generation=last.generation + 1)
        has_ended = statuses[chosen.run_id] in ENDED
        if following.run_id in begun or (fresh and not was_fresh):
            # An interrupted call was to replace the stored run, but has not begun; or this one is to.
            chosen, has_ended = following, False
        elif has_ended and not await unchanged.holds(one.asked, chosen.run_id):
            chosen, has_ended, stale = following, False, stale + 1
        runs.append(chosen)
        if has_ended:
            earlier.add(chosen.run_id)
    return ReusePlan(replace(plan, runs=tuple(runs), is_fresh=fresh), frozenset(earlier), stale)


class Unchanged:
    """Compares stored runs with what they would read now; identical calls are made once."""

    def __init__(self, runner: "Runner", known: StoredRuns, steps: Steps) -> None:
        """Configure the comparison."""
        self._runner = runner
        self._known = known
        self._steps = steps
        self._hide = redactor(tuple(runner.secrets))
        self._tools: dict[_Settings, dict[str, Tool]] = {}
        self._results: dict[tuple[_Settings, str], str | None] = {}

    async def holds(self, asked: "RunRequest", run_id: str) -> bool:
        """Return whether a run would read the same files, and have the same texts in its prompt."""
        return await self._reads_same(run_id) and await self.has_same_texts(asked, run_id)

    async def has_same_texts(self, asked: "RunRequest", run_id: str) -> bool:
        """Return whether a run would get the texts of its stored prompt; True if the run is not stored."""
        settings, trust = asked.settings, self._runner.environments.trust
        if not (settings.skills or settings.project_instructions or settings.memory):
            return True
        run = self._known.load(run_id)
        if run is None:
            return True

        def prompt() -> str:
            context = RunContext(asked.file, settings, self._runner.root, trust, asked.origins)
            memory = agent_memory(context, self._runner.secrets)
            return read_texts(context).followed_by(memory.text).added_to(settings.prompt)

        try:
            return str(run.frozen.get("system", "")).startswith(await in_thread(prompt))
        except UsageError:
            # A skill is missing: a new run says so.
            return False

    async def _reads_same(self, run_id: str) -> bool:
        """Return whether a run and all runs below it would read the same; True if it is not stored."""
        steps = self._steps(run_id)
        if steps is not None and not any(one.call.name in READING for one in steps.calls):
            return True
        run = self._known.load(run_id)
        if run is None:
            return True
        stored = run.frozen.get("settings", {})
        settings = tuple(stored.get("paths") or ()), int(stored.get("tool_result_limit") or 20_000)
        if settings not in self._tools:
            try:
                self._tools[settings] = {tool.name: tool for tool in file_tools(self._runner.root, *settings)}
            except UsageError:
                self._tools[settings] = {}
        for call in run.calls:
            tool = self._tools[settings].get(call.call.name)
            # A failed call may have been late, and a repeated one was compared before.
            if tool is None or call.is_error or call.repeated or call.call.arguments is None:
                continue
            if await self._differs(settings, tool, call):
                return False
        for child in run.children:
            if not await self._reads_same(child.run_id):
                return False
        return True

    async def _differs(self, settings: _Settings, tool: Tool, call: "Returned") -> bool:
        key = (settings, call.call.key)
        if key not in self._results:
            try:
                self._results[key] = self._hide((await tool.call(call.call.arguments or {})).text)
            except RunSpecialistError:
                # For example, the file no longer exists.
                self._results[key] = None
        now, before = self._results[key], call.whole
        if now is not None and tool.name == "search":
            # Notes of a search count words in all files, also in those that the run did not read.
            now, before = _without_notes(now), _without_notes(before)
        return now != before


def _without_notes(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("["))
