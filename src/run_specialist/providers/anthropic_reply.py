"""Parse replies of the Messages API, streamed or not, as untrusted input."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from run_specialist.errors import ProviderError, Unavailable
from run_specialist.providers import white_space
from run_specialist.providers.base import Delta, Watch
from run_specialist.providers.endpoint import MESSAGES
from run_specialist.providers.error_bodies import kind_of
from run_specialist.providers.json_reader import count, read_arguments, unique_id
from run_specialist.providers.white_space import WhiteSpace
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Reply, Stop, Usage

STOPS = {
    "end_turn": Stop.ANSWERED,
    "stop_sequence": Stop.ANSWERED,
    "tool_use": Stop.WANTS_TOOLS,
    "pause_turn": Stop.PAUSED,
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
    white_space.COMPLETE: Stop.ANSWERED,
    white_space.CUT: Stop.TRUNCATED,
}
"""Documented stop reasons, and those of `white_space`; for unknown ones, the content decides."""


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
    if not isinstance(content, list) or not all(_is_block(block) for block in content):
        raise ProviderError(f"the server's answer has no content blocks; {MESSAGES.wrong_server}")
    reason = str(message.get("stop_reason") or "")
    wants_tools = any(block.get("type") == "tool_use" for block in content)
    stop = STOPS.get(reason)
    detail = (
        white_space.warning(reason) if stop else f"the model stopped for an unknown reason: {reason or 'none given'}"
    )
    if not reason or stop in {Stop.ANSWERED, Stop.WANTS_TOOLS} or (stop is Stop.PAUSED and wants_tools):
        # The content is more reliable than the stop reason.
        stop = Stop.WANTS_TOOLS if wants_tools else Stop.ANSWERED
    if stop is Stop.REFUSED:
        reason = _category(message) or reason
    return Reply(
        # With an unknown stop reason, only the text of the reply is used.
        stop=stop or Stop.ANSWERED,
        content=tuple(_with_unique_ids(content, taken)),
        usage=_usage(message.get("usage")),
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


def _with_unique_ids(content: Iterable[Block], taken: Collection[str]) -> Iterator[Block]:
    """Yield the blocks unchanged, except that a call without a unique id gets a new id."""
    known = set(taken)
    for block in content:
        if block.get("type") != "tool_use":
            yield block
            continue
        call_id = unique_id(block.get("id"), known, "toolu_")
        known.add(call_id)
        yield block if block.get("id") == call_id else {**block, "id": call_id}


def _category(message: Block) -> str:
    details = message.get("stop_details")
    return str(details.get("category") or "") if isinstance(details, Mapping) else ""


def _usage(usage: object) -> Usage:
    return Usage(
        input_tokens=count(usage, "input_tokens"),
        cache_read_input_tokens=count(usage, "cache_read_input_tokens"),
        cache_creation_input_tokens=count(usage, "cache_creation_input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        web_search_requests=count(_object(usage).get("server_tool_use"), "web_search_requests"),
    )


GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Types of delta that append to a string of a block, with the key of the string."""


class StreamedMessage:
    """Assembles a message from the events of a stream, and passes its pieces to a watcher."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._grown: dict[tuple[int, str], list[str]] = {}
        self._complete = False
        self._white_space = WhiteSpace()

    @property
    def is_endless(self) -> bool:
        """True once only white space keeps arriving."""
        return self._white_space.is_endless

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
        if kind == "input_json_delta":
            fragment = str(delta.get("partial_json", ""))
            self._arguments.setdefault(index, []).append(fragment)
            self._white_space.add(fragment)
            self._watch(Delta(fragment, tool=str(block.get("name", ""))))
        elif kind == "citations_delta":
            # A block may begin with null in place of a list.
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        elif kind in GROWING:
            key = GROWING[kind]
            # Joined at the end: appending each piece to a long string would copy it every time.
            self._grown.setdefault((index, key), []).append(str(delta.get(key, "")))
            if kind == "text_delta":
                self._white_space.add(str(delta.get("text", "")))
                self._watch(Delta(str(delta.get("text", ""))))

    def result(self) -> Block:
        """Return the message object.

        Raises ProviderError if the stream ended early.
        """
        if self.is_endless:
            self._message["stop_reason"] = white_space.stop_reason(self._written())
        elif not self._complete:
            raise Unavailable("the server's stream was closed in the middle of a reply", "try again", may_have_run=True)
        cut = STOPS.get(str(self._message.get("stop_reason"))) is Stop.TRUNCATED
        for (index, key), pieces in self._grown.items():
            self._blocks[index][key] = "".join([str(self._blocks[index].get(key) or ""), *pieces])
        for index, fragments in self._arguments.items():
            if text := "".join(fragments):
                self._blocks[index]["input"] = read_arguments(text, cut=cut)
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}

    def _written(self) -> Iterator[str]:
        """Yield the texts and call arguments received so far."""
        yield from ("".join(pieces) for (_, key), pieces in self._grown.items() if key == "text")
        yield from map("".join, self._arguments.values())


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
