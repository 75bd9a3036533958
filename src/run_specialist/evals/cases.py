"""Find, read and create files with eval cases."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic_evals import Dataset

from run_specialist.batch.answer_file import slug_of
from run_specialist.budget import counted
from run_specialist.errors import UsageError
from run_specialist.evals import evaluators
from run_specialist.record.outcome import OFFLINE
from run_specialist.specialist.loader import SpecialistFile, stem
from run_specialist.specialist.positions import PlacedValue, read
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.settings import checked

ENDINGS = (".evals.yaml", ".evals.yml")
MOST = 20
"""Maximum number of cases in a first set."""
LONGEST = 200
"""How much of an error is shown [characters]."""
LONGEST_NAME = 60
LONGEST_QUOTE = 120
"""Maximum length of the part of a quote that a case expects [characters]."""

_HEADER = """\
# Cases from stored runs of {name}: questions, with what their answers cited. An answer of a stored run is not
# known to be right, so read and edit each case. Then: specialists eval {name}
"""

Evaluators = tuple[evaluators.AnyEvaluator, ...]


@dataclass(frozen=True)
class EvalCase:
    """One question, and the checks of its runs."""

    name: str
    question: str
    where: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    """Places of the settings, `file:line:column`, by name of the key."""
    evaluators: Evaluators = ()
    expected_output: Any = None
    metadata: Any = None


def cases_path(file: SpecialistFile) -> Path:
    """Return the path of the cases of a specialist; raises UsageError if there is no such file."""
    names = [file.path.with_name(f"{stem(file.path)}{ending}") for ending in ENDINGS]
    found = next((one for one in names if one.is_file()), None)
    if found is None:
        raise UsageError(
            f"{file.path}:1:1: {file.name} has no cases; expected {names[0].name} beside it, or "
            f"`specialists eval {file.name} --new` to begin with questions of past runs"
        )
    return found


def load_cases(path: Path, check_judge: Callable[[str], None]) -> tuple[EvalCase, ...]:
    """Return the cases of a file; raises UsageError with a line per error.

    check_judge: must raise UsageError if the judge with this name cannot be asked.
    """
    return _FileReader(path, check_judge).cases(read(path))


class _FileReader:
    """Reads a file, and collects all its errors."""

    def __init__(self, path: Path, check_judge: Callable[[str], None]) -> None:
        self._path = path
        self._problems = Problems(path)
        # Cases often have the same judge.
        self._check_judge = cache(check_judge)

    def cases(self, file: PlacedValue) -> tuple[EvalCase, ...]:
        self._check_keys(file, ("cases", "evaluators", "name", "$schema"), "the file")
        listed, shared = _value(file, "cases"), self._evaluators(_value(file, "evaluators"))
        if not listed.items:
            self._problems.error(listed.place, "has no cases; expected `cases:` with a list")
        found: dict[str, EvalCase] = {}
        for number, given in enumerate(listed.items, 1):
            named = _value(given, "name")
            name = f"case {number}" if named.value is None else shown(" ".join(str(named.value).split()), None)
            if name in found:
                self._problems.error(named.place, f"two cases are named {shown(name)}", "name")
            found[name] = self._case(name, given, shared)
        if problems := self._problems.sorted():
            raise UsageError("\n".join(map(str, problems)))
        return tuple(found.values())

    def _case(self, name: str, given: PlacedValue, shared: Evaluators) -> EvalCase:
        self._check_keys(given, ("name", "inputs", "evaluators", "expected_output", "metadata"), name)
        asked = inputs = _value(given, "inputs")
        settings = _value(inputs, "settings")
        if inputs.fields:
            self._check_keys(inputs, ("question", "settings"), "inputs")
            asked = _value(inputs, "question")
        if not isinstance(asked.value, str) or not asked.value.strip():
            text = f"{shown(name)} has no question; expected `inputs: TEXT`, or `inputs:` with `question: TEXT`"
            self._problems.error(asked.place, text, "inputs")
        if not isinstance(settings.value, dict | None):
            self._problems.error(settings.place, "must be a mapping of keys of the specialist's file", "settings")
        for key, placed, value in settings.fields:
            # What a case must not set is refused when its run is planned.
            try:
                checked({key: value.value})
            except UsageError as error:
                self._problems.error(placed.place, str(error), "settings")
        return EvalCase(
            name,
            asked.value,
            self._where(given),
            settings.value or {},
            {key: self._where(at) for key, at, _ in settings.fields},
            (*self._evaluators(_value(given, "evaluators")), *shared),
            _value(given, "expected_output").value,
            _value(given, "metadata").value,
        )

    def _evaluators(self, given: PlacedValue) -> Evaluators:
        """Return the evaluators of a list; those with an error are missing."""
        if not isinstance(given.value, list | None):
            self._problems.error(given.place, "must be a list of evaluators", "evaluators")
        return tuple(filter(None, map(self._evaluator, given.items)))

    def _evaluator(self, given: PlacedValue) -> evaluators.AnyEvaluator | None:
        # Its name alone, as the key of its arguments, or as `name` beside them.
        name = given.fields[0][0] if len(given.fields) == 1 else _value(given, "name").value or given.value
        known = {one.lower(): one for one in sorted(evaluators.by_name())}
        if not isinstance(name, str):
            self._problems.error(given.place, "must be the name of an evaluator, alone or as a key with its arguments")
        elif name not in known.values():
            self._problems.error(given.place, f"unknown evaluator; {_hint(name.lower(), known)}", shown(name))
        else:
            try:
                made = evaluators.make(given.value)
                if isinstance(made, evaluators.Judge):
                    self._check_judge(made.specialist)
            except (ValueError, UsageError) as error:
                self._problems.error(given.place, shown(" ".join(str(error).split()), LONGEST), name)
            else:
                return made
        return None

    def _check_keys(self, given: PlacedValue, known: tuple[str, ...], owner: str) -> None:
        for key, placed, _ in given.fields:
            if key not in known:
                hint = _hint(key, {one: one for one in known})
                self._problems.error(placed.place, f"unknown key of {shown(owner)}; {hint}", key)

    def _where(self, given: PlacedValue) -> str:
        return f"{self._path}:{given.place.line}:{given.place.column}"


def _value(given: PlacedValue, key: str) -> PlacedValue:
    """Return the value of a key; None at the place of the mapping if it is missing."""
    return given.get(key) or PlacedValue(None, given.place)


def _hint(word: str, known: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {known[close[0]]}?" if close else f"there are {', '.join(known.values())}"


def case_schema() -> dict[str, Any]:
    """Return the schema of pydantic-evals with the evaluators of this package, and without unbilled ones."""
    schema = Dataset[str | dict[str, Any], Any, Any].model_json_schema_with_evaluators(evaluators.OWN)
    refused = {name for name in schema["$defs"] if name.endswith(evaluators.UNBILLED)}

    def without(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key not in refused}
        if isinstance(value, list):
            return [without(one) for one in value if one not in [{"$ref": f"#/$defs/{name}"} for name in refused]]
        return value

    found: dict[str, Any] = without(schema)
    return found


def _doubts(outcome: Mapping[str, Any]) -> list[str]:
    """Return why the checks that its answer gives should not be trusted."""
    evidence = outcome.get("evidence") or ()
    unfound = sum(one.get("verified") is False for one in evidence)
    missing = sum(bool(one.get("missing")) for one in outcome.get("support") or ())
    reasons = {
        "was answered without a language model": outcome.get("model") == OFFLINE,
        f"{counted(missing, 'sentence')} not borne out by its evidence": missing,
        f"{counted(unfound, 'quote')} not found in what was read": unfound,
        "no quotes": not evidence and not outcome.get("gaps"),
        "landed at a limit": outcome.get("status") == "landed",
    }
    return [reason for reason, holds in reasons.items() if holds]


def new_cases(name: str, past: Iterable[tuple[str, Any]]) -> tuple[str, dict[str, list[str]]]:
    """Return the text of a file with cases, and the names of those with a doubtful answer by the reason.

    Raises UsageError if there is no case.

    past: questions and outcomes as `--json` prints them, newest first; of equal questions the newest counts.
    """
    newest: dict[str, Any] = {}
    for question, outcome in past:
        if outcome.get("status") in {"answered", "landed"} and question.strip():
            newest.setdefault(question, outcome)
    if not newest:
        raise UsageError(
            f"there are no stored runs of {name} with an answer to make cases from; ask it some questions first"
        )
    cases: list[Any] = []
    names, doubtful = Counter[str](), dict[str, list[str]]()
    for question, outcome in islice(newest.items(), MOST):
        checks: list[Any] = ["Gap"] if outcome.get("gaps") else []
        quotes: Sequence[Any] = [one for one in outcome.get("evidence") or () if one.get("verified")]
        if quotes:
            paths = list(dict.fromkeys(evaluators.path_of(str(one["source"])) for one in quotes))
            words = " ".join(str(quotes[0]["quote"]).split())[:LONGEST_QUOTE].rstrip()
            checks = [{"CitesPath": paths[0] if len(paths) == 1 else paths}, {"Contains": words}, "QuotesVerified"]
        slug = slug_of(question, LONGEST_NAME) or "question"
        names[slug] += 1
        case = slug if names[slug] == 1 else f"{slug}-{names[slug]}"
        if doubts := _doubts(outcome):
            doubtful.setdefault(", ".join(doubts), []).append(case)
        cases.append({"name": case, "inputs": question, "evaluators": checks})
    text = yaml.safe_dump({"cases": cases}, sort_keys=False, allow_unicode=True, width=110)
    return _HEADER.format(name=name) + text, doubtful
