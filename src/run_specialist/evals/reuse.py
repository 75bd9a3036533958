"""Find stored runs that need not be repeated, because nothing that they depend on has changed."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from run_specialist.api.run_maker import RunRequest
from run_specialist.api.runner import Runner
from run_specialist.errors import RunNotFound, RunSpecialistError, UsageError
from run_specialist.evals.plan import EvalPlan, PlannedRun
from run_specialist.record.journal import Returned
from run_specialist.safety.redact import redactor
from run_specialist.spawning.prompt_texts import agent_memory, read_texts
from run_specialist.spawning.trust import RunContext
from run_specialist.specialist.tool_names import DELEGATE
from run_specialist.store.batch_reader import StoredBatches
from run_specialist.store.reader import RunSteps, Store
from run_specialist.store.stored import StoredRun
from run_specialist.tools.files import file_tools
from run_specialist.tools.threads import in_thread

ENDED = frozenset({"answered", "landed", "partial", "failed"})
"""Statuses of runs that are reused; others are resumed."""
# Tools whose results depend on files, and the tool whose child runs may use them.
_READING = frozenset({"search", "grep", "glob", "read", "ls", DELEGATE})


async def reused(plan: EvalPlan, runner: Runner, store: Store | None, *, fresh: bool) -> EvalPlan:
    """Return the plan with the newest stored run of each question, or a new run where that is outdated.

    An interrupted eval continues with its planned runs.
    fresh: reuse no stored run, except those of an interrupted eval that was fresh, too.
    """
    if store is None:
        return replace(plan, is_fresh=fresh)
    newest: dict[tuple[str, int], PlannedRun] = {}
    statuses: dict[str, str] = {}
    waiting = [*{(one.key, one.repeat): replace(one, generation=1) for one in plan.runs}.values()]
    while waiting:
        found = store.statuses([one.run_id for one in waiting])
        statuses |= found
        stored = [one for one in waiting if one.run_id in found]
        newest |= {(one.key, one.repeat): one for one in stored}
        waiting = [replace(one, generation=one.generation + 1) for one in stored]
    was_fresh, begun = _unfinished(store, plan.eval_id)
    unchanged = Unchanged(runner, store, store.steps([*statuses]))
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
    return replace(plan, runs=tuple(runs), is_fresh=fresh, earlier=frozenset(earlier), stale=stale)


def _unfinished(store: Store, eval_id: str) -> tuple[bool, frozenset[str]]:
    """Return what an interrupted call of an eval left: whether it was to be fresh, and the ids of its runs."""
    with StoredBatches(store.url) as batches, suppress(RunNotFound):
        earlier = batches.find(eval_id)
        if earlier.batch_id == eval_id and (earlier.state != "ended" or earlier.reason is not None):
            runs = frozenset(item.run_id for item in batches.items(eval_id))
            return bool(earlier.frozen["eval"].get("fresh")), runs
    return False, frozenset()


class Unchanged:
    """Compares stored runs with what they would read now; identical calls are made once."""

    def __init__(self, runner: Runner, store: Store, steps: Mapping[str, RunSteps]) -> None:
        """Configure the comparison."""
        self._runner = runner
        self._store = store
        self._steps = steps
        self._hide = redactor(tuple(runner.secrets))
        self._tools = cache(lambda paths, limit: {tool.name: tool for tool in file_tools(runner.root, paths, limit)})
        self._results: dict[Any, str | None] = {}

    async def holds(self, asked: RunRequest, run_id: str) -> bool:
        """Return whether a run would read the same files, and have the same texts in its prompt."""
        try:
            return await self._reads_same(run_id) and await self.has_same_texts(asked, run_id)
        except UsageError:
            # A skill or a folder is missing: a new run says so.
            return False

    async def has_same_texts(self, asked: RunRequest, run_id: str) -> bool:
        """Return whether a run would get the texts of its stored prompt."""
        settings, trust = asked.settings, self._runner.environments.trust
        if not (settings.skills or settings.project_instructions or settings.memory):
            return True

        def prompt() -> str:
            context = RunContext(asked.file, settings, self._runner.root, trust, asked.origins)
            memory = agent_memory(context, self._runner.secrets)
            return read_texts(context).followed_by(memory.text).added_to(settings.prompt)

        return str(self._store.load(run_id).frozen.get("system", "")).startswith(await in_thread(prompt))

    async def _reads_same(self, run_id: str) -> bool:
        """Return whether a run and all runs below it would read the same."""
        steps = self._steps.get(run_id)
        if steps is not None and not any(one.call.name in _READING for one in steps.calls):
            return True
        run = self._store.load(run_id)
        for call in run.calls:
            # A failed call may have been late, and a repeated one was compared before.
            if not (call.is_error or call.repeated) and await self._differs(run, call):
                return False
        return all([await self._reads_same(child.run_id) for child in run.children])

    async def _differs(self, run: StoredRun, call: Returned) -> bool:
        stored = run.frozen.get("settings", {})
        settings = tuple(stored.get("paths") or ()), int(stored.get("tool_result_limit") or 20_000)
        tool = self._tools(*settings).get(call.call.name)
        if tool is None or call.call.arguments is None:
            return False
        key = (settings, call.call.key)
        if key not in self._results:
            try:
                self._results[key] = self._hide((await tool.call(call.call.arguments)).text)
            except RunSpecialistError:
                # For example, the file no longer exists.
                self._results[key] = None
        now, before = self._results[key], call.whole
        if now is not None and tool.name == "search":
            # Notes of a search count words in all files, also in those that the run did not read.
            now, before = (re.sub(r"(?m)(^|\n)\[.*", "", text) for text in (now, before))
        return now != before
