"""The chat completions API through the vendor's SDK, which serves as transport; many local servers speak it too.

As with the Messages API a body is made of bytes that never change: the front once a run, each message once.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError
from run_specialist.providers import openai_refusals, prices
from run_specialist.providers.base import Capabilities, Choice, Opening, Request, Watch
from run_specialist.providers.endpoint import CHAT
from run_specialist.providers.json_reader import TokenEstimate
from run_specialist.providers.models import UNKNOWN_MAX_OUTPUT_TOKENS
from run_specialist.providers.openai_messages import encoded
from run_specialist.providers.openai_reply import read_reply
from run_specialist.providers.openai_stream import StreamedCompletion
from run_specialist.providers.pace import pace
from run_specialist.providers.sdk_errors import one_line
from run_specialist.providers.transport import connection, send, stream
from run_specialist.record.messages import Block, Reply, Usage, encode
from run_specialist.tools.respond import NAME as RESPOND

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PATH = "/chat/completions"
CHOICES: dict[Choice, object] = {
    Choice.AUTO: "auto",
    Choice.RESPOND: {"type": "function", "function": {"name": RESPOND}},
    Choice.NONE: "none",
}
ROOM, OLD_ROOM = "max_completion_tokens", "max_tokens"
"""The key that limits a reply, and the one before it, which is all that some servers know."""
STREAMING = "stream_options"
"""The key that asks for the usage of a streamed reply; not every server knows it."""


class ChatProvider:
    """Opens conversations with one model of a chat completions endpoint."""

    def __init__(self, model: str, client: "AsyncOpenAI") -> None:
        """Take a model's id, without the prefix, and the client to reach it with; see `make_client`."""
        self.id = model
        self.model = f"openai:{model}"
        self.capabilities = Capabilities(
            forced_choice=True, max_output_tokens=UNKNOWN_MAX_OUTPUT_TOKENS, vendor="openai"
        )
        self.client = client
        self.unknown: frozenset[str] = frozenset()
        """Keys of a request that the server does not know, as learnt so far."""

    def open(self, opening: Opening, watch: Watch | None = None) -> "ChatConversation":
        """Freeze system and tools for a run."""
        return ChatConversation(self, opening, watch)

    def learn_unforceable(self) -> None:
        """Remember that this endpoint refuses a forced choice."""
        self.capabilities = replace(self.capabilities, forced_choice=False)

    def learn(self, words: str, room: int) -> int | None:
        """Return the room with which a refused request may be taken after all; None when nothing can be done.

        words: of the refusal. room: what the request asked for [tokens].
        """
        unknown = {key for key in (ROOM, STREAMING) if openai_refusals.is_unknown(key, words)}
        if unknown - self.unknown:
            self.unknown |= unknown
            return room
        most = openai_refusals.most_room(words)
        if most is not None and 0 < most < room:
            self.capabilities = replace(self.capabilities, max_output_tokens=most)
            return most
        left = openai_refusals.room_left(words, room)
        return left if left is not None and openai_refusals.LEAST_ROOM <= left < room else None

    def cost(self, usage: Usage) -> float | None:
        """Return what one request cost [USD]."""
        return prices.cost(usage, self.id, "openai")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.close()


def make_client(**options: Any) -> "AsyncOpenAI":  # noqa: ANN401 - the SDK's own options
    """Return a client of the SDK that neither waits as long as any server likes, nor takes all that it sends.

    options: those of `AsyncOpenAI`; what is left out comes from the environment.
    Raises ImportError where the SDK is not installed.
    """
    import openai  # noqa: PLC0415 - a second of start-up, paid only on the way to a request

    return openai.AsyncOpenAI(**{**connection(openai), **options})


class ChatConversation:
    """One run's exchange; every request begins with the same bytes."""

    def __init__(self, provider: ChatProvider, opening: Opening, watch: Watch | None) -> None:
        self._provider = provider
        self._watch = watch
        self._growing: StreamedCompletion | None = None
        self._told = TokenEstimate()
        self._has_tools = bool(opening.tools.names)
        front: dict[str, Any] = {"model": provider.id}
        if self._has_tools:
            front["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
                }
                for tool in opening.tools
            ]
        if opening.effort:
            front["reasoning_effort"] = opening.effort
        self._front = encode(front).removesuffix(b"}")
        self._system = encode({"role": "system", "content": opening.system}) if opening.system else b""

    async def ask(self, request: Request) -> Reply:
        """Send the transcript; see `Conversation.ask`."""
        from openai import APIStatusError  # noqa: PLC0415 - see make_client

        room = min(request.max_tokens, self._provider.capabilities.max_output_tokens)
        self._growing = None
        # Before the body is made: whoever waits has none in memory.
        await pace().begin()
        try:
            try:
                completion = await self._exchange(request, room)
            except APIStatusError as error:
                less = self._provider.learn(openai_refusals.words_of(error), room)
                if less is None:
                    raise
                completion = await self._exchange(request, less)
            return read_reply(completion, self._told.ids)
        except ProviderError:
            raise
        # Much of what goes wrong on the wire is no error of the SDK: a damaged body, a wrong encoding.
        except Exception as error:
            raise self._failure(error, request.choice) from error

    def _failure(self, error: Exception, choice: Choice) -> ProviderError:
        from openai import APIConnectionError, APIError, APIStatusError  # noqa: PLC0415 - see make_client

        if isinstance(error, APIConnectionError) and self._growing and isinstance(error.__cause__, Exception):
            # The server was reached; what broke the stream off is the cause.
            error = error.__cause__
        line = one_line(error, CHAT, self._provider.client)
        failure = ProviderError(line)
        if isinstance(error, APIError):
            words = openai_refusals.words_of(error)
            refused = isinstance(error, APIStatusError) and error.status_code < 500  # noqa: PLR2004
            if refused and choice is Choice.RESPOND and openai_refusals.is_about_choice(words):
                self._provider.learn_unforceable()
                failure = ForcingRefused(line)
            elif openai_refusals.is_too_long(words):
                failure = ContextExceeded(line)
        return failure

    async def _exchange(self, request: Request, max_tokens: int) -> Block:
        client, body = self._provider.client, self._body(request, max_tokens)
        if self._watch is None:
            return await send(client, PATH, body, CHAT)
        return await stream(client, PATH, body, CHAT, partial(self._begin, self._watch))

    def _begin(self, watch: Watch) -> StreamedCompletion:
        self._growing = StreamedCompletion(watch)
        return self._growing

    def _body(self, request: Request, max_tokens: int) -> bytes:
        unknown = self._provider.unknown
        varying: dict[str, Any] = {OLD_ROOM if ROOM in unknown else ROOM: max_tokens}
        if self._watch is not None:
            varying["stream"] = True
            if STREAMING not in unknown:
                varying[STREAMING] = {"include_usage": True}
        if self._has_tools:
            varying["tool_choice"] = CHOICES[request.choice]
        self._told.take(request.messages, encoded)
        said = b",".join(piece for piece in (self._system, *self._told.pieces) if piece)
        return b"".join((self._front, b",", encode(varying)[1:-1], b',"messages":[', said, b"]}"))
