"""Parse replies of the chat completions API as untrusted input."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.providers import white_space
from run_specialist.providers.endpoint import CHAT, Endpoint
from run_specialist.providers.error_bodies import kind_of, message_in
from run_specialist.providers.json_reader import count, read_arguments, unique_id
from run_specialist.providers.openai_messages import FIELDS, PART
from run_specialist.providers.sdk_errors import tidy
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Reply, Stop, Usage, encode

STOPS = {
    "stop": Stop.ANSWERED,
    "eos_token": Stop.ANSWERED,
    "stop_sequence": Stop.ANSWERED,
    "tool_calls": Stop.WANTS_TOOLS,
    "function_call": Stop.WANTS_TOOLS,
    "length": Stop.TRUNCATED,
    "model_length": Stop.TRUNCATED,
    "content_filter": Stop.REFUSED,
    white_space.COMPLETE: Stop.ANSWERED,
    white_space.CUT: Stop.TRUNCATED,
}
"""Documented finish reasons, those of well-known servers and of `white_space`; for others only the text is used."""

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
    detail = (
        white_space.warning(reason) if stop else f"the model stopped for an unknown reason: {reason or 'none given'}"
    )
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
                block = _call(call, function, known, cut=cut)
                known.add(block["id"])
                yield block


def _call(call: dict[str, Any], function: dict[str, Any], known: set[str], *, cut: bool) -> Block:
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
