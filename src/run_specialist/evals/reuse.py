"""Find stored runs that need not be repeated, because nothing that they depend on has changed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.errors import RunNotFound, RunSpecialistError, StoreMissing, UsageError
from run_specialist.evals.plan import EvalPlan, PlannedRun
from run_specialist.safety.redact import redactor
from run_specialist.spawning.prompt_texts import MemoryRequest, PromptTexts, agent_memory, read_texts
from run_specialist.tools.base import Tool
from run_specialist.tools.delegate import NAME as DELEGATE
from run_specialist.tools.files import file_tools
from run_specialist.tools.threads import in_thread

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner
    from run_specialist.store.reader import RunSteps, Store
    from run_specialist.store.stored import StoredCall, StoredRun


@dataclass(frozen=True)
class UnfinishedEval:
    """An eval that was interrupted before all its runs had ended."""

    is_fresh: bool
    """Whether it reused no stored runs."""
    run_ids: frozenset[str]
    """The runs that it was to make."""


class StoredRuns:
    """The runs in a store; empty if nothing is stored."""

    def __init__(self, store: "Store | None") -> None:
        self._store = store

    @property
    def store(self) -> "Store | None":
        """The store; None if nothing is stored yet."""
        return self._store

    def load(self, run_id: str) -> "StoredRun | None":
        """Return a run with its calls; None if it is not stored."""
        if self._store is None:
            return None
        try:
            run = self._store.load(run_id)
        except RunNotFound:
            return None
        return run if run.run_id == run_id else None

    def statuses(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the status of each of these runs that is stored."""
        if self._store is None:
            return {}
        from run_specialist.store.reader import run_statuses  # noqa: PLC0415 - fast `--help`

        return run_statuses(self._store.url, run_ids)

    def steps_of(self, run_ids: Sequence[str]) -> "Callable[[str], RunSteps | None]":
        """Return a function that returns the requests and calls of one of these runs; the first call loads all runs."""
        found: dict[str, RunSteps] | None = None

        def steps(run_id: str) -> "RunSteps | None":
            nonlocal found
            if found is None:
                from run_specialist.store.reader import run_steps  # noqa: PLC0415 - fast `--help`

                found = {} if self._store is None else run_steps(self._store.url, run_ids)
            return found.get(run_id)

        return steps

    def questions(self, specialist: str, project: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the questions and outcomes of the ended runs of a specialist, newest first, without those of judges."""
        if self._store is None:
            return
        for past in self._store.past(specialist, project):
            run = self._store.find(past.run_id)
            if run.parent_id is None:
                yield run.question, past.outcome

    def unfinished(self, eval_id: str) -> UnfinishedEval | None:
        """Return the state left by an interrupted call of an eval; None if there was none, or if it was completed."""
        if self._store is None:
            return None
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - as above

        with StoredBatches(self._store.url) as batches:
            try:
                earlier = batches.find(eval_id)
            except RunNotFound:
                return None
            if earlier.batch_id != eval_id or (earlier.state == "ended" and earlier.reason is None):
                return None
            is_fresh = bool(earlier.frozen.get("eval", {}).get("fresh"))
            return UnfinishedEval(is_fresh, frozenset(item.run_id for item in batches.items(eval_id)))


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


ENDED = frozenset({"answered", "landed", "partial", "failed"})
"""Statuses of runs that are reused; others are resumed."""


@dataclass(frozen=True)
class ReusePlan:
    """A plan in which each run has its generation."""

    plan: EvalPlan
    earlier: frozenset[str]
    """The ended runs that are reused."""
    stale: int = 0
    """Number of runs to be repeated because files that they read have changed."""


async def reused(plan: EvalPlan, runner: "Runner", known: StoredRuns, *, fresh: bool) -> ReusePlan:
    """Return the plan with the newest stored run of each question, or a new run where that is outdated.

    An interrupted eval continues with its planned runs.
    fresh: reuse no stored run, except those of an interrupted eval that was fresh, too.
    """
    newest, statuses = _newest(plan.runs, known)
    left = known.unfinished(plan.eval_id)
    begun: Collection[str] = () if left is None else left.run_ids
    asks_all = fresh and not (left is not None and left.is_fresh)
    unchanged = Unchanged(runner.root, runner.secrets, known.load, known.steps_of([*statuses]))
    runs, earlier, stale = list[PlannedRun](), set[str](), 0
    for one in plan.runs:
        found = replace(one, generation=max(newest.get(_place(one), 1), 1))
        following = replace(found, generation=found.generation + 1)
        status = statuses.get(found.run_id)
        if following.run_id in begun:
            # It was to replace the stored one, but has not begun.
            chosen, status = following, None
        elif status is None:
            chosen = found
        elif asks_all:
            chosen, status = following, None
        elif status in ENDED and not (
            await unchanged.is_unchanged(found.run_id) and await has_same_texts(one.asked, known, found.run_id, runner)
        ):
            chosen, status, stale = following, None, stale + 1
        else:
            chosen = found
        runs.append(chosen)
        if status in ENDED:
            earlier.add(chosen.run_id)
    return ReusePlan(replace(plan, runs=tuple(runs), is_fresh=fresh), frozenset(earlier), stale)


def _newest(runs: Iterable[PlannedRun], known: StoredRuns) -> tuple[Mapping[tuple[str, int], int], Mapping[str, str]]:
    """Return the newest stored generation of each run, and the statuses of all that are stored."""
    newest: dict[tuple[str, int], int] = {}
    statuses: dict[str, str] = {}
    waiting = [*{_place(one): replace(one, generation=1) for one in runs}.values()]
    while waiting:
        found = known.statuses([one.run_id for one in waiting])
        statuses |= found
        stored = [one for one in waiting if one.run_id in found]
        newest |= {_place(one): one.generation for one in stored}
        waiting = [replace(one, generation=one.generation + 1) for one in stored]
    return newest, statuses


def _place(run: PlannedRun) -> tuple[str, int]:
    return run.key, run.repeat


async def has_same_texts(asked: "RunRequest", known: StoredRuns, run_id: str, runner: "Runner") -> bool:
    """Return whether a run would get the texts of its stored prompt; True if the run is not stored."""
    settings = asked.settings
    if not (settings.skills or settings.project_instructions or settings.memory):
        return True
    run = known.load(run_id)
    if run is None:
        return True
    try:
        texts = await in_thread(lambda: _texts(asked, runner))
    except UsageError:
        # A skill is missing: a new run says so.
        return False
    return str(run.frozen.get("system", "")).startswith(texts.added_to(settings.prompt))


def _texts(asked: "RunRequest", runner: "Runner") -> PromptTexts:
    file, settings, trust = asked.file, asked.settings, runner.environments.trust
    wanted = MemoryRequest(runner.secrets, origins=asked.origins)
    memory = agent_memory(file, settings, runner.root, trust, wanted)
    return read_texts(file, settings, runner.root, trust, asked.origins).followed_by(memory.text)


SEARCH = "search"
"""The search tool, whose notes are ignored: they count words in all files, also in those that the run did not read."""

READING = frozenset({SEARCH, "grep", "glob", "read", "ls", DELEGATE})
"""Tools whose results depend on files, and the tool whose child runs may use them."""

_Settings = tuple[tuple[str, ...], int]


class Unchanged:
    """Compares the results of stored calls with current ones; identical calls are made once."""

    def __init__(
        self,
        root: Path,
        secrets: Sequence[str],
        load: "Callable[[str], StoredRun | None]",
        steps: "Callable[[str], RunSteps | None]",
    ) -> None:
        """Configure the comparison.

        root: the folder that the file tools can read.
        secrets: credentials that are masked in stored results.
        load: returns a stored run.
        steps: returns the requests and calls of a stored run, without results.
        """
        self._root = root
        self._hide = redactor(tuple(secrets))
        self._load = load
        self._steps = steps
        self._tools: dict[_Settings, dict[str, Tool]] = {}
        self._results: dict[tuple[_Settings, str], str | None] = {}

    async def is_unchanged(self, run_id: str) -> bool:
        """Return whether a run and all runs below it would read the same; True if it is not stored."""
        steps = self._steps(run_id)
        if steps is not None and not any(call.name in READING for call in steps.calls):
            return True
        run = self._load(run_id)
        if run is None:
            return True
        stored = run.frozen.get("settings", {})
        settings = tuple(stored.get("paths") or ()), int(stored.get("tool_result_limit") or 20_000)
        for call in run.calls:
            # A failed call may have been late, and a repeated one was compared before.
            if call.is_error or call.repeated or call.call.arguments is None:
                continue
            tool = self._toolset(settings).get(call.call.name)
            if tool is not None and await self._differs(settings, tool, call):
                return False
        for child in run.children:
            if not await self.is_unchanged(child.run_id):
                return False
        return True

    async def _differs(self, settings: _Settings, tool: Tool, call: "StoredCall") -> bool:
        key = (settings, call.call.key)
        if key not in self._results:
            try:
                output = await tool.call(call.call.arguments or {})
                self._results[key] = self._hide(output.text)
            except RunSpecialistError:
                # For example, the file no longer exists.
                self._results[key] = None
        now = self._results[key]
        return now is None or _compared(tool.name, now) != _compared(tool.name, call.whole)

    def _toolset(self, settings: _Settings) -> dict[str, Tool]:
        if settings not in self._tools:
            try:
                tools = file_tools(self._root, *settings)
            except UsageError:
                tools = []
            self._tools[settings] = {tool.name: tool for tool in tools}
        return self._tools[settings]


def _compared(tool: str, text: str) -> str:
    if tool != SEARCH:
        return text
    return "\n".join(line for line in text.split("\n") if not line.startswith("["))
