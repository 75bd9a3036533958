"""The interface of a provider: it opens conversations, and a conversation is asked for one reply at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from run_specialist.record.messages import Message, Reply, Usage
from run_specialist.tools.base import Toolset


class Choice(StrEnum):
    """What a request asks of the model's next turn; providers translate it into their `tool_choice`."""

    AUTO = "auto"
    """Text or any tool, as the model likes."""
    RESPOND = "respond"
    """The `respond` tool and nothing else."""
    NONE = "none"
    """Text only."""


@dataclass(frozen=True)
class Capabilities:
    """What a model's endpoint is known to take."""

    forced_choice: bool
    """False where a `tool_choice` that forces a tool is refused."""
    max_output_tokens: int
    """The largest `max_tokens` that a request may carry [tokens]."""
    is_language_model: bool = True
    """False for what only plays one, and can neither summarise nor be billed."""
    vendor: str = "custom"
    """Whose API it is, as telemetry names it."""


@dataclass(frozen=True)
class Opening:
    """What is frozen for a whole run, so that the prompt cache can hold it."""

    system: str
    tools: Toolset
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it streams, for somebody who watches."""

    text: str
    """The new characters: of the text, or of the tool's arguments as JSON."""
    tool: str | None = None
    """The tool whose arguments grow; None for text."""


Watch = Callable[[Delta], None]
"""Called with each piece of a streaming reply."""


@dataclass(frozen=True)
class Request:
    """One request of a run, beyond the `Opening` that all of them begin with."""

    messages: Sequence[Message]
    """The transcript, oldest first; each request of a run extends the one before it."""
    choice: Choice
    max_tokens: int
    """Limit of the reply [tokens]."""
    landing_instruction: str | None = None
    """The instruction that ends the last message; None while the run is not landing."""


class Conversation(Protocol):
    """One run's exchange with a model."""

    async def ask(self, request: Request) -> Reply:
        """Send the complete transcript and return the model's next turn.

        Raises ProviderError, and ForcingRefused when the endpoint does not support the request's choice.
        """
        ...


class Provider(Protocol):
    """A place where conversations can be opened; one instance may serve many runs."""

    @property
    def model(self) -> str:
        """The id that requests and outcomes carry."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the model is known to take, as learnt so far."""
        ...

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:
        """Start a conversation; with `watch` the replies are streamed."""
        ...

    def cost(self, usage: Usage) -> float | None:
        """Return what one request cost [USD]; None when the price is unknown."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
