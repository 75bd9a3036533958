"""Compare a request of a replay with the corresponding recorded request. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.providers.base import Opening, Request
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Message, encode
from run_specialist.replay.cassette import AnsweredRequest, Setup
from run_specialist.replay.difference import Difference
from run_specialist.replay.shown_parts import blocks_text, definition_text, json_text

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
            if found := self.differs(_part(part, before, names), [before], [after], _shown(stored.role)):
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


def _part(message: str, block: Block, names: Mapping[str, str]) -> str:
    if block.get("type") != "tool_result":
        return message
    call = str(block.get("tool_use_id"))
    return f"result of the tool {names.get(call, call)} in {message}"
