"""Find, read and create files with eval cases."""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic_evals import Dataset

from run_specialist.errors import UsageError
from run_specialist.evals import evaluators
from run_specialist.specialist.loader import SpecialistFile, stem
from run_specialist.specialist.positions import PlacedValue, read
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.project import result_path
from run_specialist.specialist.settings import checked

ENDINGS = (".evals.yaml", ".evals.yml")
MOST = 20
"""Maximum number of cases in a first set."""
LONGEST = 200
"""How much of an error is shown [characters]."""
LONGEST_QUOTE = 120
"""Maximum length of the part of a quote that a case expects [characters]."""

_OF_FILE = ("cases", "evaluators", "name", "$schema")
_OF_CASE = ("name", "inputs", "evaluators", "expected_output", "metadata")
_OF_INPUTS = ("question", "settings")
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
        self._check_judge = check_judge
        self._made: dict[str, evaluators.AnyEvaluator | None] = {}

    def cases(self, file: PlacedValue) -> tuple[EvalCase, ...]:
        self._check_keys(file, _OF_FILE, "the file")
        listed = file.get("cases")
        if listed is None or not listed.items:
            self._problems.error((listed or file).place, "has no cases; expected `cases:` with a list")
        shared = self._evaluators(file.get("evaluators"))
        found: dict[str, EvalCase | None] = {}
        for number, given in enumerate(listed.items if listed else (), 1):
            named = given.get("name")
            name = f"case {number}"
            if named is not None and named.value is not None:
                name = shown(" ".join(str(named.value).split()), None)
            if name in found:
                self._problems.error((named or given).place, f"two cases are named {shown(name)}", "name")
            found[name] = self._case(name, given)
        if problems := self._problems.sorted():
            raise UsageError("\n".join(map(str, problems)))
        return tuple(replace(one, evaluators=(*one.evaluators, *shared)) for one in found.values() if one)

    def _case(self, name: str, given: PlacedValue) -> EvalCase | None:
        """Return a case; None, after an error is noted, if it has no question."""
        if not given.fields:
            self._problems.error(given.place, f"{name} must be a mapping with `inputs`, its question")
            return None
        self._check_keys(given, _OF_CASE, name)
        made = self._evaluators(given.get("evaluators"))
        asked, settings = given.get("inputs"), None
        if asked is not None and asked.fields:
            self._check_keys(asked, _OF_INPUTS, "inputs")
            inputs = asked
            asked, settings = inputs.get("question"), inputs.get("settings")
        if asked is None or not isinstance(asked.value, str) or not asked.value.strip():
            text = f"{shown(name)} has no question; expected `inputs: TEXT`, or `inputs:` with `question: TEXT`"
            self._problems.error((asked or given).place, text, "inputs")
            return None
        if settings is not None:
            self._check_settings(settings)
        expected, metadata = given.get("expected_output"), given.get("metadata")
        return EvalCase(
            name,
            asked.value,
            self._where(given),
            settings.value if settings else {},
            {key: self._where(at) for key, at, _ in settings.fields} if settings else {},
            made,
            expected.value if expected else None,
            metadata.value if metadata else None,
        )

    def _check_settings(self, given: PlacedValue) -> None:
        """Note each setting that is wrong; those that a case must not set are refused when the run is planned."""
        if not isinstance(given.value, dict):
            self._problems.error(given.place, "must be a mapping of keys of the specialist's file", "settings")
        for key, placed, value in given.fields:
            try:
                checked({key: value.value})
            except UsageError as error:
                self._problems.error(placed.place, str(error), "settings")

    def _evaluators(self, given: PlacedValue | None) -> Evaluators:
        """Return the evaluators of a list; those with an error are missing."""
        if given is None or given.value is None:
            return ()
        if not isinstance(given.value, list):
            self._problems.error(given.place, "must be a list of evaluators", "evaluators")
        found: list[evaluators.AnyEvaluator] = []
        for one in given.items:
            key = json.dumps(one.value, sort_keys=True, default=str)
            made = self._made[key] = self._made.get(key) or self._evaluator(one)
            found += [made] if made else []
        return tuple(found)

    def _evaluator(self, given: PlacedValue) -> evaluators.AnyEvaluator | None:
        name = given.fields[0][0] if len(given.fields) == 1 else given.value
        if (named := given.get("name")) is not None and len(given.fields) > 1:
            name = named.value
        if not isinstance(name, str):
            self._problems.error(given.place, "must be the name of an evaluator, alone or as a key with its arguments")
            return None
        known = {one.lower(): one for one in sorted(evaluators.by_name())}
        if name not in known.values():
            close = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[close[0]]}?" if close else f"there are {', '.join(known.values())}"
            self._problems.error(given.place, f"unknown evaluator; {hint}", shown(name))
            return None
        try:
            made = evaluators.make(given.value)
            if isinstance(made, evaluators.Judge):
                self._check_judge(made.specialist)
        except (ValueError, UsageError) as error:
            self._problems.error(given.place, shown(" ".join(str(error).split()), LONGEST), name)
            return None
        return made

    def _check_keys(self, given: PlacedValue, known: tuple[str, ...], owner: str) -> None:
        for key, placed, _ in given.fields:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"{shown(owner)} can have {', '.join(known)}"
                self._problems.error(placed.place, f"unknown key; {hint}", key)

    def _where(self, given: PlacedValue) -> str:
        return f"{self._path}:{given.place.line}:{given.place.column}"


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


def new_cases(name: str, past: Iterable[tuple[str, Any]]) -> str:
    """Return the text of a file with cases; raises UsageError if there is none.

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
    cases = []
    for number, (question, outcome) in enumerate(islice(newest.items(), MOST), 1):
        checks: list[Any] = ["Gap"] if outcome.get("gaps") else []
        quotes: Sequence[Any] = [one for one in outcome.get("evidence") or () if one.get("verified")]
        if quotes:
            paths = list(dict.fromkeys(evaluators.path_of(str(one["source"])) for one in quotes))
            words = " ".join(str(quotes[0]["quote"]).split())[:LONGEST_QUOTE].rstrip()
            checks = [{"CitesPath": paths[0] if len(paths) == 1 else paths}, {"Contains": words}, "QuotesVerified"]
        cases.append({"name": f"question {number}", "inputs": question, "evaluators": checks})
    text = yaml.safe_dump({"cases": cases}, sort_keys=False, allow_unicode=True, width=110)
    return _HEADER.format(name=name) + text


def write_new(path: Path, text: str) -> None:
    """Write a new file; raises UsageError if it exists, OSError if it cannot be written."""
    try:
        with (result_path(path.parent) / path.name).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{path}:1:1: exists already, and was left unchanged; name another file with --cases"
        ) from None
