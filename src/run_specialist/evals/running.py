"""Run an eval: start the runs, ask the judges, score the answers, forecast the cost."""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext
from pydantic_evals.otel import SpanNode, SpanTree, SpanTreeRecordingError

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.item import Done, Item
from run_specialist.batch.limits import Forecast, alike, forecast
from run_specialist.errors import RunSpecialistError, SpecialistNotFound, UsageError
from run_specialist.evals.cases import EvalCase
from run_specialist.evals.evaluators import RUN, CheckedRun, Judge, Judgement, short
from run_specialist.evals.plan import CaseRun, Check, EvalPlan, EvalResult, PlannedRun, run_id, run_key
from run_specialist.evals.reuse import StoredRuns, reused, stored_runs
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.registry import Registry

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner
    from run_specialist.store.reader import CallStep, RequestStep, RunSteps


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
    from run_specialist.spawning.availability import powers  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.spawner import answer_schema  # noqa: PLC0415 - fast `--help`

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


def runs_batch(plan: EvalPlan, runner: "Runner", bounds: Bounds) -> Batch:
    """Return the batch of all runs."""
    return runner.batches.make_of(
        plan.row(bounds.cost_limit),
        [one.item for one in plan.runs],
        [one.asked for one in plan.runs],
        bounds,
        [one.run_id for one in plan.runs],
    )


async def result_of(plan: EvalPlan, ends: Mapping[int, Done], judgements: Judgements, known: StoredRuns) -> EvalResult:
    """Return the runs with their checks.

    ends: the ended runs, by number.
    known: the stored runs.
    """
    steps = known.steps_of([one.outcome.run_id for one in ends.values() if one.outcome is not None])
    runs = [await scored(one, ends.get(one.number), judgements.get(one.number, {}), steps) for one in plan.runs]
    cases = tuple(case.name for case in plan.cases.cases)
    return EvalResult(plan.eval_id, plan.specialist, cases, tuple(one.variant for one in plan.subjects), tuple(runs))


async def evaluate(
    plan: EvalPlan,
    make_runner: "Callable[[], Runner]",
    make_judges_runner: "Callable[[], Runner] | None" = None,
    bounds: Bounds | None = None,
    *,
    fresh: bool = False,
) -> EvalResult:
    """Run an eval without a view, and return its results.

    make_runner: returns a runner with the settings that the plan was made with.
    make_judges_runner: returns the runner of the judges; None = the same as `make_runner`.
    fresh: reuse no stored run.
    Raises UsageError.
    """
    bounds = bounds or Bounds()
    runner = make_runner()
    with stored_runs(runner.store) as known:
        plan = (await reused(plan, runner, known, fresh=fresh)).plan
    async with runner:
        batch = runs_batch(plan, runner, bounds)
        ends = {done.number: done async for done in batch}
    judgements: Judgements = {}
    if has_judges(plan):
        async with (make_judges_runner or make_runner)() as judging:
            left = None if bounds.cost_limit is None else max(bounds.cost_limit - batch.cost_usd, 0.0)
            judgements = await judged(JudgePlan(plan, ends, judging), bounds.at_once, left)
    with stored_runs(runner.store) as known:
        return await result_of(plan, ends, judgements, known)


async def judged(judges: JudgePlan, at_once: int, cost_limit: float | None) -> Judgements:
    """Ask the judges, and return their verdicts.

    cost_limit: cost limit of all judges together; None = no limit [USD].
    """
    if not judges.answers:
        return {}
    ends: dict[str, Done] = {}
    batch = judges.batch(at_once, cost_limit)
    problem = None
    try:
        async for done in batch:
            ends[done.run_id] = done
        problem = batch.problem
    except UsageError as error:
        # The runs are paid for, and their other checks hold.
        problem = str(error)
    return judges.judgements(ends, problem)


FOLDER = Path(__file__).parent / "judges"
"""Not one of the folders of specialists, so that no agent is offered a judge."""


def find_judge(registry: Registry, name: str) -> SpecialistFile:
    """Return a judge by its name or path; raises SpecialistNotFound."""
    try:
        return registry.find(name)
    except SpecialistNotFound:
        along = FOLDER / f"{name}.md"
        if "/" in name or not along.is_file():
            raise
        return load(along)


_TAG = re.compile(r"</?(?:question|answer|quotes|gaps|known_right_answer|rubric)>")
_MARKS = {True: "found", False: "not found in what was read", None: "not looked up"}


def judge_question(case: EvalCase, outcome: Outcome, rubric: str) -> str:
    """Return the question for a judge about an outcome."""
    return "\n\n".join(_question_parts(case, outcome, rubric))


def _question_parts(case: EvalCase, outcome: Outcome, rubric: str) -> Iterator[str]:
    yield _part("question", case.question)
    yield _part("answer", outcome.answer)
    if outcome.evidence:
        quotes = (f"- {one.source} ({_MARKS[one.verified]}): {one.quote}" for one in outcome.evidence)
        yield _part("quotes", "\n".join(quotes))
    if outcome.gaps:
        yield _part("gaps", "\n".join(f"- {gap}" for gap in outcome.gaps))
    if case.expected_output is not None:
        yield _part("known_right_answer", str(case.expected_output))
    yield _part("rubric", rubric)
    yield "Does the answer meet the rubric?"


def _part(name: str, text: str) -> str:
    """Return a part between its tags; tags inside the text are changed, so that none can end or begin a part."""
    harmless = _TAG.sub(lambda tag: f"[{tag[0][1:-1]}]", text)
    return f"<{name}>\n{harmless}\n</{name}>"


LONGEST = 300
"""Maximum length of a reason [characters]."""
KEYS = ("verdict", "passed", "pass")
"""Fields of a structured answer that may hold the verdict."""
_VERDICTS = {"pass": True, "passed": True, "yes": True, "true": True, "fail": False, "failed": False, "no": False}
_VERDICTS["false"] = False


def judgement(outcome: Outcome) -> Judgement:
    """Return the verdict of a judge from its structured answer: `verdict`, `pass` or `fail`, and `reason`."""
    output = outcome.output if isinstance(outcome.output, Mapping) else {}
    verdict = next((one for key in KEYS if (one := _truth(output.get(key))) is not None), None)
    if outcome.status in {"failed", "aborted"} or verdict is None:
        error = outcome.error or "its structured answer has no field `verdict` with `pass` or `fail`"
        return Judgement(
            None, short(f"{outcome.specialist} gave no verdict: {error}", LONGEST), outcome.run_id, outcome.cost_usd
        )
    reason = short(str(output.get("reason") or outcome.answer), LONGEST)
    return Judgement(verdict, reason, outcome.run_id, outcome.cost_usd)


def _truth(value: Any) -> bool | None:  # noqa: ANN401 - a JSON value
    if isinstance(value, bool):
        return value
    return _VERDICTS.get(value.strip().lower()) if isinstance(value, str) else None


Steps = Callable[[str], "RunSteps | None"]
"""Returns the requests and calls of a stored run; None if it is not stored."""

LONGEST_REASON = 300
"""Maximum length of a reason [characters]."""


class StoredContext(EvaluatorContext[Any, Any, Any]):
    """The context of a run; its spans are loaded from the store when they are needed."""

    steps: Steps

    @property
    def span_tree(self) -> SpanTree:
        """The spans of the run; raises SpanTreeRecordingError if the run is not stored."""
        if isinstance(self._span_tree, SpanTreeRecordingError):
            stored = self.steps(checked(self).outcome.run_id)
            if stored is None:
                raise self._span_tree
            self._span_tree = span_tree(stored)
        return self._span_tree


def checked(context: EvaluatorContext[Any, Any, Any]) -> CheckedRun:
    """Return the run of a context."""
    run: CheckedRun = context.attributes[RUN]
    return run


async def scored(planned: PlannedRun, done: Done | None, judgements: Mapping[str, Judgement], steps: Steps) -> CaseRun:
    """Return a run with its checks.

    done: the end of its item; None if it was not run.
    judgements: by the key of the judge.
    """
    case, variant = planned.case, planned.subject.variant
    outcome = None if done is None else done.outcome
    if outcome is None:
        error = None if done is None else done.error
        return CaseRun(case.name, variant.name, planned.repeat, None, "not run", error=error)
    context = _context(planned, outcome, judgements, steps)
    checks: list[Check] = []
    judge_costs = [one.cost_usd for one in judgements.values()]
    errors = [outcome.error] if outcome.error else []
    for evaluator in case.evaluators if outcome.status != "aborted" else ():
        try:
            checks += _checks(evaluator, await evaluator.evaluate_async(context))
        except Exception as error:  # noqa: BLE001 - an evaluator may come from anywhere
            why = short(str(error) or type(error).__name__, LONGEST_REASON)
            errors.append(f"{evaluator.get_default_evaluation_name()}: {why}")
    return CaseRun(
        case.name,
        variant.name,
        planned.repeat,
        outcome.run_id,
        outcome.status,
        tuple(_distinct(checks)),
        outcome.tool_calls.used,
        outcome.usage.total_tokens,
        outcome.cost_usd,
        None if None in judge_costs else sum(filter(None, judge_costs)),
        outcome.duration_s,
        "; ".join(errors) or None,
        len(errors) - bool(outcome.error),
    )


def _context(planned: PlannedRun, outcome: Outcome, judgements: Mapping[str, Judgement], steps: Steps) -> StoredContext:
    usage = outcome.usage
    metrics: dict[str, int | float] = {
        "input_tokens": usage.total_tokens - usage.output_tokens,
        "output_tokens": usage.output_tokens,
    }
    context = StoredContext(
        name=planned.case.name,
        inputs=planned.case.question,
        metadata=planned.case.metadata,
        expected_output=planned.case.expected_output,
        # What other evaluators compare: the structured answer, or the text.
        output=outcome.answer if outcome.output is None else outcome.output,
        duration=outcome.duration_s,
        _span_tree=SpanTreeRecordingError("the run is not stored, so there are no spans; use a store"),
        attributes={RUN: CheckedRun(outcome, judgements)},
        metrics=metrics if outcome.cost_usd is None else {**metrics, "cost": outcome.cost_usd},
    )
    context.steps = steps
    return context


def _checks(evaluator: Evaluator[Any, Any, Any], found: Any) -> Iterator[Check]:  # noqa: ANN401 - `EvaluatorOutput`
    if not isinstance(found, Mapping):
        found = {evaluator.get_default_evaluation_name(): found}
    for name, one in found.items():
        value, reason = (one.value, one.reason) if isinstance(one, EvaluationReason) else (one, None)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a score")
        line = None if reason is None else short(reason, LONGEST_REASON)
        looks_for = short(", ".join(str(one) for one in evaluator.build_serialization_arguments().values()), 60)
        yield Check(f"{name}\n{looks_for}", value, line)


def _distinct(checks: list[Check]) -> Iterator[Check]:
    """Return a distinct name for each check: its evaluator, with the argument if several have the same name."""
    names = [one.name.partition("\n")[0] for one in checks]
    for one in checks:
        name, _, looks_for = one.name.partition("\n")
        yield Check(f"{name}: {looks_for}" if names.count(name) > 1 and looks_for else name, one.value, one.reason)


_TRACE = 1
_RUN = 1
_REQUESTS = 1_000_000
"""First span id of requests, above the number of any call."""


def span_tree(run: "RunSteps") -> SpanTree:
    """Return the spans that the run has made, with the names and attributes of docs/python.md."""
    tree = SpanTree()
    tree.add_spans([*_spans(run)])
    return tree


def _spans(run: "RunSteps") -> Iterator[SpanNode]:
    ended = run.started_at if run.ended_at is None else run.ended_at
    yield _node(
        f"invoke_agent {run.specialist}",
        _RUN,
        None,
        (run.started_at, ended),
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": run.specialist,
            "gen_ai.conversation.id": run.run_id,
            "run_specialist.status": run.status,
        },
        is_error=run.status == "failed",
    )
    for request in run.requests:
        yield _request(run, request)
    for call in run.calls:
        yield _call(call)


def _request(run: "RunSteps", request: "RequestStep") -> SpanNode:
    usage = request.usage
    return _node(
        f"chat {run.model}",
        _REQUESTS + request.number,
        _RUN,
        (request.at - request.seconds, request.at),
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": run.model,
            "gen_ai.usage.input_tokens": usage.total_tokens - usage.output_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
        },
    )


def _call(call: "CallStep") -> SpanNode:
    return _node(
        f"execute_tool {call.name}",
        _RUN + call.number,
        _RUN,
        (call.at - call.seconds, call.at),
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.tool.call.arguments": json.dumps(call.arguments, ensure_ascii=False),
        },
        is_error=call.is_error,
    )


def _node(  # noqa: PLR0913, PLR0917 - the parts of a span
    name: str,
    number: int,
    parent: int | None,
    times: tuple[float, float],
    attributes: dict[str, str | int],
    is_error: bool = False,  # noqa: FBT001, FBT002 - as above
) -> SpanNode:
    start = datetime.fromtimestamp(times[0], UTC)
    return SpanNode(
        name=name,
        trace_id=_TRACE,
        span_id=number,
        parent_span_id=parent,
        start_timestamp=start,
        # The clock may have been set back meanwhile.
        end_timestamp=start + timedelta(seconds=max(times[1] - times[0], 0.0)),
        attributes=dict(attributes),
        status="error" if is_error else "unset",
    )


@dataclass(frozen=True)
class EvalForecast:
    """The forecast for all runs to be made."""

    parts: tuple[Forecast, ...]
    """Forecasts by specialist file and model."""
    judges: tuple[Forecast, ...] = ()
    """Forecasts of the judges of these runs, by file and model; judges of stored answers are not counted."""

    @property
    def is_known(self) -> bool:
        """Whether there are past runs for each file and model."""
        return all(one.runs for one in self.parts)

    @property
    def cost(self) -> tuple[float, float] | None:
        """Cost by the median and by the 90th percentile of past runs; None while unknown [USD]."""
        return _total(self.parts)

    @property
    def judge_cost(self) -> tuple[float, float] | None:
        """Cost of the judges by the median and by the 90th percentile of their past runs [USD]."""
        return _total(self.judges) if self.judges and all(one.runs for one in self.judges) else None

    @property
    def typical_cost(self) -> float:
        """Typical cost of a run (90th percentile); 0 = unknown [USD]."""
        return max((one.cost_usd.high for one in self.parts if one.cost_usd is not None), default=0.0)

    def seconds(self, at_once: int) -> float | None:
        """Return the time of all runs with this many in parallel; None while it is unknown [s]."""
        parts = [one.total_seconds(at_once) for one in self.parts]
        return None if None in parts else sum(filter(None, parts))


def _total(parts: Sequence[Forecast]) -> tuple[float, float] | None:
    low, high = [one.total_cost_low for one in parts], [one.total_cost_high for one in parts]
    if None in low or None in high:
        return None
    return sum(filter(None, low)), sum(filter(None, high))


def eval_forecast(
    plan: EvalPlan, earlier: Collection[str], runner: "Runner", known: StoredRuns, judging: "Runner | None" = None
) -> EvalForecast:
    """Return the forecast for the runs that are not reused, and for their judges.

    earlier: ids of the reused runs.
    judging: the runner of the judges; None = no judge is asked.
    """
    runs = [one for one in plan.runs if one.run_id not in earlier]
    asked = [(one.asked.file, runner.batches.model_of(one.asked)) for one in runs]
    judges = () if judging is None else tuple(_forecast_parts(_judges(runs, judging), plan, known))
    return EvalForecast(tuple(_forecast_parts(asked, plan, known)), judges)


def _judges(runs: Iterable[PlannedRun], runner: "Runner") -> Iterator[tuple["SpecialistFile", str]]:
    """Yield file and model of each judge of these runs; nothing if one of them has no model here."""
    names = Counter(each.specialist for one in runs for each in one.case.evaluators if isinstance(each, Judge))
    try:
        asked = {name: runner.batches.asked(find_judge(runner.registry, name), "?", {}) for name in names}
    except RunSpecialistError:
        return
    for name, count in names.items():
        yield from [(asked[name].file, runner.batches.model_of(asked[name]))] * count


def _forecast_parts(
    asked: Iterable[tuple["SpecialistFile", str]], plan: EvalPlan, known: StoredRuns
) -> Iterator[Forecast]:
    counts = Counter((file.name, file.digest, model) for file, model in asked)
    for (name, digest, model), count in counts.items():
        past = [] if known.store is None else known.store.past(name, plan.project)
        yield forecast(alike(past, model, digest), count)
