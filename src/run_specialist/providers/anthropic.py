"""The provider for the Messages API; the vendor's SDK does authentication, errors and streaming.

A request body consists of bytes that never change: system and tools are serialized once per run, each message once.
Prompt caching covers the system prompt (an explicit breakpoint, which a changed `tool_choice` does not invalidate) and
the tail (the automatic breakpoint). The previous tail gets a breakpoint after a turn that exceeds the lookback of 20
blocks, and instead of the tail in a request that orders the model to end.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

from run_specialist import prompts
from run_specialist.errors import ContextExceeded, ProviderError, Unavailable
from run_specialist.providers import models, transport
from run_specialist.providers.admission import GATES, GatedRequest
from run_specialist.providers.base import Choice, Delta, Opening, Request, Watch
from run_specialist.providers.errors import MESSAGES, failure, final, kind_of
from run_specialist.providers.knowledge import InformedProvider, Knowledge
from run_specialist.providers.models import capabilities, full_id
from run_specialist.providers.transport import (
    EncodedMessages,
    WhiteSpace,
    connection,
    count,
    read_arguments,
    send,
    unique_id,
    url_of,
)
from run_specialist.record.messages import USE, Block, Message, Reply, Stop, Usage, encode, is_result
from run_specialist.specialist.tool_names import RESPOND

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


PATH = "/v1/messages"
# Source: https://platform.claude.com/docs/en/build-with-claude/task-budgets
TASK_BUDGETS = "task-budgets-2026-03-13"
CACHED: Block = {"type": "ephemeral"}
_ENCODED, _CONTENT = attrgetter("encoded"), attrgetter("content")
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
        return models.cost(usage, self.model, "anthropic")


def make_client(**options: Any) -> "AsyncAnthropic":  # noqa: ANN401 - the SDK's own options
    """Return an SDK client with limits on timeouts and the size of replies.

    options: options of `AsyncAnthropic`; missing ones come from the environment. `max_retries=0` disables retries, and
        any other number has no effect: the patience of a run limits them.
    """
    with transport.paused("anthropic"):
        import anthropic  # noqa: PLC0415 - the import takes a second

    return anthropic.AsyncAnthropic(**{**connection(anthropic), **options})


class AnthropicConversation:
    """The conversation of one run; all its requests start with the same bytes."""

    def __init__(self, provider: AnthropicProvider, opening: Opening, watch: Watch | None) -> None:
        self._provider = provider
        self._names = opening.tools.names
        self._watch = watch
        self._streaming: Block = {} if watch is None else {"stream": True}
        self._sent = EncodedMessages()
        self._gate = GATES.of(provider.client)
        self._url = url_of(provider.client, PATH)
        self._answered = 0
        self._opening = opening
        self._tools = EndpointTools(opening, provider.knowledge)
        self._unanswered = UnansweredToolUses()
        # Without any tools there is only one request, so no later one would read from the cache.
        self._has_tools = bool(self._tools.definitions)
        self._config: dict[str, Any] = {"effort": opening.effort} if opening.effort else {}
        self._client = provider.client
        if opening.task_budget:
            self._config["task_budget"] = {"type": "tokens", "total": opening.task_budget}
            # Beta features that the client has already stay.
            betas = filter(None, (provider.client.default_headers.get("anthropic-beta"), TASK_BUDGETS))
            self._client = provider.client.with_options(default_headers={"anthropic-beta": ",".join(map(str, betas))})
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
        messages = self._unanswered.removed(request.messages, may_run=request.choice is Choice.AUTO)
        if messages is not request.messages:
            request = replace(request, messages=messages)
        client, retries = self._provider.client, request.retries
        begin = partial(StreamedMessage, self._watch) if self._watch else None
        try:
            async with GatedRequest(self._gate, self._provider, MESSAGES, request) as gated:
                block = None
                while block is None:
                    try:
                        block = await send(
                            self._client, self._url, self._body(request), MESSAGES, gated.accepted, retries, begin
                        )
                    except Exception as error:
                        if not self._has_adapted(error, request):
                            raise
            reply = read_reply(block, self._sent.ids)
        except ProviderError as error:
            raise final(error, client) from None
        # Many network failures are not SDK errors: an invalid body, an incomplete stream, a connection reset.
        except Exception as error:
            raise self._failure(error, request) from error
        self._answered = len(request.messages)
        warning, self._tools.warning = self._tools.warning, ""
        return self._provider.knowledge.taken(request, reply.with_warning(warning), self._names)

    def _failure(self, error: Exception, request: Request) -> ProviderError:
        failed, knowledge = failure(error, MESSAGES, self._provider.client), self._provider.knowledge
        if not _is_refusal(error):
            return failed
        line, refusal = str(failed), str(error)
        if any(text in refusal for text in TOO_LONG):
            return ContextExceeded(line)
        if request.choice in {Choice.RESPOND, Choice.NONE} and self._has_tools and "tool_choice" in refusal:
            return knowledge.refused(request.choice, line)
        if request.schema is not None and _ABOUT_SCHEMA.search(refusal):
            return knowledge.refused(Choice.SCHEMA, line)
        return failed

    def _body(self, request: Request) -> bytes:
        messages = request.messages
        varying: dict[str, Any] = {"max_tokens": request.max_tokens}
        config = dict(self._config)
        if request.schema:
            config["format"] = {"type": "json_schema", "schema": request.schema}
        if config:
            varying["output_config"] = config
        self._sent.take(messages, _ENCODED)
        encoded = [*self._sent.pieces]
        match request.choice:
            case Choice.AUTO:
                # No later request would read the cache written by one that orders the model to end.
                is_last = request.landing_instruction is not None
                if not is_last:
                    varying |= self._marker
                # The last message of the previous request was written to the cache; the newest one is new.
                places = (place for place in reversed(range(len(messages))) if messages[place].role == "user")
                place = next(islice(places, 1, None), -1)
                new_blocks = sum(map(len, map(_CONTENT, messages[place + 1 :])))
                if place >= 0 and (is_last or new_blocks > LOOKBACK_BLOCKS):
                    *blocks, last = messages[place].content
                    content = [*blocks, {**last, "cache_control": CACHED}]
                    encoded[place] = encode({"role": "user", "content": content})
            # A changed tool choice invalidates the cache of the messages.
            case Choice.RESPOND:
                varying["tool_choice"] = {"type": "tool", "name": RESPOND}
            case Choice.NONE | Choice.SCHEMA if self._has_tools:
                if request.choice is Choice.NONE or self._provider.capabilities.none_choice:
                    varying["tool_choice"] = {"type": "none"}
        varying |= self._streaming
        # A single join, so that the transcript is copied only once.
        encoded[0] = b"".join((self._front, b",", encode(varying)[1:-1], b',"messages":[', encoded[0]))
        encoded[-1] += b"]}"
        return b",".join(encoded)

    def _has_adapted(self, error: Exception, request: Request) -> bool:
        """Return whether the request is now sent without what the endpoint has just refused."""
        if not _is_refusal(error):
            return False
        if not self._answered and self._tools.were_refused(str(error)):
            self._front, self._has_tools = self._encoded_front(), bool(self._tools.definitions)
            return True
        if "task_budget" in self._config and re.search("task.budget", str(error)):
            del self._config["task_budget"]
            self._client = self._provider.client
            self._tools.warning = f"the endpoint takes no task_budget: {error}; the run continues without it"
            return True
        # A schema does without the tool choice beside it.
        if request.choice is Choice.SCHEMA and "tool_choice" in str(error) and self._provider.capabilities.none_choice:
            self._provider.knowledge.refused(Choice.NONE, str(error))
            return True
        return False


def _is_refusal(error: Exception) -> bool:
    """Return whether the endpoint refused the request as invalid."""
    from anthropic import BadRequestError, UnprocessableEntityError  # noqa: PLC0415 - see make_client

    return isinstance(error, BadRequestError | UnprocessableEntityError)


TOO_LONG = ("prompt is too long", "exceed context limit")
"""Error texts for a request that exceeds the model's context window."""
_ABOUT_SCHEMA = re.compile(
    r"output_config(?!\.effort)|output_format|json_schema|schema|grammar|structured output", re.IGNORECASE
)


STOPS = {
    "end_turn": Stop.ANSWERED,
    "stop_sequence": Stop.ANSWERED,
    "tool_use": Stop.WANTS_TOOLS,
    "pause_turn": Stop.PAUSED,
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
    transport.COMPLETE: Stop.ANSWERED,
    transport.CUT: Stop.TRUNCATED,
}
"""Documented stop reasons, and those of `transport`; for unknown ones, the content decides."""
_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def read_reply(message: Block, taken: Collection[str]) -> Reply:
    """Convert a message object to a reply.

    taken: ids of all tool calls in the transcript; a call without an id or with one of these gets a new id.
    Raises ProviderError if the object is not a message.
    """
    if message.get("type") == "error":
        line = f"the server answered with an error: {message.get('error')}; try again later"
        raise ProviderError(line, kind=kind_of(None, message))
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(map(_is_block, content)):
        raise ProviderError(f"the server's answer has no content blocks; {MESSAGES.wrong_server}")
    blocks: list[Block] = []
    known, wants_tools = set(taken), False
    for block in content:
        if block["type"] == "tool_use":
            wants_tools = True
            call_id = unique_id(block.get("id"), known, "toolu_")
            known.add(call_id)
            blocks.append({**block, "id": call_id})
        else:
            blocks.append(block)
    reason = str(message.get("stop_reason") or "")
    stop = STOPS.get(reason)
    detail = transport.warning(reason) if stop else f"the model stopped for an unknown reason: {reason or 'none given'}"
    if not reason or stop in {Stop.ANSWERED, Stop.WANTS_TOOLS} or (stop is Stop.PAUSED and wants_tools):
        # The content is more reliable than the stop reason.
        stop = Stop.WANTS_TOOLS if wants_tools else Stop.ANSWERED
    if stop is Stop.REFUSED:
        details = message.get("stop_details")
        category = details.get("category") if isinstance(details, Mapping) else None
        reason = str(category or reason)
    usage = _object(message.get("usage"))
    counts = {key: count(usage, key) for key in _TOKENS}
    searches = usage.get("server_tool_use")
    return Reply(
        # With an unknown stop reason, only the text of the reply is used.
        stop=stop or Stop.ANSWERED,
        content=tuple(blocks),
        usage=Usage(**counts, web_search_requests=count(searches, "web_search_requests") if searches else 0),
        reason=reason,
        detail=detail,
        is_stop_known=stop is not None,
        more_room_helps=reason != "model_context_window_exceeded",
        model=str(message.get("model") or ""),
    )


def _is_block(value: object) -> bool:
    """Return whether a value is a valid block; the API would refuse all later requests that contain any other."""
    match value:
        case {"type": "text", **rest}:
            return isinstance(rest.get("text"), str)
        case {"type": "tool_use", **rest}:
            return isinstance(rest.get("name"), str)
        case {"type": str(kind)}:
            return bool(kind)
        case _:
            return False


_ARGUMENTS = "partial_json"
# Types of delta that append to a string of a block, with the key of the string; arguments are parsed at the end.
_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": _ARGUMENTS,
}


class StreamedMessage:
    """Assembles a message from the events of a stream, and passes its pieces to a watcher."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._grown: dict[tuple[int, str], list[str]] = {}
        self._complete = False
        self.white_space = WhiteSpace()

    def add(self, event: object) -> None:
        """Process the next event; unknown types are ignored."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._message = message
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index] = dict(block)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)} if index in self._blocks:
                self._add_delta(index, delta)
            case {"type": "message_delta", "delta": dict(delta), **rest}:
                usage = {key: value for key, value in _object(rest.get("usage")).items() if value is not None}
                self._message |= {**delta, "usage": _object(self._message.get("usage")) | usage}
            case {"type": "message_stop"}:
                self._complete = True

    def _add_delta(self, index: int, delta: dict[str, Any]) -> None:
        block, kind = self._blocks[index], delta.get("type")
        if kind == "citations_delta":
            # A block may begin with null in place of a list.
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        elif kind in _GROWING:
            key = _GROWING[kind]
            piece = str(delta.get(key, ""))
            # Joined at the end: appending each piece to a long string would copy it every time.
            self._grown.setdefault((index, key), []).append(piece)
            if key in {"text", _ARGUMENTS}:
                self.white_space.add(piece)
                self._watch(Delta(piece, tool=str(block.get("name", "")) if key == _ARGUMENTS else None))

    def result(self) -> Block:
        """Return the message object.

        Raises ProviderError if the stream ended early.
        """
        if self.white_space.is_endless:
            pieces_so_far = (pieces for (_, key), pieces in self._grown.items() if key in {"text", _ARGUMENTS})
            self._message["stop_reason"] = transport.stop_reason(map("".join, pieces_so_far))
        elif not self._complete:
            raise Unavailable("the server's stream was closed in the middle of a reply", "try again", may_have_run=True)
        cut = STOPS.get(str(self._message.get("stop_reason"))) is Stop.TRUNCATED
        for (index, key), pieces in self._grown.items():
            block, text = self._blocks[index], "".join(pieces)
            if key != _ARGUMENTS:
                block[key] = str(block.get(key) or "") + text
            elif text:
                block["input"] = read_arguments(text, cut=cut)
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


NOT_RUN = "the endpoint does not run {} itself: {}; the run continues without {}"
# Error texts of endpoints without such tools; most mistake them for tools without a schema.
_ABOUT_TOOLS = re.compile(r"web_search|web_fetch|server[ _]tool|input_schema|\btools\b", re.IGNORECASE)


class EndpointTools:
    """The tools of a conversation, adapted to its endpoint."""

    def __init__(self, opening: Opening, knowledge: Knowledge) -> None:
        self._opening = opening
        self._knowledge = knowledge
        self._on_server = opening.tools.on_server if knowledge.capabilities.server_tools else ()
        self.warning = ""
        """The warning for the user if the endpoint refused them; empty if it did not."""

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """The definitions of the tools; tools that the endpoint lacks are replaced by those of this program."""
        tools = self._opening.tools
        offered = (tool.instead if tool.on_server and tool not in self._on_server else tool for tool in tools)
        return [tool.definition for tool in offered if tool]

    def were_refused(self, refusal: str) -> bool:
        """Return whether the endpoint refused its own tools; they are then no longer offered."""
        if not self._on_server or "tool_choice" in refusal or not _ABOUT_TOOLS.search(refusal):
            return False
        names = " and ".join(tool.name for tool in self._on_server)
        instead = [tool.instead.name for tool in self._on_server if tool.instead]
        self.warning = NOT_RUN.format(names, refusal, "it" if len(self._on_server) == 1 else "them")
        if instead:
            self.warning += f", but with {' and '.join(instead)} of this program"
        self._on_server = ()
        self._knowledge.capabilities = replace(self._knowledge.capabilities, server_tools=False)
        return True


class UnansweredToolUses:
    """Removes tool uses that the API will never answer, because it refuses a transcript that contains one.

    The API runs a use without a result at the beginning of the next request, if that adds only tool results.
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, Message]] = {}
        # Messages at the beginning of the transcript that contain no use.
        self._without_uses: Sequence[Message] = ()

    def removed(self, messages: Sequence[Message], *, may_run: bool) -> Sequence[Message]:
        """Return a transcript without such uses; the same object if there are none.

        may_run: whether the next request may run tools at all.
        """
        known = len(self._without_uses)
        if known > len(messages) or not all(map(is_, self._without_uses, messages)):
            known = 0
        if not any(block["type"] == USE for message in messages[known:] for block in message.blocks):
            self._without_uses = messages
            return messages
        answered = {str(block.get("tool_use_id")) for one in messages for block in one.blocks if is_result(block)}
        # The next request answers the uses of the last reply, if only results follow it.
        last = max(place for place, message in enumerate(messages) if message.role == "assistant")
        runs_last = may_run and all(
            block["type"] == "tool_result" for one in messages[last + 1 :] for block in one.content
        )
        kept = [
            message if runs_last and place == last else self._without(message, answered)
            for place, message in enumerate(messages)
        ]
        return messages if all(map(is_, kept, messages)) else kept

    def _without(self, message: Message, answered: set[str]) -> Message:
        """Return a message without its unanswered uses; the same object each time, so that it is encoded once."""
        blocks = tuple(block for block in message.blocks if block["type"] != USE or str(block.get("id")) in answered)
        if len(blocks) == len(message.blocks):
            return message
        if id(message) not in self._made:
            left: tuple[Block, ...] = blocks or ({"type": "text", "text": prompts.LEFT_OUT},)
            self._made[id(message)] = message, replace(message, blocks=left)
        return self._made[id(message)][1]
