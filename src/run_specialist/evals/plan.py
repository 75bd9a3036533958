"""Plan the runs of an eval: cases by variants by repeats; their results and the file that keeps them."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from run_specialist.batch.item import Item
from run_specialist.errors import UsageError
from run_specialist.evals.cases import EvalCase, EvalSet
from run_specialist.record.outcome import Status
from run_specialist.safety import safe_files
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_path
from run_specialist.specialist.settings import Data, checked

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.store import batches


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

    @property
    def score(self) -> float | None:
        """The value as a number; None for a label."""
        return None if isinstance(self.value, str) else float(self.value)


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One run of one case with one variant, and its checks."""

    case: str
    variant: str
    repeat: int
    """Number of the repeat, from 1."""
    run_id: str | None
    """Id of the run; None if it did not begin."""
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

    @property
    def has_ended(self) -> bool:
        """Whether there is an outcome to judge."""
        return self.status not in {"not run", "aborted"}

    @property
    def score(self) -> float:
        """The mean of the checks; without checks, 1.0 if the run gave an answer, otherwise 0.0."""
        if self.status == "failed":
            return 0.0
        scores = [one.score for one in self.checks if one.score is not None]
        return fmean(scores) if scores else 1.0

    @property
    def is_scored(self) -> bool:
        """Whether the score counts: not if none of the checks could be made."""
        made = any(one.score is not None for one in self.checks)
        return made or not self.unmade_checks or self.status == "failed"

    @property
    def passed(self) -> bool:
        """Whether the run gave an answer, all checks could be made, and every yes/no check holds."""
        if self.unmade_checks:
            return False
        return self.has_ended and self.status != "failed" and all(one.value is not False for one in self.checks)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the cases."""

    name: str
    """As shown, such as `model=haiku, tool_calls_limit=8`; `as it is` for a file without changes."""
    path: str
    """The specialist file."""
    digest: str
    """Digest of the content of the file."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that differ from the file, by key."""
    is_baseline: bool = False
    """Whether the other variants are compared with it."""


@dataclass(frozen=True, slots=True)
class EvalResult:
    """All runs of an eval."""

    eval_id: str
    specialist: str
    cases: tuple[str, ...]
    """Names, in the order of the file."""
    variants: tuple[Variant, ...]
    runs: tuple[CaseRun, ...]

    def of(self, variant: str) -> tuple[CaseRun, ...]:
        """Return the runs of a variant that have ended."""
        return tuple(one for one in self.runs if one.variant == variant and one.has_ended)

    def is_scored(self, variant: str) -> bool:
        """Return whether a run of a variant has a score that counts."""
        return any(one.is_scored for one in self.of(variant))

    def score_of(self, variant: str) -> float:
        """Return the mean score of a variant: the mean over the cases of each case's mean; 0.0 without any."""
        by_case: dict[str, list[float]] = {}
        for one in filter(attrgetter("is_scored"), self.of(variant)):
            by_case.setdefault(one.case, []).append(one.score)
        return fmean(map(fmean, by_case.values())) if by_case else 0.0


LARGEST = 256 * 1024 * 1024
"""[bytes]"""


def read_result(path: Path) -> EvalResult:
    """Return the result in a file that `--json` wrote; raises UsageError with the place of the problem."""
    try:
        with safe_files.open_file(path, None) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path}: is larger than {LARGEST // 1024**2} MiB")
    try:
        return _result(json.loads(data))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: is not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}:1:1: is not a result of an eval: {reason}") from None


def _result(value: object) -> EvalResult:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only needed here

    if not isinstance(value, Mapping):
        raise ValueError("expected what `specialists eval NAME --json` prints")  # noqa: TRY004 - bad input
    try:
        return TypeAdapter(EvalResult).validate_python({**value, "eval_id": value.get("eval")})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])).replace("eval_id", "eval")
        raise ValueError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


@dataclass(frozen=True)
class Subject:
    """A variant with its file and all settings."""

    variant: Variant
    file: "SpecialistFile"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings that override the file: those of every variant, then those of this one."""

    @property
    def model(self) -> str | None:
        """The model that the settings name; None = that of the call, of the file or of the environment."""
        return self.settings.get("model")


@dataclass(frozen=True)
class VariedKey:
    """A key of a specialist's file, and the values that it takes in the variants."""

    key: str
    values: tuple[Any, ...]


def varied(given: str) -> VariedKey:
    """Parse `KEY=VALUE,VALUE`; raises UsageError."""
    key, equals, values = (part.strip() for part in given.partition("="))
    key = key.replace("-", "_")
    if not equals or not key:
        raise UsageError(f"--vary: {shown(given)} must be KEY=VALUE,VALUE..., e.g. tool_calls_limit=8,15")
    texts = [one.strip() for one in values.split(",")]
    if not all(texts):
        raise UsageError(f"--vary: {shown(given)} has an empty value")
    found = tuple(_value(one) for one in texts)
    for one in found:
        try:
            checked({key: one})
        except UsageError as error:
            raise UsageError(f"--vary: {error}") from None
    if len(set(texts)) < len(texts):
        raise UsageError(f"--vary: {shown(given)} has a value twice")
    return VariedKey(key, found)


def subjects(
    files: "Sequence[SpecialistFile]", common: Mapping[str, Any], vary: Sequence[VariedKey]
) -> tuple[Subject, ...]:
    """Return all combinations of files and values.

    files: the specialist itself, then those to compare it with.
    common: settings of every variant.
    Raises UsageError for a key that is varied twice.
    """
    keys = [one.key for one in vary]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise UsageError(f"--vary: {twice} is given twice; list all its values once, {twice}=A,B")
    return tuple(_subjects(files, common, vary))


def _subjects(
    files: "Sequence[SpecialistFile]", common: Mapping[str, Any], vary: Sequence[VariedKey]
) -> Iterator[Subject]:
    for file in files:
        for values in product(*(one.values for one in vary)):
            changed = {one.key: value for one, value in zip(vary, values, strict=True)}
            texts = {key: f"{value:g}" if isinstance(value, float) else value for key, value in changed.items()}
            words = [f"{key}={text}" for key, text in texts.items()]
            if file is not files[0]:
                is_alone = [one.path.name for one in files].count(file.path.name) == 1
                words.insert(0, file.path.name if is_alone else str(file.path))
            variant = Variant(", ".join(words) or AS_IT_IS, str(file.path), file.digest, changed)
            yield Subject(variant, file, {**common, **changed})


def _value(text: str) -> Any:  # noqa: ANN401 - a value of a key
    """Return a value as YAML reads it: a number if it is one, otherwise the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class PlannedRun:
    """One run of one case with one variant."""

    number: int
    """Number in the eval, from 1."""
    case: EvalCase
    subject: Subject
    repeat: int
    """Number of the repeat, from 1."""
    asked: "RunRequest"
    key: str
    """See `run_key`."""
    generation: int = 1

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return run_id(self.key, self.repeat, self.generation)

    @property
    def name(self) -> str:
        """The case and the variant, for people."""
        name = f"{self.case.name} · {self.subject.variant.name}"
        return name if self.repeat == 1 else f"{name} · {self.repeat}"

    @property
    def item(self) -> Item:
        """The item of the batch."""
        given = {
            "name": self.name,
            "case": self.case.name,
            "variant": self.subject.variant.name,
            "repeat": self.repeat,
        }
        return Item(self.number, given, self.case.question, self.run_id, self.case.where)


@dataclass(frozen=True)
class EvalPlan:
    """All runs of an eval, in the order in which they begin."""

    eval_id: str
    specialist: str
    cases: EvalSet
    subjects: tuple[Subject, ...]
    repeat: int
    """How often each case is run with each variant."""
    project: str
    runs: tuple[PlannedRun, ...]
    is_fresh: bool = False
    """Whether no stored run is reused."""

    def row(self, cost_limit: float | None) -> "batches.StoredBatch":
        """Return the row that stores the eval."""
        from run_specialist.store import batches  # noqa: PLC0415 - fast `--help`

        variants = [
            {**asdict(one), "settings": dict(one.settings)} for one in (subject.variant for subject in self.subjects)
        ]
        frozen = {
            "eval": {"cases": str(self.cases.path), "variants": variants, "repeat": self.repeat, "fresh": self.is_fresh}
        }
        question = f"eval of {self.cases.path.name}"
        return batches.StoredBatch(
            self.eval_id, self.specialist, question, time.time(), frozen, None, self.project, cost_limit=cost_limit
        )


def planned(
    runner: "Runner", specialist: str, cases: EvalSet, subjects: Sequence[Subject], repeat: int = 1
) -> EvalPlan:
    """Return the plan of an eval; stores and sends nothing.

    specialist: name of the evaluated specialist.
    Raises UsageError for a file or a setting that cannot be used.
    """
    project = project_path(runner.root)
    runs = tuple(replace(one, number=number) for number, one in enumerate(_runs(runner, cases, subjects, repeat), 1))
    models = {one.subject.variant.name: runner.batches.model_of(one.asked) for one in runs}
    compared = [[one.variant.name, one.variant.digest, one.settings, models.get(one.variant.name)] for one in subjects]
    name = eval_id([project, specialist, str(cases.path), compared, repeat])
    return EvalPlan(name, specialist, cases, tuple(subjects), repeat, project, runs)


def _data_of(case: EvalCase) -> Data | None:
    """Return the settings of a case, which are not those of the caller."""
    return Data(case.settings, lambda key: f"{case.places.get(key, case.where)}: settings") if case.settings else None


def _runs(runner: "Runner", cases: EvalSet, subjects: Sequence[Subject], repeat: int) -> Iterator[PlannedRun]:
    """Yield the runs of a case with all variants one after the other, so that they meet the same conditions."""
    project = project_path(runner.root)
    resolved: dict[tuple[int, str], RunRequest] = {}
    for case in cases.cases:
        for place, subject in enumerate(subjects):
            # Cases without their own settings share the resolved ones.
            same = (place, json.dumps(case.settings, sort_keys=True, default=str))
            if same not in resolved:
                resolved[same] = runner.batches.asked(subject.file, case.question, subject.settings, _data_of(case))
            asked = replace(resolved[same], question=case.question)
            key = run_key(asked, runner.batches.model_of(asked), project)
            for number in range(1, repeat + 1):
                yield PlannedRun(0, case, subject, number, asked, key)


_DIGITS = 16


def run_key(asked: "RunRequest", model: str, project: str, kind: Literal["e", "j"] = "e") -> str:
    """Return a letter and 16 hexadecimal digits that depend on every input of the run.

    model: id of the model.
    project: the folder whose files the run reads; their content is compared before a run is reused.
    kind: `e` for a case, `j` for a judge.
    """
    from run_specialist.spawning.spawner import answer_schema  # noqa: PLC0415 - fast `--help`

    settings: dict[str, Any] = asked.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    schema = answer_schema(asked.file, asked.settings)
    settings["output_schema"] = None if schema is None else dict(schema.schema)
    parts = [project, asked.file.name, asked.file.digest, settings, model, asked.question]
    return f"{kind}{_digest(parts)}"


def run_id(key: str, repeat: int, generation: int = 1) -> str:
    """Return the id of a run.

    repeat: from 1.
    generation: from 1; a later one replaces a run whose files have changed, or that was to be repeated.
    """
    return f"{key}-{repeat}" if generation == 1 else f"{key}-{repeat}.{generation}"


def eval_id(parts: Any) -> str:  # noqa: ANN401 - JSON values
    """Return `eval-` and 8 hexadecimal digits that depend on the compared variants and cases."""
    return f"eval-{_digest(parts)[:8]}"


def _digest(parts: Any) -> str:  # noqa: ANN401 - JSON values
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


_EVAL, _RESULT = "eval", "result"


def keep_result(plan: "EvalPlan", result: Mapping[str, Any], store: str | None) -> None:
    """Store a result; a result of an earlier call of the same eval is replaced.

    result: as `--json` prints it.
    store: URL of the store; None for the default one.
    Raises StoreUnusable.
    """
    from run_specialist.store.batches import BatchWriter  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - as above

    where = place(store).url
    if where == NONE:
        return
    frozen = plan.row(None).frozen
    with BatchWriter(where) as writer:
        writer.set_frozen(plan.eval_id, {**frozen, _EVAL: {**frozen[_EVAL], _RESULT: result}})


def kept_result(frozen: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the result stored with a batch; None if the batch is not an eval, or has not ended.

    frozen: the frozen values of the batch.
    """
    stored = frozen.get(_EVAL)
    found = stored.get(_RESULT) if isinstance(stored, Mapping) else None
    return found if isinstance(found, Mapping) else None
