"""A rule of the API, and the request that it checks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.wire.simulator.memory import Memory
from tests.wire.simulator.models import MODELS, Model, find_model
from tests.wire.simulator.prompt import Block, Segment, as_blocks, segments


@dataclass
class Call:
    """Hold one request as the rules see it; a rule may rely on what the rules before it have checked."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes = b""
    too_large: bool = False
    body: Any = None
    """The parsed body, None when it is no JSON."""
    parse_error: str = ""
    memory: Memory = field(default_factory=Memory)
    models: Sequence[Model] = MODELS

    @cached_property
    def model(self) -> Model:
        """Return the capabilities of the model asked for."""
        found = find_model(self.body["model"], self.models)
        if found is None:
            message = "the rule on unknown models comes first"
            raise LookupError(message)
        return found

    @cached_property
    def turns(self) -> list[tuple[int, str, list[Block]]]:
        """Return (index, role, blocks) of each message."""
        return [
            (index, message["role"], as_blocks(message["content"]))
            for index, message in enumerate(self.body["messages"])
        ]

    @cached_property
    def segments(self) -> list[Segment]:
        """Return the blocks of the whole prompt."""
        return segments(self.body)

    def blocks(self, *kinds: str) -> Iterator[tuple[str, str, Block]]:
        """Yield (where, role, block) of the messages' blocks of these types, of every type without."""
        for number, role, content in self.turns:
            for index, block in enumerate(content):
                if not kinds or block["type"] in kinds:
                    yield f"messages.{number}.content.{index}", role, block


Check = Callable[[Call], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    """Name one reason for which the API refuses a request."""

    id: str
    check: Check
    """Yields a message for each place where the rule is broken."""
    status: int = 400
    kind: str = "invalid_request_error"

    def broken_by(self, call: Call) -> str | None:
        """Return the first message, None when the rule is kept."""
        return next(self.check(call), None)


class Table(list[Rule]):
    """Hold rules in the order in which they are checked."""

    def rule(self, rule_id: str, status: int = 400, kind: str = "invalid_request_error") -> Callable[[Check], Check]:
        """Return the decorator that enters a check."""

        def enter(check: Check) -> Check:
            self.append(Rule(rule_id, check, status, kind))
            return check

        return enter

    def refuse(self, rule_id: str, told: str, is_broken: Callable[[Call], bool], *error: Any) -> None:
        """Enter a rule that has one message; `error` are its status and kind."""
        self.rule(rule_id, *error)(lambda call: iter([told] if is_broken(call) else []))
