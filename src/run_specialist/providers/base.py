"""The interface of a provider: it opens conversations, each of which returns one reply per request."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from run_specialist.budget import Rung
from run_specialist.record.messages import CallChoice, CallFormat, Message, Reply, Usage

if TYPE_CHECKING:  # fast `specialists list`, which runs nothing
    from run_specialist.record.events import Waiting
    from run_specialist.tools.base import Toolset


class Choice(StrEnum):
    """The tool choice of a request; providers convert it to their `tool_choice`."""

    AUTO = "auto"
    """The model may write text or call any tool."""
    RESPOND = "respond"
    """The model must call `respond`."""
    SCHEMA = "schema"
    """The model must write JSON that matches the schema of the request."""
    NONE = "none"
    """The model may only write text."""


@dataclass(frozen=True)
class Capabilities:
    """The known capabilities of a model's endpoint."""

    forced_choice: bool
    """False if the endpoint refuses a `tool_choice` that forces a tool."""
    max_output_tokens: int
    """Maximum `max_tokens` of a request [tokens]."""
    is_language_model: bool = True
    """False for a scripted stand-in, which cannot summarize and is not billed."""
    schema: bool = False
    """Whether to try constraining a reply to a JSON Schema; False if the endpoint refused or ignored that."""
    schema_first: bool = False
    """True if a schema is more reliable than a forced choice, as on servers that constrain every local model."""
    thinks: bool = False
    """True if the model may think before it replies, which counts as part of the reply."""
    none_choice: bool = True
    """False if the endpoint refuses `tool_choice: none`."""
    server_tools: bool = False
    """True if the endpoint may run tools itself, such as a web search; False if it refused their definitions."""
    vendor: str = "custom"
    """The vendor of the API, as reported in telemetry."""
    context_tokens: int | None = None
    """Length of the context for input and reply, as reported by a local server [tokens]; None = not known."""
    context_note: str = ""
    """A warning for the user about `context_tokens`; empty = none."""
    reads_json_calls: bool = False
    """True if calls written as JSON already arrive as calls, as in the stored replies of a replay."""
    rungs: tuple[Rung, ...] | None = None
    """The rungs of a recorded landing, in place of those that follow from the other fields; None = not recorded."""
    json_calls: bool = False
    """True if calls as JSON are more reliable: on local servers, and where native calls have failed."""

    def call_format(self, chosen: CallChoice) -> CallFormat:
        """Return how a new run calls tools.

        chosen: the setting; `auto` never means JSON where replies are not constrained.
        """
        if chosen == "auto":
            return "json" if self.json_calls and self.schema else "native"
        return chosen


WEAK_MATCH, NO_MATCH = "weak_match", "no_match"
"""Stop reasons of the offline provider: no file holds much of the question, or nothing of it was found."""


@dataclass(frozen=True)
class Opening:
    """The parts of a request that never change during a run, so that they can be cached."""

    system: str
    tools: "Toolset"
    effort: str | None = None
    tool_calls: CallFormat = "native"
    """How the model calls tools: as its API defines it, or as JSON that the endpoint constrains."""
    task_budget: int | None = None
    """As in the specialist's file; only the Messages API has it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streaming reply."""

    text: str
    """The new part of the text, or of the tool's arguments as JSON."""
    tool: str | None = None
    """The tool that the arguments belong to; None for text."""


Watch = Callable[[Delta], None]
"""Called with each piece of a streaming reply."""


class Stopping(Protocol):
    """Tells whether the run of a request must stop."""

    @property
    def is_requested(self) -> bool:
        """True once the run must send no further request."""

    def notifying(self, listener: Callable[[], object]) -> AbstractContextManager[None]:
        """Within the block, call a function once when the run must stop; immediately if it already must."""


@dataclass(slots=True)
class Queueing:
    """How a request waits while its endpoint accepts no more requests."""

    notify: "Callable[[Waiting], None]" = lambda _: None
    """Called once a wait has lasted a second, and when it ends."""
    patience: float = math.inf
    """Maximum wait while the endpoint would refuse the request [s]."""
    time_limit: float = math.inf
    """End of such a wait at the latest, by the monotonic clock [s]."""
    closed_since: float | None = None
    """Time since which the request would be refused; None if it would not."""
    stopping: Stopping | None = None
    """Ends the wait; None if only a cancellation does."""

    @property
    def ends_at(self) -> float:
        """Time until which it waits although it would be refused [s]."""
        return min(math.inf if self.closed_since is None else self.closed_since + self.patience, self.time_limit)


@dataclass(frozen=True)
class Request:
    """One request of a run, without the `Opening` that all requests share."""

    messages: Sequence[Message]
    """The transcript, oldest first; each request of a run extends the previous one."""
    choice: Choice
    max_tokens: int
    """Maximum length of the reply [tokens]."""
    landing_instruction: str | None = None
    """The instruction at the end of the last message; None unless the run is landing."""
    schema: Mapping[str, Any] | None = None
    """The schema that the reply must match, adapted for the vendors by `strict`; None = any reply."""
    schema_name: str = "respond"
    """The name of the schema, which chat completions require."""
    has_read: bool = False
    """Whether the model has the result of a call already."""
    retries: int = 0
    """Number of earlier attempts."""
    queueing: Queueing | None = field(default=None, compare=False)
    """How the request waits for its turn; None = without notice or limit."""


class Conversation(Protocol):
    """The exchange of one run with a model."""

    async def ask(self, request: Request) -> Reply:
        """Send the complete transcript and return the model's next turn.

        The request is sent once. Raises ProviderError: Unavailable if it may succeed later, ChoiceRefused if the
        endpoint does not support the request's choice.
        """


class Provider(Protocol):
    """A source of conversations with one model; one instance may serve many runs."""

    @property
    def model(self) -> str:
        """The id in requests and outcomes."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities known so far; they may change when the endpoint refuses a request."""

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:
        """Start a conversation; with `watch` the replies are streamed."""

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one request [USD]; None if the price is unknown."""

    async def aclose(self) -> None:
        """Close all connections."""
