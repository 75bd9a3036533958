"""Load cases from `evals/evals.json` of the agent-skills convention.

Source: https://agentskills.io/skill-creation/evaluating-skills
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from run_specialist.evals.case import EvalCase, EvalSet
from run_specialist.evals.case_reader import CaseReader
from run_specialist.evals.positions import PlacedValue, read
from run_specialist.specialist.problems import shown

ASSERTIONS = ("assertions", "expectations")
"""The two names that are in use for statements about the answer."""


def load_skill_cases(path: Path, check_judge: Callable[[str], None]) -> EvalSet:
    """Return the cases of a file; raises UsageError with a line per error.

    check_judge: must raise UsageError if the judge with this name cannot be asked.
    """
    return _SkillReader(path, check_judge).cases(read(path))


class _SkillReader(CaseReader):
    def cases(self, file: PlacedValue) -> EvalSet:
        listed = file.get("evals")
        if listed is None or not listed.items:
            self._problems.error((listed or file).place, "has no cases; expected a list", "evals")
        found = [case for one in (listed.items if listed else ()) for case in self._case(one)]
        names = [case.name for case in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._problems.error(file.place, f"two evals have the id {shown(name)}", "id")
        return self._without_problems(found)

    def _case(self, given: PlacedValue) -> Iterator[EvalCase]:
        prompt, known = given.get("prompt"), given.get("id")
        if prompt is None or not isinstance(prompt.value, str) or not prompt.value.strip():
            self._problems.error((prompt or given).place, "has no question; expected a text", "prompt")
            return
        files = given.get("files")
        names = [str(one.value) for one in files.items] if files else []
        question = prompt.value + (f"\n\nFiles: {', '.join(names)}" if names else "")
        expected = given.get("expected_output")
        yield EvalCase(
            str(given.place.line if known is None else known.value),
            question,
            self._place(given),
            {},
            {},
            self._evaluators.read(self._judges(given, expected)),
            None if expected is None else expected.value,
        )

    @staticmethod
    def _judges(given: PlacedValue, expected: PlacedValue | None) -> PlacedValue:
        """Return a judge for each statement, or for the description of the answer if there are no statements."""
        lists = [found for name in ASSERTIONS if (found := given.get(name)) is not None]
        rubrics = [(str(one.value), one.place) for found in lists for one in found.items]
        if not rubrics and expected is not None and str(expected.value).strip():
            rubrics = [(f"It is as this describes: {expected.value}", expected.place)]
        judges = []
        for text, place in rubrics:
            rubric = PlacedValue(text, place)
            judges.append(PlacedValue({"Judge": text}, place, fields=(("Judge", PlacedValue("Judge", place), rubric),)))
        return PlacedValue([one.value for one in judges], given.place, items=tuple(judges))
