"""Read lists of evaluators, each with the line of its error."""

import difflib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from run_specialist.errors import UsageError
from run_specialist.evals.positions import PlacedValue
from run_specialist.specialist.problems import Problems, shown

if TYPE_CHECKING:
    from pydantic_evals.evaluators import Evaluator

LONGEST = 200
"""How much of an error is shown [characters]."""


class EvaluatorList:
    """Makes evaluators from the entries of a file."""

    def __init__(self, problems: Problems, check_judge: Callable[[str], None]) -> None:
        """Prepare to read.

        check_judge: must raise UsageError if the judge with this name cannot be asked.
        """
        self._problems = problems
        self._check_judge = check_judge
        self._made: dict[str, Evaluator[Any, Any, Any]] = {}

    def read(self, given: PlacedValue | None) -> "tuple[Evaluator[Any, Any, Any], ...]":
        """Return the evaluators of a list; those with an error are missing."""
        if given is None or given.value is None:
            return ()
        if not isinstance(given.value, list):
            self._problems.error(given.place, "must be a list of evaluators", "evaluators")
            return ()
        return tuple(made for one in given.items if (made := self._made_of(one)) is not None)

    def _made_of(self, given: PlacedValue) -> "Evaluator[Any, Any, Any] | None":
        from run_specialist.evals.evaluators.judging import Judge  # noqa: PLC0415 - heavy
        from run_specialist.evals.evaluators.known_evaluators import by_name, make  # noqa: PLC0415 - as above

        name = _name(given)
        if name is None:
            self._problems.error(given.place, "must be the name of an evaluator, alone or as a key with its arguments")
            return None
        if name not in (names := sorted(by_name())):
            close = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(
                name.lower(), [one.lower() for one in names], n=1
            )
            meant = next((one for one in names if close and one.lower() == close[0].lower()), None)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
            self._problems.error(given.place, f"unknown evaluator; {hint}", shown(name))
            return None
        key = json.dumps(given.value, sort_keys=True, default=str)
        if key in self._made:
            return self._made[key]
        try:
            made = self._made[key] = make(given.value)
            if isinstance(made, Judge):
                self._check_judge(made.specialist)
        except (ValueError, UsageError) as error:
            self._problems.error(given.place, shown(" ".join(str(error).split()), LONGEST), name)
            return None
        return made


def _name(given: PlacedValue) -> str | None:
    if isinstance(given.value, str):
        return given.value
    if len(given.fields) == 1:
        return given.fields[0][0]
    named = given.get("name")
    return named.value if named is not None and isinstance(named.value, str) else None
