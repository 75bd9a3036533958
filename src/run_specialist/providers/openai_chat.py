"""The provider for the chat completions API, through the vendor's SDK; many local servers implement this API too.

As with the Messages API, model and tools are serialized once per run, each message once.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ContextExceeded, ProviderError, UsageError
from run_specialist.installation import adding
from run_specialist.providers import models, transport
from run_specialist.providers.admission import GATES, GatedRequest
from run_specialist.providers.base import Capabilities, Choice, Opening, Request, Watch
from run_specialist.providers.errors import CHAT, OPENAI_URL, Endpoint, failure, final, no_connection
from run_specialist.providers.knowledge import InformedProvider
from run_specialist.providers.models import UNKNOWN_MAX_OUTPUT_TOKENS
from run_specialist.providers.openai_messages import StreamedCompletion, encoded, read_reply
from run_specialist.providers.transport import EncodedMessages, connection, send, url_of
from run_specialist.record.messages import Block, Reply, Usage, encode
from run_specialist.specialist.tool_names import RESPOND

if TYPE_CHECKING:
    from openai import AsyncOpenAI


PATH = "/chat/completions"
# Time between the end of a connection and the end of the server's process [s].
_LAST_MOMENTS = 0.1
CHOICES: dict[Choice, object] = {
    Choice.AUTO: "auto",
    Choice.RESPOND: {"type": "function", "function": {"name": RESPOND}},
    Choice.NONE: "none",
}
MAX_TOKENS, OLD_MAX_TOKENS = "max_completion_tokens", "max_tokens"
"""The key that limits a reply, and its predecessor, which some servers require."""
# The key that requests the usage of a streamed reply; some servers do not support it.
_STREAMING = "stream_options"


class ChatProvider(InformedProvider):
    """Opens conversations with one model of a chat completions endpoint."""

    def __init__(
        self,
        model: str,
        client: "AsyncOpenAI",
        endpoint: Endpoint = CHAT,
        failure_of_server: Callable[[float], str] = lambda _: "",
    ) -> None:
        """Create a provider.

        model: id without the prefix of the endpoint.
        client: as returned by `make_client`.
        failure_of_server: returns why a server started by this program has ended; empty while it runs. Its argument is
            the time to wait for a server that is about to end [s].
        """
        self.id = model
        self.model = f"{endpoint.prefix}{model}"
        is_vendor = str(client.base_url).rstrip("/") == OPENAI_URL
        super().__init__(
            Capabilities(
                forced_choice=True,
                max_output_tokens=UNKNOWN_MAX_OUTPUT_TOKENS,
                schema=True,
                # Local servers constrain every model, but many ignore a forced choice.
                schema_first=not is_vendor,
                # Some of the vendor's models do.
                thinks=is_vendor,
                vendor=endpoint.vendor,
                # Models on local servers are small.
                json_calls=endpoint is not CHAT,
            )
        )
        self.client: AsyncOpenAI = client
        self.endpoint = endpoint
        self.failure_of_server = failure_of_server

    def open(self, opening: Opening, watch: Watch | None = None) -> "ChatConversation":
        """Start a conversation with fixed system prompt and tools."""
        return ChatConversation(self, opening, watch)

    def learn(self, refusal: str, max_tokens: int) -> int | None:
        """Return the `max_tokens` with which a refused request may succeed; None if a retry is pointless.

        refusal: error text. max_tokens: limit in the refused request [tokens].
        """
        unknown = {key for key in (MAX_TOKENS, _STREAMING) if key in refusal and _UNKNOWN_KEY.search(refusal.lower())}
        if unknown - self.knowledge.unknown:
            self.knowledge.unknown |= unknown
            return max_tokens
        if found := _MAX_OUTPUT.search(refusal):
            largest = int(found[found.lastindex or 0])
            if 0 < largest < max_tokens:
                self.knowledge.capabilities = replace(self.capabilities, max_output_tokens=largest)
                return largest
        left = context_left(refusal, max_tokens)
        return left if left is not None and _MIN_OUTPUT <= left < max_tokens else None

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one request [USD]; None if the price is unknown."""
        # A local model may have the name of one that the vendor sells.
        return models.cost(usage, self.id, "openai") if self.endpoint is CHAT else None


def make_client(*, direct: bool = False, **options: Any) -> "AsyncOpenAI":  # noqa: ANN401 - the SDK's own options
    """Return an SDK client with limits on timeouts and the size of replies.

    direct: as in `transport.connection`.
    options: options of `AsyncOpenAI`; missing ones come from the environment. `max_retries=0` disables retries, and
        any other number has no effect: the patience of a run limits them.
    Raises ImportError if the SDK is not installed.
    """
    with transport.paused("openai"):
        import openai  # noqa: PLC0415 - the import takes a second

    return openai.AsyncOpenAI(**{**connection(openai, direct=direct), **options})


def chat_client(model: str, endpoint: Endpoint, **options: Any) -> "AsyncOpenAI":  # noqa: ANN401 - as `make_client`
    """Return a client for the chat completions API.

    options: those of `openai_chat.make_client`.
    Raises UsageError if the SDK is not installed or the configuration is invalid.
    """
    try:
        return make_client(**options)
    except ImportError as error:
        raise UsageError(
            f"`model={model}` needs a package that is not installed ({error}); {adding('openai')}"
        ) from error
    except Exception as error:  # any error of the SDK or the HTTP library about the environment
        raise no_connection(error, endpoint) from error


class ChatConversation:
    """The conversation of one run; all its requests start with the same bytes."""

    def __init__(self, provider: ChatProvider, opening: Opening, watch: Watch | None) -> None:
        self._provider = provider
        self._names = opening.tools.names
        self._watch = watch
        self._streamed: StreamedCompletion | None = None
        self._sent = EncodedMessages()
        self._gate = GATES.of(provider.client)
        self._url = url_of(provider.client, PATH)
        self._has_tools = bool(opening.tools.local)
        tools = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in opening.tools.local
        ]
        front = {"model": provider.id, "tools": tools, "reasoning_effort": opening.effort}
        front = {key: value for key, value in front.items() if value}
        self._front = encode(front).removesuffix(b"}")
        self._system = encode({"role": "system", "content": opening.system}) if opening.system else b""

    async def ask(self, request: Request) -> Reply:
        """Send the transcript and return the reply, as `Conversation.ask` describes."""
        from openai import APIStatusError  # noqa: PLC0415 - see make_client

        limit = min(request.max_tokens, self._provider.capabilities.max_output_tokens)
        self._streamed = None
        try:
            async with GatedRequest(self._gate, self._provider, self._provider.endpoint, request) as gated:
                try:
                    completion = await self._send(request, limit, gated)
                except APIStatusError as error:
                    new_limit = self._provider.learn(f"{error} {error.body}", limit)
                    if new_limit is None:
                        raise
                    completion = await self._send(request, new_limit, gated)
            reply = read_reply(completion, self._sent.ids, self._provider.endpoint)
        except ProviderError as error:
            raise final(error, self._provider.client) from None
        # Many network failures are not SDK errors: an invalid body, a wrong encoding.
        except Exception as error:
            raise self._failure(error, request) from error
        return self._provider.knowledge.taken(request, reply, self._names)

    def _failure(self, error: Exception, request: Request) -> ProviderError:
        from openai import APIConnectionError, APIError, APIStatusError  # noqa: PLC0415 - see make_client

        if isinstance(error, APIConnectionError) and self._streamed and isinstance(error.__cause__, Exception):
            # The connection succeeded; the cause is the error that interrupted the stream.
            error = error.__cause__
        ended = self._provider.failure_of_server(_LAST_MOMENTS)
        failed = ProviderError(ended) if ended else failure(error, self._provider.endpoint, self._provider.client)
        line = str(failed)
        if isinstance(error, APIError):
            text = f"{error} {error.body}"
            # Whether the choice restricts which tools the model may call.
            is_constrained = self._has_tools and request.choice in {Choice.RESPOND, Choice.NONE}
            refused = isinstance(error, APIStatusError) and error.status_code < 500  # noqa: PLR2004
            if any(each in text.lower() for each in TOO_LONG):
                failed = ContextExceeded(line)
            # Some servers report a schema that their grammar cannot express as a server error.
            elif isinstance(error, APIStatusError) and request.schema and _ABOUT_SCHEMA.search(text):
                failed = self._provider.knowledge.refused(Choice.SCHEMA, line)
            elif refused and is_constrained and re.search(r"(?i)tool[_ ]choice", text):
                failed = self._provider.knowledge.refused(request.choice, line)
        return failed

    def _send(self, request: Request, max_tokens: int, gated: GatedRequest) -> Awaitable[Block]:
        client, endpoint, body = self._provider.client, self._provider.endpoint, self._body(request, max_tokens)
        watch = self._watch

        def begin() -> StreamedCompletion:
            assert watch is not None  # noqa: S101 - only then
            self._streamed = StreamedCompletion(watch)
            return self._streamed

        return send(client, self._url, body, endpoint, gated.accepted, request.retries, begin if watch else None)

    def _body(self, request: Request, max_tokens: int) -> bytes:
        unknown = self._provider.knowledge.unknown
        varying: dict[str, Any] = {OLD_MAX_TOKENS if MAX_TOKENS in unknown else MAX_TOKENS: max_tokens}
        if self._watch is not None:
            varying["stream"] = True
            if _STREAMING not in unknown:
                varying[_STREAMING] = {"include_usage": True}
        if request.schema is not None:
            json_schema = {"name": request.schema_name, "strict": True, "schema": request.schema}
            varying["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        elif self._has_tools:
            varying["tool_choice"] = CHOICES[request.choice]
        self._sent.take(request.messages, encoded)
        joined = b",".join(piece for piece in (self._system, *self._sent.pieces) if piece)
        return b"".join((self._front, b",", encode(varying)[1:-1], b',"messages":[', joined, b"]}"))


TOO_LONG = (
    "context_length_exceeded",
    "exceed_context_size",
    "exceeds the available context size",
    "maximum context length",
    "context window",
    "prompt is too long",
)
"""Error texts for a request that exceeds the model's context window."""

# A context with less space than this for the reply counts as full [tokens].
_MIN_OUTPUT = 256

_MAX_OUTPUT = re.compile(
    r"supports at most (\d+) completion tokens"
    r"|max(?:_completion)?_tokens\W+(?:value )?must be less than or equal to\W+(\d+)"
    r"|valid range of max(?:_completion)?_tokens is \[\d+, ?(\d+)\]"
)
_CONTEXT = re.compile(r"maximum context length is (\d+)")
_REQUESTED = re.compile(r"you requested (\d+) tokens")
_PROMPT = re.compile(r"\b(\d+) input tokens")
_ABOUT_SCHEMA = re.compile(
    r"response[_ ]format|json[_ ](?:schema|mode)|grammar|guided|structured[_ ]output", re.IGNORECASE
)
_UNKNOWN_KEY = re.compile(r"unrecogni[sz]ed|unknown|unexpected|unsupported|not supported|extra|not permitted")


def context_left(refusal: str, max_tokens: int) -> int | None:
    """Return the context left for the reply [tokens]; None if the error text does not contain it.

    max_tokens: limit in the refused request [tokens].
    """
    context, requested, prompt = (pattern.search(refusal) for pattern in (_CONTEXT, _REQUESTED, _PROMPT))
    if context and requested:
        return int(context[1]) - (int(requested[1]) - max_tokens)
    return int(context[1]) - int(prompt[1]) if context and prompt else None
