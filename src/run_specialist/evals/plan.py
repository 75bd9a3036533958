"""Plan the runs of an eval: cases by variants by repeats; their results, and how they are stored."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field

from run_specialist.api.run_maker import RunRequest
from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError, errors_as
from run_specialist.evals.cases import EvalCase
from run_specialist.record.outcome import Status
from run_specialist.spawning.spawner import answer_schema
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_path
from run_specialist.specialist.settings import Data, checked
from run_specialist.store.batches import BatchWriter, StoredBatch
from run_specialist.store.location import NONE, place

AS_IT_IS = "as it is"
"""Name of the variant that is the unchanged file."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one evaluator for one run."""

    name: str
    """Name of the evaluator, with its argument if several evaluators have the same name."""
    value: bool | float | str
    """Whether it holds; a score, usually from 0 to 1; or a label, which is only shown."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One run of one case with one variant, and its checks."""

    case: str
    variant: str
    repeat: int
    run_id: str | None
    status: Status | Literal["not run"]
    checks: tuple[Check, ...] = ()
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """Cost without judges; None if a price is unknown [USD]."""
    judge_cost_usd: float | None = 0.0
    seconds: float = 0.0
    error: str | None = None
    """Why there is no outcome, no complete answer, or a check that could not be made."""
    unmade_checks: int = 0
    """Number of checks that could not be made, e.g. because a judge failed; they are not among `checks`."""
    question: str = ""
    answer: str = ""
    evidence: tuple[Mapping[str, Any], ...] = ()
    """As in the outcome: `source`, `quote`, `verified`."""
    gaps: tuple[str, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether there is an outcome to judge."""
        return self.status not in {"not run", "aborted"}

    def score_by(self, names: set[str] | None = None) -> float:
        """Return the mean of the checks with these names, None = all; without any, 0.0 if the run failed, else 1.0."""
        checks = [one.value for one in self.checks if names is None or one.name in names]
        scores = [float(value) for value in checks if not isinstance(value, str)]
        return 0.0 if self.status == "failed" else fmean(scores) if scores else 1.0

    @property
    def score(self) -> float:
        """The mean of all checks."""
        return self.score_by()

    @property
    def is_scored(self) -> bool:
        """Whether the score counts: not if none of the checks could be made."""
        made = any(not isinstance(one.value, str) for one in self.checks)
        return made or not self.unmade_checks or self.status == "failed"

    def passes(self, names: set[str] | None = None) -> bool:
        """Return whether the run gave an answer, and every yes/no check with one of these names, None = all, holds."""
        values = [one.value for one in self.checks if names is None or one.name in names]
        return self.status != "failed" and all(value is not False for value in values)

    @property
    def passed(self) -> bool:
        """Whether the run gave an answer, all checks could be made, and every yes/no check holds."""
        return self.passes() and self.has_ended and not self.unmade_checks


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the cases."""

    name: str
    """As shown, such as `model=haiku, tool_calls_limit=8`; `as it is` for a file without changes."""
    path: str
    digest: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_baseline: bool = False


@dataclass(frozen=True, slots=True)
class EvalResult:
    """All runs of an eval."""

    eval_id: Annotated[str, Field(validation_alias="eval")]
    specialist: str
    cases: tuple[str, ...]
    variants: tuple[Variant, ...]
    runs: tuple[CaseRun, ...]

    def of(self, variant: str) -> list[CaseRun]:
        """Return the runs of a variant that have ended."""
        return [one for one in self.runs if one.variant == variant and one.has_ended]

    def by_case(self, variant: str) -> dict[str, list[CaseRun]]:
        """Return the runs of a variant that have ended, by case."""
        found: dict[str, list[CaseRun]] = {}
        for one in self.of(variant):
            found.setdefault(one.case, []).append(one)
        return found

    def score_of(self, variant: str) -> float | None:
        """Return the mean score of a variant: the mean over the cases of each case's mean; None without any."""
        scores = [[one.score for one in runs if one.is_scored] for runs in self.by_case(variant).values()]
        means = [fmean(one) for one in scores if one]
        return fmean(means) if means else None


@dataclass(frozen=True)
class Subject:
    """A variant with its file and all settings."""

    variant: Variant
    file: SpecialistFile
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings that override the file: those of every variant, then those of this one."""


def varied(given: Sequence[str]) -> dict[str, list[Any]]:
    """Parse several `KEY=VALUE,VALUE`; raises UsageError."""
    found: dict[str, list[Any]] = {}
    for one in given:
        key, _, values = (part.strip() for part in one.partition("="))
        key, texts = key.replace("-", "_"), [part.strip() for part in values.split(",")]
        if not key or not all(texts):
            raise UsageError(f"--vary: {shown(one)} must be KEY=VALUE,VALUE..., e.g. tool_calls_limit=8,15")
        if key in found or len(set(texts)) < len(texts):
            raise UsageError(f"--vary: {key} must be given once, with each of its values once")
        found[key] = [_value(text) for text in texts]
        with errors_as(UsageError, "--vary", UsageError):
            for value in found[key]:
                checked({key: value})
    return found


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def subjects(
    files: Sequence[SpecialistFile], common: Mapping[str, Any], vary: Mapping[str, Sequence[Any]]
) -> list[Subject]:
    """Return all combinations of files and values, with common settings; the first file is the specialist itself."""
    found, names = [], [file.path.name for file in files]
    for file, values in product(files, product(*vary.values())):
        changed = dict(zip(vary, values, strict=True))
        words = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in changed.items()]
        if file is not files[0]:
            words.insert(0, file.path.name if names.count(file.path.name) == 1 else str(file.path))
        variant = Variant(", ".join(words) or AS_IT_IS, str(file.path), file.digest, changed)
        found.append(Subject(variant, file, {**common, **changed}))
    return found


@dataclass(frozen=True)
class PlannedRun:
    """One run of one case with one variant."""

    number: int
    case: EvalCase
    subject: Subject
    repeat: int
    asked: RunRequest
    key: str
    generation: int = 1
    """From 1; a later one replaces a run whose files have changed, or that was to be repeated."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        name = f"{self.key}-{self.repeat}"
        return name if self.generation == 1 else f"{name}.{self.generation}"

    @property
    def name(self) -> str:
        """The case and the variant, for people."""
        name = f"{self.case.name} · {self.subject.variant.name}"
        return name if self.repeat == 1 else f"{name} · {self.repeat}"


@dataclass(frozen=True)
class EvalPlan:
    """All runs of an eval, in the order in which they begin."""

    eval_id: str
    specialist: str
    path: Path
    cases: tuple[EvalCase, ...]
    subjects: tuple[Subject, ...]
    repeat: int
    project: str
    runs: tuple[PlannedRun, ...]
    is_fresh: bool = False
    earlier: frozenset[str] = frozenset()
    """Ids of the runs that are stored already."""
    stale: int = 0
    """Number of runs to be repeated because files that they read have changed."""

    def row(self, cost_limit: float | None, result: Mapping[str, Any] | None = None) -> StoredBatch:
        """Return the row that stores the eval, at the end with its result."""
        variants = [{**asdict(one.variant), "settings": dict(one.variant.settings)} for one in self.subjects]
        about = {"cases": str(self.path), "variants": variants, "repeat": self.repeat, "fresh": self.is_fresh}
        frozen = {"eval": about if result is None else {**about, "result": result}}
        question = f"eval of {self.path.name}"
        return StoredBatch(
            self.eval_id, self.specialist, question, time.time(), frozen, None, self.project, cost_limit=cost_limit
        )


def planned(  # noqa: PLR0913, PLR0917 - the parts of a plan
    runner: Runner,
    specialist: str,
    path: Path,
    cases: tuple[EvalCase, ...],
    subjects: Sequence[Subject],
    repeat: int = 1,
) -> EvalPlan:
    """Return the plan of an eval; stores and sends nothing. Raises UsageError for a file or setting that is wrong."""
    project = project_path(runner.root)
    resolved: dict[tuple[int, str], RunRequest] = {}
    runs: list[PlannedRun] = []
    models = {}
    # The runs of a case with all variants come one after the other, so that they meet the same conditions.
    for case, (number, subject) in product(cases, enumerate(subjects)):
        # Cases without their own settings share the resolved ones.
        same = (number, json.dumps(case.settings, sort_keys=True, default=str))
        if same not in resolved:
            # The settings of a case are not those of the caller.
            places = partial(lambda case, key: f"{case.places.get(key, case.where)}: settings", case)
            data = Data(case.settings, places) if case.settings else None
            resolved[same] = runner.maker.asked(subject.file, case.question, subject.settings, data)
        asked = replace(resolved[same], question=case.question)
        models[subject.variant.name] = runner.batches.model_of(asked)
        key = run_key(asked, models[subject.variant.name], project)
        runs += [PlannedRun(len(runs) + one, case, subject, one, asked, key) for one in range(1, repeat + 1)]
    compared = [[one.variant.name, one.variant.digest, one.settings, models.get(one.variant.name)] for one in subjects]
    name = f"eval-{_digest([project, specialist, str(path), compared, repeat])[:8]}"
    return EvalPlan(name, specialist, path, cases, tuple(subjects), repeat, project, tuple(runs))


def run_key(asked: RunRequest, model: str, project: str, kind: Literal["e", "j"] = "e") -> str:
    """Return `e` for a case or `j` for a judge, and 16 hexadecimal digits that depend on every input of the run.

    The content of the files that it reads is compared before it is reused.
    """
    settings: dict[str, Any] = asked.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    schema = answer_schema(asked.file, asked.settings)
    settings["output_schema"] = None if schema is None else dict(schema.schema)
    return f"{kind}{_digest([project, asked.file.name, asked.file.digest, settings, model, asked.question])}"


def _digest(parts: Any) -> str:  # noqa: ANN401 - JSON values
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def keep_result(plan: EvalPlan, result: Mapping[str, Any], store: str | None) -> None:
    """Store a result as `--json` prints it, in place of that of an earlier call; raises StoreUnusable."""
    if (where := place(store).url) != NONE:
        with BatchWriter(where) as writer:
            writer.set_frozen(plan.eval_id, plan.row(None, result).frozen)
