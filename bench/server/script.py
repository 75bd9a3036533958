"""What the model does in a run: told by a tag in the first user message, so that one server serves many runs at once.

LAP{run=NAME;wants=30;abreast=1;delay=20;obeys=0;tool=search_notes}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

ANSWER = "THE ANSWER, put together from the notes that were read."
"""Every answer of the model; whoever finds it knows that the run came to its end."""

_TAG = re.compile(rb"LAP\{([^}]*)\}")
_LIMIT_TOLD = re.compile(
    r"(?<!\d)0 (?:tool )?calls? (?:remain|left)|limit (?:was |is |has been )?(?:reached|spent)|no (?:more )?tool calls"
)
"""By these words a model that obeys knows that no more calls are made."""


@dataclass(frozen=True, slots=True)
class Script:
    """How the model behaves in one run."""

    run: str = "untold"
    """Under this name the server counts."""
    wants: int = 0
    """Tool calls that it makes before it answers."""
    abreast: int = 1
    """Tool calls in one turn."""
    delay: float = 0.0
    """How long it thinks about each turn [ms]."""
    obeys: int = 0
    """1: it answers as soon as a result says that the limit is reached."""
    tool: str = "search_notes"
    """The tool that it calls."""
    asks: str = "topic number"
    """What it asks the tool, one after another, with commas between."""

    def tag(self) -> str:
        """Return the text that tells the server."""
        told = ";".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))
        return f"LAP{{{told}}}"

    def query(self, number: int) -> str:
        """Return what the model asks in its nth call, from 0; no two are alike."""
        asks = self.asks.split(",")
        return asks[number] if number < len(asks) else f"{asks[number % len(asks)]} {number}"


def script_in(body: bytes) -> Script | None:
    """Return the script that a request carries."""
    found = _TAG.search(body)
    if found is None:
        return None
    told = dict(pair.split("=", 1) for pair in found[1].decode().split(";"))
    kinds = {field.name: type(field.default) for field in fields(Script)}
    return Script(**{name: kinds[name](value) for name, value in told.items()})


def next_turn(script: Script, made: int, request: Mapping[str, Any], newest: str) -> list[dict[str, Any]] | str:
    """Return the arguments of the calls that the model makes now, with their tools' names, or its answer.

    made: tool calls that it has made so far.
    newest: the last user message, as text.
    """
    tools = {tool["name"]: tool for tool in request.get("tools") or ()}
    choice = request.get("tool_choice") or {"type": "auto"}
    if choice["type"] == "tool":
        return [{"name": choice["name"], "input": _filled(tools[choice["name"]])}]
    wants = script.wants - made if script.tool in tools and choice["type"] != "none" else 0
    if script.obeys and _LIMIT_TOLD.search(newest):
        wants = 0
    if wants > 0:
        numbers = range(made, made + min(script.abreast, wants))
        return [{"name": script.tool, "input": {"query": script.query(number)}} for number in numbers]
    return ANSWER


def _filled(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that hold the answer in every text that is required."""
    schema = tool["input_schema"]
    empty = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return {
        name: empty.get(schema["properties"][name].get("type"), ANSWER)
        for name in schema.get("required", schema["properties"])
    }
