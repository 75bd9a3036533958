"""Compare each request of a replay with the recorded one, and show the first difference as a block of lines."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from run_specialist.providers.base import Opening, Request
from run_specialist.record.messages import Block, Message, encode, text_of
from run_specialist.replay.cassette import RecordedRequest, Setup

MOST_LINES = 120
"""Maximum number of lines that are shown."""


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

    @property
    def shown(self) -> list[str]:
        """The first lines of the diff, for people."""
        diff = self.diff
        more = len(diff) - MOST_LINES
        return diff if more <= 0 else [*diff[:MOST_LINES], f"[{more} more lines; --json has them all]"]

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        return {**asdict(self), "hints": [*self.hints], "diff": self.diff}


def json_text(value: object) -> str:
    """Return JSON values as text on several lines; a text stays as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _definition_text(definition: Mapping[str, Any] | None) -> str:
    if definition is None or "input_schema" not in definition:
        return "" if definition is None else json_text(definition)
    return f"{definition['name']}\n{definition['description']}\n{json_text(definition['input_schema'])}"


def _blocks_text(role: str, blocks: Iterable[Block]) -> str:
    parts = []
    for block in blocks:
        label = kind = str(block.get("type"))
        match kind:
            case "text":
                body = str(block.get("text"))
            case "tool_use":
                label = f"call {block.get('id')} of {block.get('name')}"
                body = json_text(block.get("input"))
            case "tool_result":
                label = f"{'error' if block.get('is_error') else 'result'} of {block.get('tool_use_id')}"
                body = text_of(block.get("content"))
            case _:
                body = json_text(block)
        parts.append(f"[{role}: {label}]\n{body}")
    return "\n".join(parts)


_Part = tuple[str, Any, Any, Callable[[Any], str]]
# A part with its stored and its current JSON value, and a function that converts either to text.


@dataclass(frozen=True)
class RequestComparison:
    """Compares the parts of one request."""

    number: int | None
    """Number of the request; None for the end of the run."""
    normalize: Callable[[Any], Any]
    """Replaces values that a cassette must not contain, such as credentials, in JSON values."""

    def first(self, parts: Iterable[_Part]) -> Difference | None:
        """Return the first difference between the JSON values of these parts; None if all are equal."""
        for part, stored, now, show in parts:
            if encode(stored) != encode(now) and encode(stored) != encode(normalized := self.normalize(now)):
                return Difference(self.number, part, show(stored), show(normalized))
        return None

    def opening(self, setup: Setup, opening: Opening) -> Difference | None:
        """Compare the constant parts of all requests: system prompt, tools, effort, kind of calls."""
        settings = setup.settings
        stored = {str(tool["name"]): tool for tool in setup.tools}
        now = {tool.name: tool.definition for tool in opening.tools}
        return self.first(
            [
                ("system prompt", setup.system, opening.system, str),
                *(
                    (f"definition of the tool {name}", stored.get(name), now.get(name), _definition_text)
                    for name in sorted({*stored, *now})
                ),
                ("effort", settings.get("effort"), opening.effort, str),
                ("tool_calls", settings.get("tool_calls", "native"), opening.tool_calls, str),
            ]
        )

    def request(self, stored: RecordedRequest, messages: Sequence[Message], request: Request) -> Difference | None:
        """Compare the variable parts of a request.

        messages: those of the recorded request, without the landing instruction.
        """
        last = request.messages[-1]
        instruction = last.landing_instruction if last.role == "user" else stored.landing_instruction
        return self.first(
            [
                *_message_parts(messages, request.messages),
                ("tool choice", stored.choice, request.choice, str),
                ("landing instruction", stored.landing_instruction, instruction, lambda it: it or ""),
            ]
        )

    def messages(self, stored: Sequence[Message], now: Sequence[Message]) -> Difference | None:
        """Compare messages, oldest first; the last one without its landing instruction."""
        return self.first(_message_parts(stored, now))


def _message_parts(stored: Sequence[Message], now: Sequence[Message]) -> Iterator[_Part]:
    names = {str(block.get("id")): str(block.get("name")) for one in stored for block in one.blocks}
    for number, (before, after) in enumerate(zip(stored, now, strict=False), 1):
        part, role = f"message {number}", before.role

        def show(blocks: Iterable[Block], role: str = role) -> str:
            return _blocks_text(role, blocks)

        for one, other in zip(before.blocks, after.blocks, strict=False):
            call = str(one.get("tool_use_id"))
            is_result = one.get("type") == "tool_result"
            yield f"result of the tool {names.get(call, call)} in {part}" if is_result else part, [one], [other], show
        yield part, [*before.blocks], [*after.blocks], show
        yield f"role of {part}", role, after.role, str
        if number < max(len(stored), len(now)):
            instructions = before.landing_instruction, after.landing_instruction
            yield f"instruction at the end of {part}", *instructions, json_text
    if len(stored) != len(now):
        number = min(len(stored), len(now))
        more = [*stored[number:], *now[number:]][0]
        text = _blocks_text(more.role, more.blocks)
        missing = "the replay sends no such message" if len(stored) > len(now) else "the run sent no such message"
        yield f"message {number + 1} ({missing})", *((text, "") if len(stored) > len(now) else ("", text)), str
