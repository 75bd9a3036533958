"""The provider for the Messages API; the vendor's SDK does authentication, errors and streaming.

A request body consists of bytes that never change: system and tools are serialized once per run, each message once.
Prompt caching covers the system prompt (an explicit breakpoint, which a changed `tool_choice` does not invalidate) and
the tail (the automatic breakpoint). The previous tail gets a breakpoint after a turn that exceeds the lookback of 20
blocks, and instead of the tail in a request that orders the model to end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.providers import anthropic_refusals, gc_tuning, prices
from run_specialist.providers.admission.gate import GATES, GatedRequest
from run_specialist.providers.anthropic_reply import StreamedMessage, read_reply
from run_specialist.providers.base import Choice, Opening, Request, Watch
from run_specialist.providers.endpoint import MESSAGES
from run_specialist.providers.json_reader import EncodedMessages
from run_specialist.providers.knowledge import InformedProvider, Lessons
from run_specialist.providers.models import capabilities, full_id
from run_specialist.providers.pace import pace
from run_specialist.providers.sdk_errors import failure, final
from run_specialist.providers.served_tools import EndpointTools, UnansweredToolUses
from run_specialist.providers.transport import connection, send, stream, url_of
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Message, Reply, Usage, encode
from run_specialist.tools.respond import NAME as RESPOND

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

PATH = "/v1/messages"
CACHED: Block = {"type": "ephemeral"}
LOOKBACK_BLOCKS = 18
"""Maximum size of a turn after which the API still finds the last cache write: it looks back 20 blocks."""


class AnthropicProvider(InformedProvider):
    """Opens conversations with one model of a Messages-compatible endpoint."""

    def __init__(self, model: str, client: "AsyncAnthropic") -> None:
        """Create a provider.

        model: an alias or a full id.
        client: as returned by `make_client`.
        """
        self.model = full_id(model)
        super().__init__(capabilities(self.model))
        self.client: AsyncAnthropic = client

    def open(self, opening: Opening, watch: Watch | None = None) -> "AnthropicConversation":
        """Start a conversation with fixed system prompt and tools."""
        return AnthropicConversation(self, opening, watch)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one request [USD]; None if the price is unknown."""
        return prices.cost(usage, self.model, "anthropic")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.close()


def make_client(**options: Any) -> "AsyncAnthropic":  # noqa: ANN401 - the SDK's own options
    """Return an SDK client with limits on timeouts and the size of replies.

    options: options of `AsyncAnthropic`; missing ones come from the environment. `max_retries=0` disables retries, and
        any other number has no effect: the patience of a run limits them.
    """
    with gc_tuning.paused("anthropic"):
        import anthropic  # noqa: PLC0415 - the import takes a second

    return anthropic.AsyncAnthropic(**{**connection(anthropic), **options})


class AnthropicConversation:
    """The conversation of one run; all its requests start with the same bytes."""

    def __init__(self, provider: AnthropicProvider, opening: Opening, watch: Watch | None) -> None:
        self._provider = provider
        self._lessons = Lessons(provider, opening)
        self._watch = watch
        self._sent = EncodedMessages()
        self._gate = GATES.of(provider.client)
        self._url = url_of(provider.client, PATH)
        self._answered = 0
        self._opening = opening
        self._tools = EndpointTools(opening, provider.knowledge)
        self._unanswered = UnansweredToolUses()
        # Without any tools there is only one request, so no later one would read from the cache.
        self._has_tools = bool(self._tools.definitions)
        self._effort: Block = {"effort": opening.effort} if opening.effort else {}
        self._marker: Block = {"cache_control": CACHED} if self._has_tools or opening.tool_calls == "json" else {}
        self._front = self._encoded_front()

    def _encoded_front(self) -> bytes:
        """Return the beginning of every request: model, system prompt and tools."""
        tools = self._tools.definitions
        system = [{"type": "text", "text": self._opening.system, **self._marker}]
        front = {"model": self._provider.model, "system": system, **({"tools": tools} if tools else {})}
        return encode(front).removesuffix(b"}")

    async def ask(self, request: Request) -> Reply:
        """Send the transcript and return the reply, as `Conversation.ask` describes."""
        # Before the body is built, so that waiting requests use no memory.
        await pace().begin()
        messages = self._unanswered.removed(request.messages, may_run=request.choice is Choice.AUTO)
        if messages is not request.messages:
            request = replace(request, messages=messages)
        try:
            async with GatedRequest(self._gate, self._provider, MESSAGES, request) as gated:
                block = await self._exchange(request, gated)
            reply = read_reply(block, self._sent.ids)
        except ProviderError as error:
            raise final(error, self._provider.client) from None
        # Many network failures are not SDK errors: an invalid body, an incomplete stream, a connection reset.
        except Exception as error:
            raise self._failure(error, request) from error
        self._answered = len(request.messages)
        warning, self._tools.warning = self._tools.warning, ""
        return self._lessons.taken(request, reply.with_warning(warning))

    def _failure(self, error: Exception, request: Request) -> ProviderError:
        failed, knowledge = failure(error, MESSAGES, self._provider.client), self._provider.knowledge
        if not _is_refusal(error):
            return failed
        line = str(failed)
        if anthropic_refusals.is_too_long(str(error)):
            return ContextExceeded(line)
        match request.choice:
            case Choice.RESPOND | Choice.NONE if self._has_tools and anthropic_refusals.is_about_choice(str(error)):
                return knowledge.refused(request.choice, line)
            case _ if request.schema is not None and anthropic_refusals.is_about_schema(str(error)):
                return knowledge.refused(Choice.SCHEMA, line)
            case _:
                return failed

    def _body(self, request: Request) -> bytes:
        messages = request.messages
        varying: dict[str, Any] = {"max_tokens": request.max_tokens}
        config = {**self._effort, **({"format": _format(request.schema)} if request.schema else {})}
        if config:
            varying["output_config"] = config
        self._sent.take(messages, lambda message: message.encoded)
        encoded = [*self._sent.pieces]
        match request.choice:
            case Choice.AUTO:
                # No later request would read the cache written by one that orders the model to end.
                is_last = request.landing_instruction is not None
                if not is_last:
                    varying |= self._marker
                place = _previous_tail(messages)
                if place is not None and (is_last or _blocks(messages[place + 1 :]) > LOOKBACK_BLOCKS):
                    encoded[place] = _marked(messages[place])
            # A changed tool choice invalidates the cache of the messages.
            case Choice.RESPOND:
                varying["tool_choice"] = {"type": "tool", "name": RESPOND}
            case Choice.NONE if self._has_tools:
                varying["tool_choice"] = {"type": "none"}
            case Choice.SCHEMA if self._has_tools and self._provider.capabilities.none_choice:
                varying["tool_choice"] = {"type": "none"}
            case _:
                pass
        if self._watch is not None:
            varying["stream"] = True
        # A single join, so that the transcript is copied only once.
        encoded[0] = b"".join((self._front, b",", encode(varying)[1:-1], b',"messages":[', encoded[0]))
        encoded[-1] += b"]}"
        return b",".join(encoded)

    async def _exchange(self, request: Request, gated: GatedRequest) -> Block:
        try:
            return await self._send(request, gated)
        except Exception as error:
            is_first, refusal = not self._answered, str(error)
            if is_first and _is_refusal(error) and self._tools.were_refused(refusal):
                self._front, self._has_tools = self._encoded_front(), bool(self._tools.definitions)
                return await self._exchange(request, gated)
            # A schema does without the tool choice beside it.
            about_choice = _is_refusal(error) and anthropic_refusals.is_about_choice(str(error))
            if request.choice is not Choice.SCHEMA or not about_choice or not self._provider.capabilities.none_choice:
                raise
            self._provider.knowledge.refused(Choice.NONE, str(error))
            return await self._send(request, gated)

    async def _send(self, request: Request, gated: GatedRequest) -> Block:
        client, body = self._provider.client, self._body(request)
        if self._watch is None:
            return await send(client, self._url, body, MESSAGES, gated.accepted, request.retries)
        begin = partial(StreamedMessage, self._watch)
        return await stream(client, self._url, body, MESSAGES, gated.accepted, begin, request.retries)


def _format(schema: Mapping[str, Any]) -> Block:
    return {"type": "json_schema", "schema": schema}


def _is_refusal(error: Exception) -> bool:
    """Return whether the endpoint refused the request as invalid."""
    from anthropic import BadRequestError, UnprocessableEntityError  # noqa: PLC0415 - see make_client

    return isinstance(error, BadRequestError | UnprocessableEntityError)


def _previous_tail(messages: Sequence[Message]) -> int | None:
    """Return the index of the last message of the previous request, which was written to the cache."""
    from_user = (place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "user")
    # The newest user message is sent for the first time.
    next(from_user, None)
    return next(from_user, None)


def _blocks(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def _marked(message: Message) -> bytes:
    """Return the encoded message with a cache breakpoint on its last block."""
    *blocks, last = message.content
    return encode({"role": message.role, "content": [*blocks, {**last, "cache_control": CACHED}]})
