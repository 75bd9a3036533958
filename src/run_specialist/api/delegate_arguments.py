"""Arguments of the delegate tool: JSON Schema and validation."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.specialist.problems import shown
from run_specialist.tools.delegate_tool import QUERY, SPECIALIST

RUN_ID = "To ask the same run for more: its id. It knows what it found, and its budget is refreshed."
ANEW = "leave run_id out to ask anew"
KNOWN = ("specialist", "query", "run_id")


@dataclass(frozen=True, slots=True)
class DelegateArguments:
    """Validated arguments of one call."""

    specialist: str
    query: str
    run_id: str | None
    """The run to resume; None starts a new run."""


def schema(names: Iterable[str], *, stored: bool) -> dict[str, Any]:
    """Return the JSON Schema of the arguments.

    stored: whether runs are stored, so that a call can resume one.
    """
    properties = {
        "specialist": {"type": "string", "enum": [*names], "description": SPECIALIST},
        "query": {"type": "string", "description": QUERY},
        **({"run_id": {"type": "string", "description": RUN_ID}} if stored else {}),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["specialist", "query"],
        "additionalProperties": False,
    }


def read(arguments: object, names: Iterable[str], *, stored: bool) -> DelegateArguments:
    """Return the validated arguments of a call.

    arguments: a mapping, or the JSON text of one.
    Raises ToolError that names the argument and the expected value.
    """
    given = dict(_object(arguments))
    if "query" not in given and "question" in given:
        given["query"] = given.pop("question")
    if unknown := sorted(str(key) for key in given if key not in KNOWN):
        raise ToolError(f"{shown(', '.join(unknown))}: no such argument; put all that matters into query")
    specialist, query, run_id = (given.get(key) for key in KNOWN)
    if not isinstance(specialist, str):
        raise ToolError(f"specialist: wanted one of {', '.join(names)}, found {_found(given, 'specialist')}")
    if specialist not in names:
        raise ToolError(f"specialist: there is no {shown(specialist)}{_near(specialist, names)}")
    if not isinstance(query, str):
        raise ToolError(f"query: wanted the question as a text, found {_found(given, 'query')}")
    if not query.strip():
        raise ToolError("query: it is empty; say what the specialist shall find out")
    if not isinstance(run_id, str | None):
        raise ToolError(f"run_id: wanted the id of a run as a text, found {_found(given, 'run_id')}; {ANEW}")
    if run_id and not stored:
        raise ToolError(f"run_id: no runs are kept here; {ANEW}")
    return DelegateArguments(specialist, query, run_id or None)


def _object(arguments: object) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are no JSON: {error}") from None
    if not isinstance(arguments, Mapping):
        raise ToolError('the arguments are no JSON object like {"specialist": "...", "query": "..."}')
    return arguments


def _found(given: Mapping[str, Any], key: str) -> str:
    return shown(repr(given[key])) if key in given else "none"


def _near(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name[:100].strip(), names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(names)}"
