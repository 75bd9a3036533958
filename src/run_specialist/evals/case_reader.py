"""The common base of the readers for all formats of eval cases."""

from collections.abc import Callable, Iterable
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.case import EvalCase, EvalSet
from run_specialist.evals.evaluator_list import EvaluatorList
from run_specialist.evals.positions import PlacedValue
from run_specialist.specialist.problems import Problems


class CaseReader:
    """Collects the cases and the problems of a file."""

    def __init__(self, path: Path, check_judge: Callable[[str], None]) -> None:
        """Begin a file.

        check_judge: must raise UsageError if the judge with this name cannot be asked.
        """
        self._path = path
        self._problems = Problems(path)
        self._evaluators = EvaluatorList(self._problems, check_judge)

    def _place(self, given: PlacedValue) -> str:
        """Return the position of a value, as `file:line:column`."""
        return f"{self._path}:{given.place.line}:{given.place.column}"

    def _without_problems(self, cases: Iterable[EvalCase]) -> EvalSet:
        """Return the cases; raises UsageError with a line per problem in the file."""
        if problems := self._problems.sorted():
            raise UsageError("\n".join(map(str, problems)))
        return EvalSet(self._path, tuple(cases))
