"""Read what the chat completions API answers, and trust none of it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.providers.endpoint import CHAT
from run_specialist.providers.json_reader import count, read_arguments, sound_id
from run_specialist.providers.openai_messages import FIELDS, PART
from run_specialist.providers.sdk_errors import said, tidy
from run_specialist.record.messages import Block, Reply, Stop, Usage, encode

STOPS = {
    "stop": Stop.ANSWERED,
    "eos_token": Stop.ANSWERED,
    "stop_sequence": Stop.ANSWERED,
    "tool_calls": Stop.WANTS_TOOLS,
    "function_call": Stop.WANTS_TOOLS,
    "length": Stop.TRUNCATED,
    "model_length": Stop.TRUNCATED,
    "content_filter": Stop.REFUSED,
}
"""Every documented reason to finish, and those of well-known servers; of an unknown one only the text is taken."""

CONTEXT_FULL = "model_length"
"""A reply that was cut because the whole context is full."""

READ = {"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio"}
"""Fields of a message that have a meaning here, or none in a request; all others go back as they came."""


def read_reply(completion: Block, taken: Collection[str]) -> Reply:
    """Turn a completion into a reply.

    taken: the ids of all calls in the transcript; a call that comes without an id or repeats one gets a new one.
    Raises ProviderError for an object that is no completion.
    """
    if error := completion.get("error"):
        raise ProviderError(tidy(f"the server answered with an error: {said(error) or error}; try again later"))
    match completion.get("choices"):
        case [{"message": dict(message), **rest}, *_]:
            pass
        case _:
            raise ProviderError(f"the server's answer holds no choice with a message; {CHAT.wrong_server}")
    reason = str(rest.get("finish_reason") or "")
    stop = STOPS.get(reason)
    detail = "" if stop else f"the model stopped for an unknown reason: {reason or 'none given'}"
    calls = tuple(_calls(message, taken, cut=stop is Stop.TRUNCATED))
    if not reason or stop in {Stop.ANSWERED, Stop.WANTS_TOOLS}:
        # What the reply holds is more certain than what it says of itself.
        stop = Stop.WANTS_TOOLS if calls else Stop.ANSWERED
    if isinstance(refusal := message.get("refusal"), str) and refusal.strip():
        stop, reason = Stop.REFUSED, tidy(refusal)
    return Reply(
        # Of a reply that ended for a reason that nobody knows only the text is taken.
        stop=stop or Stop.ANSWERED,
        content=(*_fields(message), *_texts(message.get("content")), *calls),
        usage=_usage(completion.get("usage")),
        reason=reason,
        detail=detail,
        more_room_helps=reason != CONTEXT_FULL,
        model=str(completion.get("model") or ""),
    )


def _fields(message: Block) -> Iterator[Block]:
    """Yield what else stands in the message as a block that is no text; reasoning is the chief of it."""
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
    wanted = message.get("tool_calls")
    calls = wanted if isinstance(wanted, list) else []
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
    call_id, name = sound_id(call.get("id"), known, "call_"), str(function.get("name") or "")
    given = function.get("arguments")
    text = given if isinstance(given, str) else encode({} if given is None else given).decode()
    # Many servers send nothing at all for a tool that takes nothing.
    arguments = read_arguments(text, cut=cut) if text.strip() else {}
    whole = isinstance(arguments, dict) and not cut
    sent_back = {
        **{key: value for key, value in call.items() if key != "index" and value is not None},
        "id": call_id,
        "type": "function",
        # As it came where that can be read again: a server that keeps prompts in a cache finds its own words.
        "function": {**function, "name": name, "arguments": text if whole and text.strip() else "{}"},
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
