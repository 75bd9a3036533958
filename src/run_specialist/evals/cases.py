"""Find, read and create files with eval cases."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict
from pydantic_evals import Dataset

from run_specialist.errors import UsageError
from run_specialist.evals.evaluators import OWN, UNBILLED, path_of
from run_specialist.specialist.loader import SpecialistFile, stem
from run_specialist.specialist.origins import NEVER, rule
from run_specialist.specialist.positions import PlacedValue, read
from run_specialist.specialist.problems import Position, Problems, shown
from run_specialist.specialist.project import result_path
from run_specialist.specialist.settings import checked

if TYPE_CHECKING:
    from pydantic_evals.evaluators import Evaluator


@dataclass(frozen=True)
class EvalCase:
    """One question, and the checks of its runs."""

    name: str
    """Unique in its set."""
    question: str
    where: str
    """Its place, `file:line:column`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the runs of this case only, by name of the key."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Places of the settings, `file:line:column`, by name of the key."""
    evaluators: "tuple[Evaluator[Any, Any, Any], ...]" = ()
    """The evaluators of the case, then those of the whole set."""
    expected_output: Any = None
    metadata: Any = None


@dataclass(frozen=True)
class EvalSet:
    """The cases of one file."""

    path: Path
    cases: tuple[EvalCase, ...]


ENDINGS = (".evals.yaml", ".evals.yml")


def cases_of(file: SpecialistFile, check_judge: Callable[[str], None], given: Path | None = None) -> EvalSet:
    """Return the cases of a specialist.

    check_judge: must raise UsageError if the judge with this name cannot be asked.
    given: file of the cases; None = the default place.
    Raises UsageError if there is no such file, or for each of its errors.
    """
    if given is not None:
        return load_cases(given, check_judge)
    names = [file.path.with_name(f"{stem(file.path)}{ending}") for ending in ENDINGS]
    found = next((one for one in names if one.is_file()), None)
    if found is None:
        raise UsageError(
            f"{file.path}:1:1: {file.name} has no cases; expected {names[0].name} beside it, or "
            f"`specialists eval {file.name} --new` to begin with questions of past runs"
        )
    return load_cases(found, check_judge)


def place_of_cases(file: SpecialistFile) -> Path:
    """Return the path for a new file with cases."""
    return file.path.with_name(f"{stem(file.path)}{ENDINGS[0]}")


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
        seen: set[str] = set()
        for given in listed.items if listed else ():
            named = given.get("name")
            if named is not None and str(named.value) in seen:
                self._problems.error(named.place, f"two cases are named {shown(str(named.value))}", "name")
            seen.add(str(None if named is None else named.value))
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
        from run_specialist.evals.evaluators import Judge, by_name, make  # noqa: PLC0415 - heavy

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


class Inputs(BaseModel):
    """A question with its own settings."""

    model_config = ConfigDict(extra="forbid")

    question: str
    settings: dict[str, Any] = {}
    """Keys of the specialist's file."""


def case_schema() -> dict[str, Any]:
    """Return the schema of pydantic-evals with the evaluators of this package, and without unbilled ones."""
    schema = Dataset[str | Inputs, Any, Any].model_json_schema_with_evaluators(OWN)
    refused = {name for name in schema["$defs"] if name.endswith(UNBILLED)}
    references = [{"$ref": f"#/$defs/{name}"} for name in refused]

    def without(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key not in refused}
        return [without(one) for one in value if one not in references] if isinstance(value, list) else value

    found: dict[str, Any] = without(schema)
    return found


MOST = 20
"""Maximum number of cases in a first set."""
ANSWERED = frozenset({"answered", "landed"})
LONGEST_QUOTE = 120
"""Maximum length of the part of a quote that a case expects [characters]."""

_HEADER = """\
# Cases from stored runs of {name}: questions, with what their answers cited. An answer of a stored run is not
# known to be right, so read and edit each case. Then: specialists eval {name}
"""


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as YAML blocks, which are easier to read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def new_cases(name: str, past: Iterable[tuple[str, Any]]) -> str:
    """Return the text of a file with cases; raises UsageError if there is none.

    past: questions and outcomes as `--json` prints them, newest first; of equal questions the newest counts.
    """
    newest: dict[str, Any] = {}
    for question, outcome in past:
        if outcome.get("status") in ANSWERED and question.strip():
            newest.setdefault(question, outcome)
    cases = [_case(number, *one) for number, one in enumerate(islice(newest.items(), MOST), 1)]
    if not cases:
        raise UsageError(
            f"there are no stored runs of {name} with an answer to make cases from; ask it some questions first"
        )
    text = yaml.dump({"cases": cases}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
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


def _case(number: int, question: str, outcome: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
    return {
        "name": f"question {number}",
        "inputs": question,
        "expected_output": str(outcome.get("answer", "")),
        "evaluators": [*_evaluators(outcome)],
    }


def _evaluators(outcome: Any) -> Iterator[str | dict[str, Any]]:  # noqa: ANN401 - JSON values
    quotes: Sequence[Any] = [one for one in outcome.get("evidence") or () if one.get("verified")]
    if quotes:
        paths = list(dict.fromkeys(path_of(str(one["source"])) for one in quotes))
        yield {"CitesPath": paths[0] if len(paths) == 1 else paths}
        yield {"Contains": " ".join(str(quotes[0]["quote"]).split())[:LONGEST_QUOTE].rstrip()}
        yield "QuotesVerified"
    elif outcome.get("gaps"):
        yield "Gap"
