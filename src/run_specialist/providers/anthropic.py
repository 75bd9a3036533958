"""The Messages API through the vendor's SDK, which serves as transport: its auth, retries, errors and streaming.

A request body is made of bytes that never change: system and tools are serialised once a run, each message once.
Cached are the system prompt (an explicit breakpoint, so that it survives a changed `tool_choice`) and the tail (the
automatic breakpoint). The previous tail is marked after a very large turn, which a lookback of 20 blocks would not
pass, and in place of the tail where the model is ordered to end.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError
from run_specialist.providers import prices
from run_specialist.providers.anthropic_reply import StreamedMessage, read_reply
from run_specialist.providers.base import Capabilities, Choice, Opening, Request, Watch
from run_specialist.providers.endpoint import MESSAGES
from run_specialist.providers.json_reader import TokenEstimate
from run_specialist.providers.models import capabilities, full_id
from run_specialist.providers.pace import pace
from run_specialist.providers.sdk_errors import one_line
from run_specialist.providers.transport import connection, send, stream
from run_specialist.record.messages import Block, Message, Reply, Usage, encode
from run_specialist.tools.respond import NAME as RESPOND

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

PATH = "/v1/messages"
TOO_LONG = ("prompt is too long", "exceed context limit")
"""How the API says that a request does not fit into the model's context."""
CACHED: Block = {"type": "ephemeral"}
LOOKBACK_BLOCKS = 18
"""A turn that added more blocks than this would miss the last cache write, which is looked for 20 blocks back."""


class AnthropicProvider:
    """Opens conversations with one model of a Messages-compatible endpoint."""

    def __init__(self, model: str, client: "AsyncAnthropic") -> None:
        """Take a model and the client to reach it with; see `make_client`.

        model: an alias or a full id.
        """
        self.model = full_id(model)
        self.capabilities: Capabilities = capabilities(self.model)
        self.client = client

    def open(self, opening: Opening, watch: Watch | None = None) -> "AnthropicConversation":
        """Freeze system and tools for a run."""
        return AnthropicConversation(self, opening, watch)

    def learn_unforceable(self) -> None:
        """Remember that this endpoint refuses a forced choice."""
        self.capabilities = replace(self.capabilities, forced_choice=False)

    def cost(self, usage: Usage) -> float | None:
        """Return what one request cost [USD]."""
        return prices.cost(usage, self.model, "anthropic")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.close()


def make_client(**options: Any) -> "AsyncAnthropic":  # noqa: ANN401 - the SDK's own options
    """Return a client of the SDK that neither waits as long as any server likes, nor takes all that it sends.

    options: those of `AsyncAnthropic`; what is left out comes from the environment.
    """
    import anthropic  # noqa: PLC0415 - a second of start-up, paid only on the way to a request

    return anthropic.AsyncAnthropic(**{**connection(anthropic), **options})


class AnthropicConversation:
    """One run's exchange; every request begins with the same bytes."""

    def __init__(self, provider: AnthropicProvider, opening: Opening, watch: Watch | None) -> None:
        self._provider = provider
        self._watch = watch
        self._told = TokenEstimate()
        tools = [tool.definition for tool in opening.tools]
        # Without tools it is one question and one answer: nothing would read what it wrote to the cache.
        self._marker: Block = {"cache_control": CACHED} if tools else {}
        self._front = encode(
            {
                "model": provider.model,
                "system": [{"type": "text", "text": opening.system, **self._marker}],
                **({"tools": tools} if tools else {}),
                **({"output_config": {"effort": opening.effort}} if opening.effort else {}),
            }
        ).removesuffix(b"}")

    async def ask(self, request: Request) -> Reply:
        """Send the transcript; see `Conversation.ask`."""
        # Before the body is made: whoever waits has none in memory.
        await pace().begin()
        body = self._body(request)
        try:
            return read_reply(await self._exchange(body), self._told.ids)
        except ProviderError:
            raise
        # Much of what goes wrong on the wire is no error of the SDK: a damaged body, a cut stream, a reset connection.
        except Exception as error:
            from anthropic import BadRequestError  # noqa: PLC0415 - see make_client

            line = one_line(error, MESSAGES, self._provider.client)
            if isinstance(error, BadRequestError) and request.choice is Choice.RESPOND and "tool_choice" in str(error):
                self._provider.learn_unforceable()
                raise ForcingRefused(line) from error
            if isinstance(error, BadRequestError) and any(words in str(error) for words in TOO_LONG):
                raise ContextExceeded(line) from error
            raise ProviderError(line) from error

    def _body(self, request: Request) -> bytes:
        messages = request.messages
        varying: dict[str, Any] = {"max_tokens": request.max_tokens}
        self._told.take(messages, lambda message: message.encoded)
        said = [*self._told.pieces]
        match request.choice:
            case Choice.AUTO:
                # Nothing reads what a request would write that orders the model to end.
                is_last = request.landing_instruction is not None
                if not is_last:
                    varying |= self._marker
                place = _previous_tail(messages)
                if place is not None and (is_last or _blocks(messages[place + 1 :]) > LOOKBACK_BLOCKS):
                    said[place] = _marked(messages[place])
            # A request that changes the choice loses the messages cache.
            case Choice.RESPOND:
                varying["tool_choice"] = {"type": "tool", "name": RESPOND}
            case Choice.NONE:
                varying["tool_choice"] = {"type": "none"}
        if self._watch is not None:
            varying["stream"] = True
        # The one copy of all that was said is made by the one join.
        said[0] = b"".join((self._front, b",", encode(varying)[1:-1], b',"messages":[', said[0]))
        said[-1] += b"]}"
        return b",".join(said)

    async def _exchange(self, body: bytes) -> Block:
        client = self._provider.client
        if self._watch is None:
            return await send(client, PATH, body, MESSAGES)
        return await stream(client, PATH, body, MESSAGES, partial(StreamedMessage, self._watch))


def _previous_tail(messages: Sequence[Message]) -> int | None:
    """Return the place of the message where the last request ended, and wrote to the cache."""
    ours = (place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "user")
    # The newest of them goes out for the first time.
    next(ours, None)
    return next(ours, None)


def _blocks(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def _marked(message: Message) -> bytes:
    """Return the message's bytes with a cache marker on its last block; a marker is no content."""
    *blocks, last = message.content
    return encode({"role": message.role, "content": [*blocks, {**last, "cache_control": CACHED}]})
