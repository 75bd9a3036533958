"""The plan of an eval: each case with each variant, times the number of repeats."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from run_specialist.batch.item import Item
from run_specialist.evals.case import EvalCase, EvalSet
from run_specialist.evals.run_keys import eval_id, run_id, run_key
from run_specialist.evals.variants import Subject
from run_specialist.specialist.project import project_path
from run_specialist.specialist.resolve import Data

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner
    from run_specialist.store import batches


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
