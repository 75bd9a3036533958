"""Compare each request of a replay with the recorded one, and show the first difference as a block of lines."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from run_specialist.providers.base import Opening, Request
from run_specialist.record.messages import Block, Message, encode, text_of
from run_specialist.replay.cassette import AnsweredRequest, Setup

LONGEST_LINE = 400
"""Maximum length of a line; longer ones are cut to the part around their first difference [characters]."""
MOST_LINES = 120
"""Maximum number of lines that are shown."""
_BEFORE = 80
"""Length of the text before the first difference that is shown of a long line [characters]."""


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
    def diff(self) -> tuple[str, ...]:
        """The lines of a unified diff, without line ends."""
        before, after = self.stored.split("\n"), self.now.split("\n")
        lines = difflib.unified_diff(before, after, "stored", "now", lineterm="")
        return tuple(_shortened([*lines]))

    def heading(self, source: str, requests: int) -> str:
        """Return the place of the difference.

        source: the run or the file.
        requests: number of requests of the recorded run.
        """
        place = "at the end" if self.request is None else f"at request {self.request} of {requests}"
        return f"{source} differs {place}: {self.part}"

    @property
    def shown(self) -> tuple[str, ...]:
        """The first lines of the diff, for people."""
        diff = self.diff
        more = len(diff) - MOST_LINES
        return diff if more <= 0 else (*diff[:MOST_LINES], f"[{more} more lines; --json has them all]")

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        return {**asdict(self), "hints": [*self.hints], "diff": [*self.diff]}


def _shortened(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a diff; long lines that replace each other are cut around their first difference."""
    for place, line in enumerate(lines):
        if len(line) <= LONGEST_LINE:
            yield line
            continue
        others = [other for other in lines[max(place - 1, 0) : place + 2] if other[:1] + line[:1] in {"+-", "-+"}]
        begin = max((1 + common_prefix(line[1:], other[1:]) for other in others), default=1)
        begin = max(begin - _BEFORE, 1)
        ends = begin + LONGEST_LINE < len(line)
        yield f"{line[0]}{'…' if begin > 1 else ''}{line[begin : begin + LONGEST_LINE]}{'…' if ends else ''}"


def common_prefix(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def definition_text(definition: Mapping[str, Any] | None) -> str:
    """Return the definition of a tool; empty if there is none."""
    if definition is None:
        return ""
    if "input_schema" not in definition:
        return json_text(definition)
    return f"{definition['name']}\n{definition['description']}\n{json_text(definition['input_schema'])}"


def json_text(value: object) -> str:
    """Return JSON values as text on several lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def blocks_text(role: str, blocks: Iterable[Block]) -> str:
    """Return a message as text."""
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


Normalize = Callable[[Any], Any]
"""Replaces values that a cassette must not contain, such as credentials, in JSON values."""


@dataclass(frozen=True)
class RequestComparison:
    """Compares the parts of one request."""

    number: int | None
    """Number of the request; None for the end of the run."""
    normalize: Normalize

    def differs(self, part: str, stored: Any, now: Any, show: Callable[[Any], str] = str) -> Difference | None:  # noqa: ANN401 - JSON
        """Return the difference between two JSON values; None if they are equal.

        show: converts a value to text.
        """
        if encode(stored) == encode(now) or encode(stored) == encode(normalized := self.normalize(now)):
            return None
        return Difference(self.number, part, show(stored), show(normalized))

    def opening(self, setup: Setup, opening: Opening) -> Difference | None:
        """Compare the constant parts of all requests: system prompt, tools, effort, kind of calls."""
        settings = setup.settings
        stored = {str(tool["name"]): tool for tool in setup.tools}
        now = {tool.name: tool.definition for tool in opening.tools}
        return _first(
            lambda: self.differs("system prompt", setup.system, opening.system),
            *(
                lambda name=name: self.differs(
                    f"definition of the tool {name}", stored.get(name), now.get(name), definition_text
                )
                for name in sorted({*stored, *now})
            ),
            lambda: self.differs("effort", settings.get("effort"), opening.effort),
            lambda: self.differs("tool_calls", settings.get("tool_calls", "native"), opening.tool_calls),
        )

    def request(self, stored: AnsweredRequest, messages: Sequence[Message], request: Request) -> Difference | None:
        """Compare the variable parts of a request.

        messages: those of the recorded request, without the landing instruction.
        """
        last = request.messages[-1]
        instruction = last.landing_instruction if last.role == "user" else stored.landing_instruction
        return _first(
            lambda: self.messages(messages, request.messages),
            lambda: self.differs("tool choice", stored.choice, request.choice),
            lambda: self.differs("landing instruction", stored.landing_instruction, instruction, lambda it: it or ""),
        )

    def messages(self, stored: Sequence[Message], now: Sequence[Message]) -> Difference | None:
        """Compare messages, oldest first; the last one without its landing instruction."""
        names = {str(block.get("id")): str(block.get("name")) for one in stored for block in one.blocks}
        for number in range(1, max(len(stored), len(now)) + 1):
            before, after = _at(stored, number), _at(now, number)
            is_last = number == max(len(stored), len(now))
            if found := self._message(number, before, after, names, is_last=is_last):
                return found
        return None

    def _message(
        self, number: int, stored: Message | None, now: Message | None, names: Mapping[str, str], *, is_last: bool
    ) -> Difference | None:
        part = f"message {number}"
        if stored is None or now is None:
            missing = "the run sent no such message" if stored is None else "the replay sends no such message"
            return self.differs(f"{part} ({missing})", _text(stored), _text(now))
        for before, after in zip(stored.blocks, now.blocks, strict=False):
            call = str(before.get("tool_use_id"))
            is_result = before.get("type") == "tool_result"
            where = f"result of the tool {names.get(call, call)} in {part}" if is_result else part
            if found := self.differs(where, [before], [after], _shown(stored.role)):
                return found
        found = self.differs(part, [*stored.blocks], [*now.blocks], _shown(stored.role))
        if found is None and stored.role != now.role:
            return self.differs(f"role of {part}", stored.role, now.role)
        if found is None and not is_last:
            return self.differs(
                f"instruction at the end of {part}", stored.landing_instruction, now.landing_instruction, json_text
            )
        return found


def _first(*comparisons: Callable[[], Difference | None]) -> Difference | None:
    return next((found for compare in comparisons if (found := compare())), None)


def _at(messages: Sequence[Message], number: int) -> Message | None:
    return messages[number - 1] if number <= len(messages) else None


def _text(message: Message | None) -> str:
    return "" if message is None else blocks_text(message.role, message.blocks)


def _shown(role: str) -> Callable[[Iterable[Block]], str]:
    return lambda blocks: blocks_text(role, blocks)
