"""Scripted behavior of the model in a run, given by a tag in the first user message, so that runs can be concurrent.

LAP{run=NAME;wants=30;abreast=1;delay=20;obeys=0;tool=search_notes}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from bench.server.codec import encode

ANSWER = "THE ANSWER, put together from the notes that were read."
"""Answer of the model in every run; its presence shows that the run completed."""

_TAG = re.compile(rb"LAP\{([^}]*)\}")
_LIMIT_NOTICE = re.compile(
    r"(?<!\d)0 (?:tool )?calls? (?:remain|left)|limit (?:was |is |has been )?(?:reached|spent)|no (?:more )?tool calls"
)
"""Phrases by which an obedient model recognizes that no tool calls are left."""


@dataclass(frozen=True, slots=True)
class Script:
    """Behavior of the model in one run."""

    run: str = "untold"
    """Name of the run in the server's statistics."""
    wants: int = 0
    """Number of tool calls before the answer."""
    abreast: int = 1
    """Number of tool calls per turn."""
    delay: float = 0.0
    """Response time per turn [ms]."""
    obeys: int = 0
    """1 to answer as soon as a result says that the limit is reached."""
    tool: str = "search_notes"
    """Name of the tool to call."""
    asks: str = "topic number"
    """Queries for the tool, or paths for `read`, separated by commas."""

    def tag(self) -> str:
        """Return the tag for the first user message."""
        values = ";".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))
        return f"LAP{{{values}}}"

    def query(self, number: int) -> str:
        """Return the query of the nth call, counted from 0; all are different."""
        asks = self.asks.split(",")
        return asks[number] if number < len(asks) else f"{asks[number % len(asks)]} {number}"


def script_in(body: bytes) -> Script | None:
    """Return the script given in a request, or None."""
    found = _TAG.search(body)
    if found is None:
        return None
    values = dict(pair.split("=", 1) for pair in found[1].decode().split(";"))
    kinds = {field.name: type(field.default) for field in fields(Script)}
    return Script(**{name: kinds[name](value) for name, value in values.items()})


def next_turn(script: Script, made: int, request: Mapping[str, Any], newest: str) -> list[dict[str, Any]] | str:
    """Return the next tool calls with name and input, or the answer.

    made: Number of tool calls made so far.
    newest: Text of the last user message.
    """
    form = (request.get("output_config") or {}).get("format")
    if form:
        return encode(_written(form["schema"])).decode()
    tools = {tool["name"]: tool for tool in request.get("tools") or ()}
    choice = request.get("tool_choice") or {"type": "auto"}
    if choice["type"] == "tool":
        return [{"name": choice["name"], "input": _filled(tools[choice["name"]])}]
    wants = script.wants - made if script.tool in tools and choice["type"] != "none" else 0
    if script.obeys and _LIMIT_NOTICE.search(newest):
        wants = 0
    if wants > 0:
        numbers = range(made, made + min(script.abreast, wants))
        argument = "path" if script.tool == "read" else "query"
        return [{"name": script.tool, "input": {argument: script.query(number)}} for number in numbers]
    return ANSWER


def _written(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value of a closed object with the answer in every text, and null where it may be."""
    empty = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}, "string": ANSWER}
    return {name: empty.get(part.get("type")) for name, part in schema["properties"].items()}


def _filled(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the answer in every required text."""
    schema = tool["input_schema"]
    empty = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return {
        name: empty.get(schema["properties"][name].get("type"), ANSWER)
        for name in schema.get("required", schema["properties"])
    }
