"""A recorded run: its setup, its messages and replies in order, its tool calls, and its outcome. Frozen values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from run_specialist.errors import ProviderErrorKind
from run_specialist.record.blocks import Block, sendable
from run_specialist.record.messages import Message, Reply
from run_specialist.record.outcome import Child

RequestParameters = Mapping[str, Any]
"""The body of a request without its system prompt, tools and messages."""


@dataclass(frozen=True, slots=True)
class Body:
    """The body that the provider built for a request."""

    digest: str
    """SHA-256 of its bytes, in hexadecimal."""
    parameters: RequestParameters


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request with its reply."""

    choice: str
    landing_instruction: str | None
    """The instruction at the end of its last message; None if there was none."""
    reply: Reply
    cost_usd: float | None
    is_entered: bool
    """Whether the reply is part of the messages of the next request."""
    body: Body | None = None
    """Body of the request; None unless the cassette is a file, and for calls as JSON."""


@dataclass(frozen=True, slots=True)
class NextModel:
    """The model with which a run continued when the previous one could not answer."""

    model: str
    reason: str
    """The failure of the previous model, in one line."""
    kind: ProviderErrorKind
    """The kind of that failure."""
    rungs: Sequence[str] = ()
    """The rungs of the landing after the change, in the order in which they were tried."""


@dataclass(frozen=True, slots=True)
class UnansweredRequest:
    """A request without a reply."""

    choice: str
    how: Literal["refused", "failed", "changed"]
    """Whether the endpoint refused its choice, the request ended the run, or the run changed to another model."""
    next: NextModel | None = None
    """The next model; None unless `how` is `changed`. The messages that follow start again, adapted for it."""


Line = Message | AnsweredRequest | UnansweredRequest
"""A message, or a request, which sends all messages and replies above it, back to the last change of the model.

Only messages that were adapted for another model can have the role `assistant`.
"""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An executed tool call with its result."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    output: str
    """The complete output, before it was cut."""
    is_error: bool = False
    note: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """The initial state of the run."""

    specialist: str
    digest: str
    """SHA-256 of the specialist's file; empty if it is unknown."""
    model: str
    question: str
    settings: Mapping[str, Any]
    """All settings of the run."""
    overridden: Sequence[str]
    """The keys of the settings that come from the call, not from the file."""
    system: str
    tools: Sequence[Mapping[str, Any]]
    """Definitions of the tools."""
    given_tools: Sequence[str] = ()
    """Names of the tools that the program provided."""
    parents: Sequence[str] = ()
    """The specialists above it, outermost first."""
    rungs: Sequence[str] = ()
    """The rungs of the landing, in the order in which they were tried."""


@dataclass(frozen=True, slots=True)
class Cassette:
    """A recorded run."""

    source: str
    """Run id, or file name."""
    setup: Setup
    lines: Sequence[Line]
    calls: Sequence[RecordedCall]
    """Tool calls in call order."""
    outcome: Mapping[str, Any]
    """The compared fields, see `OUTCOME`, plus `error` and `error_kind`."""
    children: Sequence[Child] = ()
    is_file: bool = False
    """Whether it was read from a file, which contains no credentials, no local paths and no run ids."""

    @property
    def later_models(self) -> Sequence[NextModel]:
        """The models with which the run continued, in order; empty if it used only one."""
        return [line.next for line in self.requests if isinstance(line, UnansweredRequest) and line.next]

    def requests_of(self, place: int) -> Sequence[AnsweredRequest | UnansweredRequest]:
        """Return the requests to one of the models.

        place: index of the model, from 0.
        """
        changes = 0
        found = []
        for line in self.requests:
            if changes == place:
                found.append(line)
            changes += isinstance(line, UnansweredRequest) and line.next is not None
        return found

    @property
    def requests(self) -> Sequence[AnsweredRequest | UnansweredRequest]:
        """The requests in order."""
        return [line for line in self.lines if not isinstance(line, Message)]


OUTCOME = ("status", "answer", "output", "evidence", "gaps", "tool_calls", "landing")
"""The fields of an outcome that are compared; of `landing`, only the reason and the rung."""


def compared(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return the compared fields of an outcome, given as `--json` prints it."""
    landing = outcome["landing"]
    fields = {key: outcome[key] for key in OUTCOME}
    return {**fields, "landing": landing and {"reason": landing["reason"], "how": landing["how"]}}


def message_of(line: Line) -> Sequence[Block] | None:
    """Return the blocks that a line adds to the messages; None if it adds none."""
    if isinstance(line, Message):
        return line.blocks
    return sendable(line.reply.content) if isinstance(line, AnsweredRequest) and line.is_entered else None
