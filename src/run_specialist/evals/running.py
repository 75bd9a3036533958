"""Run an eval: batches of runs and of judges, the scores of the answers, the forecast of the cost."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_evals.evaluators import EvaluationReason, EvaluatorContext
from pydantic_evals.otel import SpanNode, SpanTree, SpanTreeRecordingError

from run_specialist.api.run_maker import RunRequest
from run_specialist.api.runner import Runner
from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.item import Done, Item
from run_specialist.batch.limits import Forecast, alike, forecast
from run_specialist.errors import RunSpecialistError, SpecialistNotFound, UsageError
from run_specialist.evals.cases import EvalCase
from run_specialist.evals.evaluators import RUN, CheckedRun, Judge, Judgement, short
from run_specialist.evals.plan import CaseRun, Check, EvalPlan, EvalResult, PlannedRun, run_key
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.availability import powers
from run_specialist.spawning.spawner import answer_schema
from run_specialist.spawning.trust import RunContext
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve
from run_specialist.store.batch_reader import JUDGES
from run_specialist.store.reader import RunSteps, Store

FOLDER = Path(__file__).parent / "judges"
"""Not one of the folders of specialists, so that no agent is offered a judge."""
LONGEST = 300
"""Maximum length of a reason [characters]."""

_VERDICTS = {"pass": True, "true": True, "fail": False, "false": False}
_TAG = re.compile(r"</?(?:question|answer|quotes|gaps|known_right_answer|rubric)>")
_MARKS = {True: "found", False: "not found in what was read", None: "not looked up"}

Judgements = dict[int, dict[str, Judgement]]
"""Verdicts by number of the judged run, then by the key of the judge."""


def runs_batch(plan: EvalPlan, runner: Runner, bounds: Bounds) -> Batch:
    """Return the batch of all runs."""
    items = []
    for one in plan.runs:
        given = {"case": one.case.name, "variant": one.subject.variant.name, "repeat": one.repeat}
        items.append(Item(one.number, {"name": one.name, **given}, one.case.question, one.run_id))
    return runner.batches.make_of(plan.row(bounds.cost_limit), items, [one.asked for one in plan.runs], bounds)


def judges_of(case: EvalCase) -> list[Judge]:
    """Return the judges of a case."""
    return [one for one in case.evaluators if isinstance(one, Judge)]


class JudgedAnswer(NamedTuple):
    """One answer and one rubric."""

    run: PlannedRun
    judge: Judge
    asked: RunRequest
    run_id: str
    """Id of the run of the judge; equal answers have the same judge, who is asked once."""


def judged_answers(plan: EvalPlan, ends: Mapping[int, Done], runner: Runner) -> list[JudgedAnswer]:
    """Return the answers that judges are to read; raises UsageError if a judge cannot be asked.

    runner: without a model of its own, so that the variants' model does not judge itself.
    """
    found = []
    for one in plan.runs:
        outcome = ends[one.number].outcome if one.number in ends else None
        if outcome is None or outcome.status in {"failed", "aborted"}:
            continue
        for judge in judges_of(one.case):
            file = find_judge(runner.registry, judge.specialist)
            asked = runner.maker.asked(file, judge_question(one.case, outcome, judge.rubric), {})
            key = run_key(asked, runner.batches.model_of(asked), plan.project, kind="j")
            found.append(JudgedAnswer(one, judge, asked, f"{key}-1"))
    return found


def judges_batch(plan: EvalPlan, answers: Sequence[JudgedAnswer], runner: Runner, bounds: Bounds) -> Batch:
    """Return the batch of all judges."""
    distinct = {one.run_id: one for one in answers}
    row = replace(
        plan.row(bounds.cost_limit),
        batch_id=f"{plan.eval_id}{JUDGES}",
        specialist="/".join(sorted({one.judge.specialist for one in answers})),
        question=f"judges of {plan.eval_id}",
        frozen={"eval_judges": plan.eval_id},
    )
    items = [
        Item(at, {"name": f"judge · {one.run.case.name} · {one.run.subject.variant.name}"}, one.asked.question, run_id)
        for at, (run_id, one) in enumerate(distinct.items(), 1)
    ]
    return runner.batches.make_of(row, items, [one.asked for one in distinct.values()], bounds)


def judgements(answers: Iterable[JudgedAnswer], ends: Mapping[str, Done], problem: str | None) -> Judgements:
    """Return the verdicts on each run from the ended runs of judges, by id; `problem` is why others were not asked."""
    found: Judgements = {}
    paid: set[str] = set()
    for one in answers:
        done = ends.get(one.run_id)
        if done is not None and done.outcome is not None:
            said = judgement(done.outcome)
            # A judge of equal answers is in the bill once.
            said = said._replace(cost_usd=0.0) if one.run_id in paid else said
            paid.add(one.run_id)
        else:
            error = (done and done.error) or problem or "it was not asked"
            said = Judgement(None, f"{one.judge.specialist} gave no verdict: {error}")
        found.setdefault(one.run.number, {})[one.judge.key] = said
    return found


def judgement(outcome: Outcome) -> Judgement:
    """Return the verdict of a judge from its structured answer: `verdict`, `pass` or `fail`, and `reason`."""
    output = outcome.output if isinstance(outcome.output, Mapping) else {}
    verdict = _VERDICTS.get(str(output.get("verdict")).strip().lower())
    if outcome.status in {"failed", "aborted"} or verdict is None:
        error = outcome.error or "its structured answer has no field `verdict` with `pass` or `fail`"
        return Judgement(None, short(f"{outcome.specialist} gave no verdict: {error}", LONGEST), outcome.cost_usd)
    return Judgement(verdict, short(str(output.get("reason") or outcome.answer), LONGEST), outcome.cost_usd)


def find_judge(registry: Registry, name: str) -> SpecialistFile:
    """Return a judge by its name or path; raises SpecialistNotFound."""
    try:
        return registry.find(name)
    except SpecialistNotFound:
        included = FOLDER / f"{name}.md"
        if "/" in name or not included.is_file():
            raise
        return load(included)


def check_judge(runner: Runner, name: str) -> None:
    """Raise UsageError if the judge does not exist, its file has errors, or its answers contain no verdict."""
    file = find_judge(runner.registry, name)
    settings = resolve(file, {}).settings
    # The cases may come from somebody else, and they are a part of its question.
    if does := powers(RunContext(file, settings, runner.root, runner.environments.trust)):
        raise UsageError(f"{name} may {'; '.join(does)}; a judge must not, because a case chooses it")
    schema = answer_schema(file, settings)
    if schema is None or "verdict" not in schema.schema.get("properties", ()):
        raise UsageError(f"{name} is not a judge: its file has no `output_schema` with `verdict` and `reason`")


def judge_question(case: EvalCase, outcome: Outcome, rubric: str) -> str:
    """Return the question for a judge about an outcome: parts between tags, which no text inside can end or begin."""
    parts = {"question": case.question, "answer": outcome.answer}
    if outcome.evidence:
        quotes = (f"- {one.source} ({_MARKS[one.verified]}): {one.quote}" for one in outcome.evidence)
        parts["quotes"] = "\n".join(quotes)
    if outcome.gaps:
        parts["gaps"] = "\n".join(f"- {gap}" for gap in outcome.gaps)
    if case.expected_output is not None:
        parts["known_right_answer"] = str(case.expected_output)
    parts["rubric"] = rubric
    harmless = {name: _TAG.sub(lambda tag: f"[{tag[0][1:-1]}]", text) for name, text in parts.items()}
    tagged = [f"<{name}>\n{text}\n</{name}>" for name, text in harmless.items()]
    return "\n\n".join([*tagged, "Does the answer meet the rubric?"])


async def result_of(
    plan: EvalPlan, ends: Mapping[int, Done], judgements: Judgements, store: Store | None
) -> EvalResult:
    """Return the runs with their checks."""
    steps = store.steps([one.outcome.run_id for one in ends.values() if one.outcome is not None]) if store else {}
    runs = [await scored(one, ends.get(one.number), judgements.get(one.number, {}), steps) for one in plan.runs]
    cases, variants = tuple(one.name for one in plan.cases), tuple(one.variant for one in plan.subjects)
    return EvalResult(plan.eval_id, plan.specialist, cases, variants, tuple(runs))


async def scored(
    planned: PlannedRun, done: Done | None, judgements: Mapping[str, Judgement], steps: Mapping[str, RunSteps]
) -> CaseRun:
    """Return a run with its checks; `done` is None if it was not run."""
    case = planned.case
    run = CaseRun(case.name, planned.subject.variant.name, planned.repeat, None, "not run", question=case.question)
    outcome = None if done is None else done.outcome
    if outcome is None:
        return replace(run, error=None if done is None else done.error)
    output_tokens, tokens = outcome.usage.output_tokens, outcome.usage.total_tokens
    metrics: dict[str, int | float] = {"input_tokens": tokens - output_tokens, "output_tokens": output_tokens}
    stored = steps.get(outcome.run_id)
    missing = SpanTreeRecordingError("the run is not stored, so there are no spans; use a store")
    context: EvaluatorContext[Any, Any, Any] = EvaluatorContext(
        name=case.name,
        inputs=case.question,
        metadata=case.metadata,
        expected_output=case.expected_output,
        # The structured answer, or the text, is compared by evaluators of pydantic-evals.
        output=outcome.answer if outcome.output is None else outcome.output,
        duration=outcome.duration_s,
        _span_tree=missing if stored is None else span_tree(stored),
        attributes={RUN: CheckedRun(outcome, judgements)},
        metrics=metrics if outcome.cost_usd is None else {**metrics, "cost": outcome.cost_usd},
    )
    checks: list[tuple[str, Check]] = []
    problems: list[str] = []
    for evaluator in case.evaluators if outcome.status != "aborted" else ():
        own_name = evaluator.get_default_evaluation_name()
        try:
            found = await evaluator.evaluate_async(context)
            for name, one in (found if isinstance(found, Mapping) else {own_name: found}).items():
                value, reason = (one.value, one.reason) if isinstance(one, EvaluationReason) else (one, None)
                if isinstance(value, float) and not math.isfinite(value):
                    raise ValueError(f"{value} is not a score")  # noqa: TRY301 - as what an evaluator raises
                argument = short(", ".join(map(str, evaluator.build_serialization_arguments().values())), 60)
                checks.append((argument, Check(name, value, None if reason is None else short(reason, LONGEST))))
        except Exception as error:  # noqa: BLE001 - an evaluator may come from anywhere
            problems.append(f"{own_name}: {short(str(error) or type(error).__name__, LONGEST)}")
    names = Counter(one.name for _, one in checks)
    judge_costs = [one.cost_usd for one in judgements.values()]
    return replace(
        run,
        run_id=outcome.run_id,
        status=outcome.status,
        checks=tuple(
            replace(one, name=f"{one.name}: {argument}") if names[one.name] > 1 and argument else one
            for argument, one in checks
        ),
        tool_calls=outcome.tool_calls.used,
        tokens=tokens,
        cost_usd=outcome.cost_usd,
        judge_cost_usd=None if None in judge_costs else sum(filter(None, judge_costs)),
        seconds=outcome.duration_s,
        error="; ".join([outcome.error, *problems] if outcome.error else problems) or None,
        unmade_checks=len(problems),
        answer=outcome.answer,
        evidence=tuple(asdict(one) for one in outcome.evidence),
        gaps=tuple(outcome.gaps),
    )


def span_tree(run: RunSteps) -> SpanTree:
    """Return the spans that the run has made, with the names and attributes of docs/python.md."""
    ended = run.started_at if run.ended_at is None else run.ended_at
    about: dict[str, Any] = {
        "gen_ai.agent.name": run.specialist,
        "gen_ai.conversation.id": run.run_id,
        "run_specialist.status": run.status,
    }
    # The run comes first, and is the parent of all others.
    steps = [(f"invoke_agent {run.specialist}", ended, ended - run.started_at, about, run.status == "failed")]
    for request in run.requests:
        about = {
            "gen_ai.request.model": run.model,
            "gen_ai.usage.input_tokens": request.reply.usage.total_tokens - request.reply.usage.output_tokens,
            "gen_ai.usage.output_tokens": request.reply.usage.output_tokens,
        }
        steps.append((f"chat {run.model}", request.at, request.seconds, about, False))
    for one in run.calls:
        about = {
            "gen_ai.tool.name": one.call.name,
            "gen_ai.tool.call.id": one.call.id,
            "gen_ai.tool.call.arguments": json.dumps(one.call.arguments, ensure_ascii=False),
        }
        steps.append((f"execute_tool {one.call.name}", one.at, one.seconds, about, one.is_error))
    tree = SpanTree()
    tree.add_spans(
        [
            SpanNode(
                name=name,
                trace_id=1,
                span_id=number,
                parent_span_id=None if number == 1 else 1,
                # The clock may have been set back meanwhile.
                start_timestamp=datetime.fromtimestamp(end - max(seconds, 0.0), UTC),
                end_timestamp=datetime.fromtimestamp(end, UTC),
                attributes={"gen_ai.operation.name": name.partition(" ")[0], **attributes},
                status="error" if is_error else "unset",
            )
            for number, (name, end, seconds, attributes, is_error) in enumerate(steps, 1)
        ]
    )
    return tree


class EvalForecast(NamedTuple):
    """The forecast for all runs to be made, and for their judges: median and 90th percentile; None = unknown."""

    total_cost_usd: float | None
    total_cost_usd_90: float | None
    judges_cost_usd: float | None
    judges_cost_usd_90: float | None
    total_seconds: float | None
    typical_cost: float
    """Of one run; 0 = unknown [USD]."""


def eval_forecast(plan: EvalPlan, runner: Runner, store: Store | None, judging: Runner, at_once: int) -> EvalForecast:
    """Return the forecast for the runs that are not stored, and for their judges if any is asked."""
    runs = [one for one in plan.runs if one.run_id not in plan.earlier]

    def parts(asked: Iterable[RunRequest], by: Runner) -> list[Forecast]:
        counts = Counter((one.file.name, one.file.digest, by.batches.model_of(one)) for one in asked)
        past = {name: store.past(name, plan.project) if store else () for name, _, _ in counts}
        return [forecast(alike(past[name], model, digest), of) for (name, digest, model), of in counts.items()]

    found, judges = parts((one.asked for one in runs), runner), list[Forecast]()
    # A judge without a model here has no price.
    with suppress(RunSpecialistError):
        names = [judge.specialist for one in runs for judge in judges_of(one.case)]
        asked = {name: judging.maker.asked(find_judge(judging.registry, name), "?", {}) for name in {*names}}
        judges = parts((asked[name] for name in names), judging)
    seconds = [one.total_seconds(at_once) for one in found]

    def total(parts: Sequence[Forecast]) -> tuple[float | None, float | None]:
        low, high = [one.total_cost_low for one in parts], [one.total_cost_high for one in parts]
        if None in low or None in high:
            return None, None
        return round(sum(filter(None, low)), 8), round(sum(filter(None, high)), 8)

    return EvalForecast(
        *total(found),
        *(total(judges) if judges else (None, None)),
        None if None in seconds else sum(filter(None, seconds)),
        max((one.cost_usd.high for one in found if one.cost_usd is not None), default=0.0),
    )
