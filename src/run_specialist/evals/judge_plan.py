"""The questions for the judges of an eval: one stored run for each answer and rubric, reused like the others."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.done import Done
from run_specialist.batch.item import Item
from run_specialist.errors import UsageError
from run_specialist.evals.eval_plan import EvalPlan
from run_specialist.evals.evaluators.checked_run import Judgement
from run_specialist.evals.evaluators.judging import Judge
from run_specialist.evals.judge_files import find_judge
from run_specialist.evals.judge_question import judge_question
from run_specialist.evals.run_keys import run_id, run_key
from run_specialist.evals.verdict import KEYS, judgement

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner

Judgements = dict[int, dict[str, Judgement]]
"""Verdicts by number of the judged run, then by the key of the judge."""


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer and one rubric."""

    number: int
    """Number of the judged run."""
    name: str
    """The case and the variant, for people."""
    judge: Judge
    asked: "RunRequest"
    run_id: str


class JudgePlan:
    """The judges of an eval."""

    def __init__(self, plan: EvalPlan, ends: Mapping[int, Done], runner: "Runner") -> None:
        """Prepare the questions.

        ends: the ended runs, by number.
        runner: a runner without a model of its own, so that the variants' model does not judge itself.
        Raises UsageError if a judge cannot be asked.
        """
        self._plan = plan
        self._runner = runner
        self.answers = tuple(self._asked(ends))

    def _asked(self, ends: Mapping[int, Done]) -> Iterator[JudgedAnswer]:
        runner = self._runner
        for one in self._plan.runs:
            done = ends.get(one.number)
            outcome = None if done is None else done.outcome
            judges = [evaluator for evaluator in one.case.evaluators if isinstance(evaluator, Judge)]
            if outcome is None or outcome.status in {"failed", "aborted"}:
                continue
            for judge in judges:
                file = find_judge(runner.registry, judge.specialist)
                asked = runner.batches.asked(file, judge_question(one.case, outcome, judge.rubric), {})
                key = run_key(asked, runner.batches.model_of(asked), self._plan.project, kind="j")
                name = f"{one.case.name} · {one.subject.variant.name}"
                yield JudgedAnswer(one.number, name, judge, asked, run_id(key, 1))

    def batch(self, at_once: int, cost_limit: float | None) -> Batch:
        """Return the batch of all judges.

        cost_limit: cost limit of all judges together; None = no limit [USD].
        """
        from run_specialist.store import batches  # noqa: PLC0415 - fast `--help`
        from run_specialist.store.batch_reader import JUDGES  # noqa: PLC0415 - as above

        # Equal answers have the same judge, who is asked once.
        distinct = {one.run_id: one for one in self.answers}
        items = [
            Item(number, {"name": f"judge · {one.name}"}, one.asked.question, one.run_id)
            for number, one in enumerate(distinct.values(), 1)
        ]
        row = batches.StoredBatch(
            f"{self._plan.eval_id}{JUDGES}",
            "/".join(sorted({one.judge.specialist for one in self.answers})),
            f"judges of {self._plan.eval_id}",
            time.time(),
            {"eval_judges": self._plan.eval_id},
            None,
            self._plan.project,
            cost_limit,
        )
        asked = [one.asked for one in distinct.values()]
        return self._runner.batches.make_of(row, items, asked, Bounds(at_once, cost_limit), [*distinct])

    def judgements(self, ends: Mapping[str, Done], problem: str | None = None) -> Judgements:
        """Return the verdicts of the judges on each run.

        ends: the ended runs of judges, by id.
        problem: why other judges were not asked.
        """
        found: Judgements = {}
        paid: set[str] = set()
        for one in self.answers:
            done = ends.get(one.run_id)
            if done is None or done.outcome is None:
                error = (None if done is None else done.error) or problem or "it was not asked"
                said = Judgement(None, f"{one.judge.specialist} gave no verdict: {error}")
            else:
                said = judgement(done.outcome)
                # A judge of equal answers is in the bill once.
                said = Judgement(said.passed, said.reason, said.run_id, 0.0 if one.run_id in paid else said.cost_usd)
                paid.add(one.run_id)
            found.setdefault(one.number, {})[one.judge.key] = said
        return found


def has_judges(plan: EvalPlan) -> bool:
    """Return whether a case has a judge."""
    return any(isinstance(one, Judge) for run in plan.runs for one in run.case.evaluators)


def check_judge(runner: "Runner", name: str) -> None:
    """Raise UsageError if the judge does not exist, its file has errors, or its answers contain no verdict."""
    from run_specialist.spawning.spawner import answer_schema  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.trust_notices import powers  # noqa: PLC0415 - as above

    file = find_judge(runner.registry, name)
    if file.specialist is None:
        problems = [str(one) for one in file.problems if one.level == "error"]
        raise UsageError(problems[0] if problems else f"{name} cannot be used")
    # The cases may come from somebody else, and they are a part of its question.
    if does := powers(file, file.specialist, runner.root, runner.environments.trust):
        raise UsageError(f"{name} may {'; '.join(does)}; a judge must not, because a case chooses it")
    schema = answer_schema(file, file.specialist)
    fields = {} if schema is None else schema.schema.get("properties", dict.fromkeys(KEYS))
    if not set(KEYS) & {*fields}:
        raise UsageError(f"{name} is not a judge: its file has no `output_schema` with `verdict` and `reason`")
