"""Load the cases of an eval from YAML in the format of pydantic-evals, with the line of each error."""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.evals.case import EvalCase, EvalSet
from run_specialist.evals.evaluator_list import EvaluatorList
from run_specialist.evals.positions import PlacedValue, read
from run_specialist.specialist.origins import NEVER, rule
from run_specialist.specialist.problems import Position, Problems, shown
from run_specialist.specialist.resolve import checked

_OF_FILE = ("cases", "evaluators", "name", "report_evaluators", "$schema")
_OF_CASE = ("name", "inputs", "evaluators", "expected_output", "metadata")
_OF_INPUTS = ("question", "settings")


def load_cases(path: Path, check_judge: Callable[[str], None]) -> EvalSet:
    """Return the cases of a file; raises UsageError with a line per error.

    check_judge: must raise UsageError if the judge with this name cannot be asked.
    """
    return _FileReader(path, check_judge).cases(read(path))


class _FileReader:
    def __init__(self, path: Path, check_judge: Callable[[str], None]) -> None:
        self._path = path
        self._problems = Problems(path)
        self._evaluators = EvaluatorList(self._problems, check_judge)

    def cases(self, file: PlacedValue) -> EvalSet:
        """Return the cases; raises UsageError with a line per error."""
        if not file.fields:
            self._problems.error(file.place, "has no cases; expected `cases:` with a list")
        self._check_keys(file, _OF_FILE, "the file")
        listed = file.get("cases")
        if file.fields and (listed is None or not listed.items):
            self._problems.error((listed or file).place, "has no cases; expected a list", "cases")
        if (reports := file.get("report_evaluators")) is not None and reports.items:
            self._problems.error(
                reports.place, "are not supported; results are compared by the table", "report_evaluators"
            )
        shared = self._evaluators.read(file.get("evaluators"))
        found = [
            case for number, one in enumerate(listed.items if listed else (), 1) for case in self._case(one, number)
        ]
        cases = [replace(case, evaluators=(*case.evaluators, *shared)) for case in found]
        self._check_names(listed)
        if problems := self._problems.sorted():
            raise UsageError("\n".join(map(str, problems)))
        return EvalSet(self._path, tuple(cases))

    def _case(self, given: PlacedValue, number: int) -> Iterator[EvalCase]:
        if not given.fields:
            self._problems.error(given.place, f"case {number} must be a mapping with `inputs`, its question")
            return
        named = given.get("name")
        name = (
            f"case {number}"
            if named is None or named.value is None
            else shown(" ".join(str(named.value).split()), None)
        )
        self._check_keys(given, _OF_CASE, name)
        question, settings, places = self._inputs(given.get("inputs"), given.place, name)
        evaluators = self._evaluators.read(given.get("evaluators"))
        if question is not None:
            expected, metadata = given.get("expected_output"), given.get("metadata")
            yield EvalCase(
                name,
                question,
                f"{self._path}:{given.place.line}:{given.place.column}",
                settings,
                places,
                evaluators,
                None if expected is None else expected.value,
                None if metadata is None else metadata.value,
            )

    def _inputs(
        self, given: PlacedValue | None, place: Position, name: str
    ) -> tuple[str | None, dict[str, Any], dict[str, str]]:
        """Return the question, the settings and their places; None, after an error is noted, if it has no question."""
        asked, settings = given, None
        if given is not None and given.fields:
            self._check_keys(given, _OF_INPUTS, "inputs")
            asked, settings = given.get("question"), given.get("settings")
        if asked is None or not isinstance(asked.value, str) or not asked.value.strip():
            where = place if asked is None else asked.place
            text = f"{shown(name)} has no question; expected `inputs: TEXT`, or `inputs:` with `question: TEXT`"
            self._problems.error(where, text, "inputs")
            return None, {}, {}
        if settings is None:
            return asked.value, {}, {}
        places = {key: f"{self._path}:{at.place.line}:{at.place.column}" for key, at, _ in settings.fields}
        return asked.value, self._settings(settings), places

    def _settings(self, given: PlacedValue) -> dict[str, Any]:
        """Return the settings of a case, which may come from somebody else: it can grant no power."""
        if not isinstance(given.value, dict):
            self._problems.error(given.place, "must be a mapping of keys of the specialist's file", "settings")
            return {}
        for key, placed, value in given.fields:
            try:
                checked({key: value.value})
            except UsageError as error:
                self._problems.error(placed.place, str(error), "settings")
            else:
                if rule(key, "data") == "never":
                    self._problems.error(placed.place, f"{key}: {NEVER}", "settings")
        return dict(given.value)

    def _check_keys(self, given: PlacedValue, known: tuple[str, ...], owner: str) -> None:
        for key, placed, _ in given.fields:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"{shown(owner)} can have {', '.join(known)}"
                self._problems.error(placed.place, f"unknown key; {hint}", key)

    def _check_names(self, listed: PlacedValue | None) -> None:
        seen: set[str] = set()
        for given in listed.items if listed else ():
            named = given.get("name")
            name = None if named is None else str(named.value)
            if named is not None and name in seen:
                self._problems.error(named.place, f"two cases are named {shown(str(name))}", "name")
            seen.add(str(name))
