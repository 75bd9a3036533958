"""Make a first set of cases from stored runs, to be edited."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from run_specialist.errors import UsageError
from run_specialist.specialist.project import result_path

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
        paths = list(dict.fromkeys(_path(str(one["source"])) for one in quotes))
        yield {"CitesPath": paths[0] if len(paths) == 1 else paths}
        yield {"Contains": " ".join(str(quotes[0]["quote"]).split())[:LONGEST_QUOTE].rstrip()}
        yield "QuotesVerified"
    elif outcome.get("gaps"):
        yield "Gap"


def _path(source: str) -> str:
    head, colon, tail = source.rpartition(":")
    return head if colon and tail.replace("-", "").isdigit() else source
