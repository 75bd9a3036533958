"""Convert blocks to messages of the chat completions API, and replies and streams back.

The key `chat` of a block contains data specific to this API, so that it is sent back unchanged:

    {"type": "tool_use", ..., "chat": {...}}        the tool call
    {"type": "chat_part", "chat": {...}}            a part of the content that is not text
    {"type": "chat_fields", "chat": {...}}          other fields of the message, such as its reasoning
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from run_specialist.errors import ProviderError, Unavailable
from run_specialist.providers import transport
from run_specialist.providers.base import Delta, Watch
from run_specialist.providers.errors import CHAT, Endpoint, kind_of, message_in, tidy
from run_specialist.providers.transport import WhiteSpace, count, read_arguments, unique_id
from run_specialist.record.messages import Block, Message, Reply, Stop, Usage, encode, text_of

PART = "chat_part"
FIELDS = "chat_fields"


def encoded(message: Message) -> bytes:
    """Return a message as comma-separated JSON objects; a user message with tool results becomes several."""
    chat_messages = _assistant(message) if message.role == "assistant" else _user(message)
    return b",".join(map(encode, chat_messages))


def _user(message: Message) -> Iterator[dict[str, Any]]:
    """Yield one message per tool result, then the text, ending with the landing instruction.

    The instruction is not a system message, because some servers refuse one in the middle of a conversation.
    """
    for block in message.blocks:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block["content"])}
    lines = [line for line in (text_of(message.blocks), message.landing_instruction) if line]
    if lines:
        yield {"role": "user", "content": "\n".join(lines)}


def _assistant(message: Message) -> Iterator[dict[str, Any]]:
    calls = [_call(block) for block in message.blocks if block["type"] == "tool_use"]
    fields = {key: value for block in message.blocks if block["type"] == FIELDS for key, value in block["chat"].items()}
    content = _content(message.blocks)
    written = {"role": "assistant", "content": content if content or calls else "", **fields}
    yield {**written, "tool_calls": calls} if calls else written


def _content(blocks: tuple[Block, ...]) -> str | list[Mapping[str, Any]] | None:
    if not any(block["type"] == PART for block in blocks):
        return text_of(blocks) or None
    return [
        block["chat"] if block["type"] == PART else {"type": "text", "text": block["text"]}
        for block in blocks
        if block["type"] in {PART, "text"}
    ]


def _call(block: Block) -> Mapping[str, Any]:
    if "chat" in block:
        call: Mapping[str, Any] = block["chat"]
        return call
    function = {"name": block["name"], "arguments": encode(block["input"]).decode()}
    return {"id": block["id"], "type": "function", "function": function}


STOPS = {
    "stop": Stop.ANSWERED,
    "eos_token": Stop.ANSWERED,
    "stop_sequence": Stop.ANSWERED,
    "tool_calls": Stop.WANTS_TOOLS,
    "function_call": Stop.WANTS_TOOLS,
    "length": Stop.TRUNCATED,
    "model_length": Stop.TRUNCATED,
    "content_filter": Stop.REFUSED,
    transport.COMPLETE: Stop.ANSWERED,
    transport.CUT: Stop.TRUNCATED,
}
"""Documented finish reasons, those of well-known servers and of `transport`; for others only the text is used."""

CONTEXT_FULL = "model_length"
"""Finish reason of a reply that was truncated because the context window is full."""

READ = {"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio"}
"""Fields of a message that are parsed here or invalid in a request; all others are sent back unchanged."""


def read_reply(completion: Block, taken: Collection[str], endpoint: Endpoint = CHAT) -> Reply:
    """Convert a completion to a reply.

    taken: ids of all tool calls in the transcript; a call without an id or with one of these gets a new id.
    Raises ProviderError if the object is not a completion.
    """
    if error := completion.get("error"):
        line = f"the server answered with an error: {message_in(error) or error}; try again later"
        raise ProviderError(tidy(line), kind=kind_of(None, completion))
    match completion.get("choices"):
        case [{"message": dict(message), **rest}, *_]:
            pass
        case _:
            raise ProviderError(f"the server's answer contains no choice with a message; {endpoint.wrong_server}")
    reason = str(rest.get("finish_reason") or "")
    stop = STOPS.get(reason)
    detail = transport.warning(reason) if stop else f"the model stopped for an unknown reason: {reason or 'none given'}"
    calls = tuple(_calls(message, taken, cut=stop is Stop.TRUNCATED))
    if not reason or stop in {Stop.ANSWERED, Stop.WANTS_TOOLS}:
        # The content is more reliable than the finish reason.
        stop = Stop.WANTS_TOOLS if calls else Stop.ANSWERED
    if isinstance(refusal := message.get("refusal"), str) and refusal.strip():
        stop, reason = Stop.REFUSED, tidy(refusal)
    return Reply(
        # With an unknown finish reason, only the text of the reply is used.
        stop=stop or Stop.ANSWERED,
        content=(*_fields(message), *_texts(message.get("content")), *calls),
        usage=_usage(completion.get("usage")),
        reason=reason,
        detail=detail,
        is_stop_known=stop is not None,
        more_room_helps=reason != CONTEXT_FULL,
        model=str(completion.get("model") or ""),
    )


def _fields(message: Block) -> Iterator[Block]:
    """Yield a block with the other fields of the message, mostly reasoning."""
    fields = {key: value for key, value in message.items() if key not in READ and value not in (None, "", [], {})}
    if fields:
        yield {"type": FIELDS, "chat": fields}


def _texts(content: object) -> Iterator[Block]:
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str(text) | {"type": "text", "text": str(text)} if text:
                yield {"type": "text", "text": text}
            case dict() if part.get("type") != "text":
                yield {"type": PART, "chat": part}


def _calls(message: Block, taken: Collection[str], *, cut: bool) -> Iterator[Block]:
    tool_calls = message.get("tool_calls")
    calls = tool_calls if isinstance(tool_calls, list) else []
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [{"function": message["function_call"]}]
    known = set(taken)
    for call in calls:
        match call:
            case {"function": dict(function)}:
                block = _read_call(call, function, known, cut=cut)
                known.add(block["id"])
                yield block


def _read_call(call: dict[str, Any], function: dict[str, Any], known: set[str], *, cut: bool) -> Block:
    call_id, name = unique_id(call.get("id"), known, "call_"), str(function.get("name") or "")
    sent = function.get("arguments")
    text = sent if isinstance(sent, str) else encode({} if sent is None else sent).decode()
    # Many servers send an empty string for a tool without parameters.
    arguments = read_arguments(text, cut=cut) if text.strip() else {}
    is_complete = isinstance(arguments, dict) and not cut
    sent_back = {
        **{key: value for key, value in call.items() if key != "index" and value is not None},
        "id": call_id,
        "type": "function",
        # Unchanged if it can be parsed, so that the server's prompt cache still matches.
        "function": {**function, "name": name, "arguments": text if is_complete and text.strip() else "{}"},
    }
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments, "chat": sent_back}


def _usage(usage: object) -> Usage:
    details = usage.get("prompt_tokens_details") if isinstance(usage, Mapping) else None
    cached = count(details, "cached_tokens")
    return Usage(
        input_tokens=max(count(usage, "prompt_tokens") - cached, 0),
        cache_read_input_tokens=cached,
        output_tokens=count(usage, "completion_tokens"),
    )


# Keys of a delta that are not simply appended to the previous value.
_APART = {"role", "content", "tool_calls", "function_call"}


class StreamedCompletion:
    """Assembles the object that the server would have sent without streaming."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._fields: dict[str, Any] = {}
        self._parts: list[Any] = []
        self._calls: list[dict[str, Any]] = []
        self._at: dict[object, dict[str, Any]] = {}
        self._finish: object = None
        self._usage: object = None
        self._model: object = None
        self._complete = False
        self.white_space = WhiteSpace()

    def add(self, chunk: object) -> None:
        """Process the next chunk; anything that is not a chunk of a completion is ignored."""
        if not isinstance(chunk, Mapping):
            return
        choices = chunk.get("choices")
        self._model = chunk.get("model") or self._model
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = chunk["usage"]
            # The last chunk contains only the usage.
            self._complete = self._complete or not choices
        match choices:
            case [{"index": int(index)}, *_] if index > 0:
                return
            case [dict(choice), *_]:
                self._take(choice)

    def _take(self, choice: Mapping[str, Any]) -> None:
        if isinstance(delta := choice.get("delta"), Mapping):
            for key, value in delta.items():
                if key not in _APART:
                    self._fields[key] = _joined(self._fields.get(key), value)
            self._add_content(delta.get("content"))
            for fragment in _fragments(delta):
                self._add_fragment(fragment)
        if choice.get("finish_reason"):
            self._finish, self._complete = choice["finish_reason"], True

    def _add_content(self, content: object) -> None:
        for part in content if isinstance(content, list) else [content]:
            match part:
                case str(text) | {"type": "text", "text": str(text)}:
                    if self._parts and isinstance(self._parts[-1], str):
                        self._parts[-1] += text
                    elif text:
                        self._parts.append(text)
                    if text:
                        self.white_space.add(text)
                        self._watch(Delta(text))
                case dict():
                    self._parts.append(part)

    def _add_fragment(self, fragment: Mapping[str, Any]) -> None:
        call = self._call_of(fragment)
        if not isinstance(sent := fragment.get("function"), Mapping):
            return
        function, values = call["function"], dict(sent)
        function["name"] = function.get("name") or values.pop("name", None)
        values.pop("name", None)
        arguments = values.pop("arguments", None)
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else encode(arguments).decode()
            function["arguments"] = str(function.get("arguments") or "") + text
            self.white_space.add(text)
            self._watch(Delta(text, tool=str(function["name"] or "")))
        for key, value in values.items():
            function[key] = _joined(function.get(key), value)

    def _call_of(self, fragment: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call of a fragment by its index, which some servers omit or never increment."""
        index, call_id = fragment.get("index"), fragment.get("id")
        call = self._at.get(index) if index is not None else self._calls[-1] if self._calls else None
        named = isinstance(function := fragment.get("function"), Mapping) and bool(function.get("name"))
        another = named and (call_id != call["id"] if call and call_id else index is None)
        if call is None or another:
            call = {"id": call_id, "function": {}}
            self._calls.append(call)
            self._at[index] = call
        for key, value in fragment.items():
            if key not in {"index", "id", "type", "function"}:
                call[key] = _joined(call.get(key), value)
        call["id"] = call["id"] or call_id
        return call

    def result(self) -> Block:
        """Return the completion.

        Raises ProviderError if the stream ended early.
        """
        if self.white_space.is_endless:
            # The text and call arguments received so far.
            texts = [part for part in self._parts if isinstance(part, str)]
            arguments = [str(call["function"].get("arguments") or "{}") for call in self._calls]
            self._finish = transport.stop_reason([*texts, *arguments])
        elif not self._complete:
            raise Unavailable("the server's stream was closed in the middle of a reply", "try again", may_have_run=True)
        message = {**self._fields, "content": self._parts}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"message": message, "finish_reason": self._finish}
        return {"choices": [choice], "usage": self._usage, "model": self._model}


def _fragments(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    calls, legacy = delta.get("tool_calls"), delta.get("function_call")
    for fragment in calls if isinstance(calls, list) else []:
        if isinstance(fragment, Mapping):
            yield fragment
    if isinstance(legacy, Mapping):
        yield {"index": "legacy", "function": legacy}


def _joined(before: Any, new: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value extended by a piece: strings and lists are concatenated, objects are merged key by key."""
    match before, new:
        case _, None:
            return before
        case (str(), str()) | (list(), list()):
            return before + new
        case dict(), dict():
            return {**before, **{key: _joined(before.get(key), value) for key, value in new.items()}}
        case _:
            return new
