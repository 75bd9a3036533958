"""Compare each request of a replay with the recorded one, and show the first difference as a block of lines."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from run_specialist.record.messages import Message, encode

Parts = Mapping[str, Any]
"""JSON values that are compared, by the name of the part; None is the same as a missing part."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference."""

    request: int | None
    """Number of the request, from 1; None for the end of the run."""
    part: str
    """The differing part, e.g. `system prompt`, `definition of the tool read` or `message 3`."""
    stored: str
    now: str
    hints: tuple[str, ...] = ()
    """The probable causes, one sentence each."""

    @property
    def diff(self) -> list[str]:
        """The lines of a unified diff, without line ends."""
        before, after = self.stored.split("\n"), self.now.split("\n")
        return [*difflib.unified_diff(before, after, "stored", "now", lineterm="")]

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        return {**asdict(self), "hints": [*self.hints], "diff": self.diff}


def first_difference(
    request: int | None, stored: Parts, now: Parts, normalize: Callable[[Any], Any]
) -> Difference | None:
    """Return the first part that differs; None if all are equal.

    normalize: replaces values that a cassette must not contain, such as credentials, in JSON values.
    """
    for part in {**stored, **now}:
        before, after = stored.get(part), now.get(part)
        if encode(before) != encode(after) and encode(before) != encode(after := normalize(after)):
            return Difference(request, part, shown_text(before), shown_text(after))
    return None


def shown_text(value: object) -> str:
    """Return a JSON value as text on several lines, also where a text in it has several."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\\n", "\n")


def opening_parts(system: str, tools: Sequence[Mapping[str, Any]], effort: str | None, tool_calls: str) -> Parts:
    """Return the parts that are the same in all requests."""
    definitions = {f"definition of the tool {one['name']}": one for one in sorted(tools, key=lambda one: one["name"])}
    return {"system prompt": system, **definitions, "effort": effort, "tool_calls": tool_calls}


def message_parts(messages: Sequence[Message]) -> Parts:
    """Return the parts of messages, each result apart; the last one without its landing instruction."""
    parts: dict[str, Any] = {}
    names = {str(block.get("id")): block.get("name") for one in messages for block in one.blocks}
    for number, message in enumerate(messages, 1):
        for block in message.blocks:
            name = f"message {number}"
            if block["type"] == "tool_result":
                call = str(block.get("tool_use_id"))
                name = f"result of the tool {names.get(call, call)} in {name}"
            parts.setdefault(name, [message.role]).append(block)
        if number < len(messages):
            parts[f"instruction at the end of message {number}"] = message.landing_instruction
    return parts
