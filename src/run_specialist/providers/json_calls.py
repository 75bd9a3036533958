"""Tool calls as constrained JSON, for models that are bad at native tool calls.

Wraps the conversation of any provider. The tools are described in the system prompt, and each request carries the
schema of one call, so the reply must be a call. Calls and results are plain messages. For the loop, the replies look
the same as with native calls.
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from run_specialist import prompts
from run_specialist.errors import ProviderError, SchemaRefused
from run_specialist.providers.base import Choice, Conversation, Delta, Opening, Provider, Request, Watch
from run_specialist.providers.transport import read_arguments
from run_specialist.record.messages import Block, Message, Reply, Stop, text_of
from run_specialist.specialist.answer_schema import restored, strict
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.base import Tool, Toolset

# The JSON form of a tool call, whose schema is that of a reply that is one call, e.g.
# `{"call": {"tool": "search", "arguments": {"query": "cache", "limit": null}}}`.

FORMAT = "call"
"""Name of the format in requests."""
_FIRST_QUOTE = {
    "source": {"type": "string", "description": "The `path:line` of the line of a result that the answer rests on."},
    "quote": {"type": "string", "description": "That line, word for word."},
}
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)


def call_schema(tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the schema of a reply that calls one of some tools, adapted for constrained decoding."""
    calls = []
    for tool in tools:
        arguments = _undescribed(written_arguments(tool))
        calls.append(_closed({"tool": {"type": "string", "enum": [tool.name]}, "arguments": arguments}))
    return _closed({"call": {"anyOf": calls}})


def written_arguments(tool: Tool) -> dict[str, Any]:
    """Return the strict schema of the arguments as the model writes them: an object, or JSON in a string."""
    return strict(_as_written(tool))


def _as_written(tool: Tool) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments; `respond` begins with one required quote.

    Small models leave a list of quotes empty, and write a better answer after the sentence that supports it.
    """
    schema = tool.input_schema
    if not schema.get("properties") and schema.get("additionalProperties") is None:
        # A tool without parameters, whose schema does not say that there are no others either.
        return {**schema, "additionalProperties": False}
    if tool.name != RESPOND or "evidence" not in schema.get("properties", {}):
        return schema
    properties = {**_FIRST_QUOTE, **schema["properties"]}
    return {**schema, "properties": properties, "required": [*_FIRST_QUOTE, *schema.get("required", ())]}


def _as_meant(tool: Tool, given: object) -> Mapping[str, Any] | None:
    """Return the arguments of a call in the form that its tool expects; None if they are not an object."""
    arguments = restored(given, _as_written(tool))
    if not isinstance(arguments, dict) or tool.name != RESPOND:
        return arguments if isinstance(arguments, dict) else None
    others = {key: value for key, value in arguments.items() if key not in _FIRST_QUOTE}
    first = {key: arguments[key] for key in _FIRST_QUOTE if arguments.get(key)}
    if not first:
        return others
    more = others.get("evidence") or []
    return {**others, "evidence": [first, *(more if isinstance(more, list) else [more])]}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _undescribed(schema: Any) -> Any:  # noqa: ANN401 - a schema, or a part of one
    """Return a strict schema without descriptions, because the system prompt contains them."""
    if isinstance(schema, Mapping):
        # The description of a parameter with that name is an object.
        parts = ((key, part) for key, part in schema.items() if key != "description" or not isinstance(part, str))
        return {key: _undescribed(part) for key, part in parts}
    return [*map(_undescribed, schema)] if isinstance(schema, list) else schema


def written(tool: str, arguments: object) -> str:
    """Return a call as the text of an assistant message."""
    return json.dumps({"call": {"tool": tool, "arguments": arguments}}, ensure_ascii=False)


def read_call(text: str, tools: Toolset, *, cut: bool = False) -> tuple[str, Mapping[str, Any] | None] | None:
    """Return tool and arguments of the call that a text consists of; None for any other text.

    The arguments are None if they are not an object.
    cut: the text may be incomplete; the received part is returned, because a cut call is never run.
    """
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    match read_arguments(fenced[1] if fenced else stripped, cut=cut):
        case {"call": {"tool": str(name), **rest}} if name:
            arguments, tool = rest.get("arguments"), tools.get(name)
            return name, _as_meant(tool, arguments) if tool else arguments if isinstance(arguments, dict) else None
        case _:
            return None


UNCONSTRAINED = "the endpoint does not constrain replies to a JSON Schema, which tool_calls: json needs; use native"
IGNORED = "the endpoint ignored the JSON Schema of its reply, which tool_calls: json needs; native may work better"


def open_conversation(
    provider: Provider, opening: Opening, watch: Watch | None = None, *, call_first: bool = False
) -> Conversation:
    """Start the conversation of a run with the kind of tool calls that its opening names.

    call_first: whether the first reply in JSON must call a tool other than `respond`, if there is one.
    """
    known = provider.capabilities
    if opening.tool_calls == "native" or not known.is_language_model or known.reads_json_calls:
        return provider.open(opening, watch)
    return JsonCalls(provider, opening, watch, call_first=call_first)


class JsonCalls:
    """The conversation of one run whose calls are JSON."""

    def __init__(self, provider: Provider, opening: Opening, watch: Watch | None, *, call_first: bool) -> None:
        self._provider = provider
        self._tools = opening.tools
        self._call_first = call_first
        self._watch = watch
        self._stream: CallStream | None = None
        system = prompts.with_tools(opening.system, tool_list(opening.tools.local))
        plain = replace(opening, system=system, tools=Toolset([]))
        self._conversation = provider.open(plain, None if watch is None else self._show)
        self._messages = PlainMessages()
        self._schemas: dict[bool | None, Mapping[str, Any]] = {}
        self._has_replied = self._was_ignored = False

    async def ask(self, request: Request) -> Reply:
        """Send the transcript and return the reply, as `Conversation.ask` describes."""
        if not (self._has_replied or self._provider.capabilities.schema):
            raise ProviderError(UNCONSTRAINED, kind="invalid_request")
        self._stream = CallStream(self._watch) if self._watch else None
        try:
            reply = await self._conversation.ask(self._plain(request))
        except SchemaRefused as error:
            if self._has_replied:
                raise
            raise error.as_final(f"{UNCONSTRAINED} ({error})") from error
        self._has_replied = True
        return self._read(reply, constrained=request.choice is not Choice.NONE)

    def _show(self, delta: Delta) -> None:
        if self._stream:
            self._stream.add(delta)

    def _plain(self, request: Request) -> Request:
        """Return the request without tools, calls and results."""
        messages = self._messages.take(request.messages)
        if request.choice is Choice.NONE:
            return replace(request, messages=messages, schema=None)
        ends = request.choice is not Choice.AUTO or request.landing_instruction is not None
        return replace(
            request,
            messages=messages,
            choice=Choice.SCHEMA if ends else Choice.AUTO,
            schema=self._schema(request, ends=ends),
            schema_name=FORMAT,
        )

    def _schema(self, request: Request, *, ends: bool) -> Mapping[str, Any]:
        """Return the schema of the next call: of `respond`, of another tool, or of any."""
        is_first = self._call_first and not request.has_read
        wanted = True if ends else False if is_first else None
        if wanted not in self._schemas:
            tools = [tool for tool in self._tools if wanted in {None, tool.name == RESPOND}]
            self._schemas[wanted] = call_schema(tools or self._tools)
        return self._schemas[wanted]

    def _read(self, reply: Reply, *, constrained: bool) -> Reply:
        """Return a reply whose text is a call as a reply with that call; any other reply unchanged."""
        if reply.calls:
            # No tools were sent, so the ids were not compared with those of earlier calls.
            return replace(reply, content=tuple(map(self._with_own_id, reply.content)))
        if reply.stop not in {Stop.ANSWERED, Stop.TRUNCATED}:
            return reply
        is_cut = reply.stop is Stop.TRUNCATED
        call = read_call(reply.text, self._tools, cut=is_cut)
        if call is None and is_cut and reply.text.startswith("{"):
            return replace(reply, content=_without_text(reply.content))
        if call is None:
            if not constrained or self._was_ignored or is_cut or not reply.text:
                return reply
            self._was_ignored = True
            return reply.with_warning(IGNORED)
        # Of a cut call only an answer is of any use; the rest would fill the transcript.
        tool, arguments = call
        sent = arguments if tool == RESPOND or not is_cut else {}
        block = self._with_own_id({"type": "tool_use", "name": tool, "input": sent})
        stop = Stop.TRUNCATED if is_cut else Stop.WANTS_TOOLS
        return replace(reply, stop=stop, content=(*_without_text(reply.content), block))

    def _with_own_id(self, block: Block) -> Block:
        """Return a call with an id that is unique in the run; any other block unchanged."""
        if block.get("type") != "tool_use":
            return block
        call_id = ""
        while not call_id or call_id in self._messages.ids:
            call_id = f"call_{secrets.token_hex(3)}"
        self._messages.add_id(call_id)
        return {**block, "id": call_id}


def _without_text(content: Iterable[Block]) -> tuple[Block, ...]:
    return tuple(block for block in content if block.get("type") != "text")


_HEAD = re.compile(r'\s*\{\s*"call"\s*:\s*\{\s*"tool"\s*:\s*"([^"\\]*)"\s*,\s*"arguments"\s*:\s*(?=\{)')
# Number of characters after which a text that has not become a call is shown as text.
_LONGEST_HEAD = 300
_DECODER = json.JSONDecoder()


class CallStream:
    """Converts the pieces of one reply."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._head = ""
        self._tool: str | None = None
        self._is_text = False
        self._arguments = ""

    def add(self, delta: Delta) -> None:
        """Pass on the next piece, without the JSON around the arguments of a call."""
        if delta.tool is not None or self._is_text:
            self._watch(delta)
        elif self._tool is not None:
            self._add_arguments(delta.text)
        else:
            self._head += delta.text
            if found := _HEAD.match(self._head):
                self._tool = found[1]
                self._add_arguments(self._head[found.end() :])
            elif self._head.strip() and (not self._head.lstrip().startswith("{") or len(self._head) > _LONGEST_HEAD):
                self._is_text = True
                self._watch(Delta(self._head))

    def _add_arguments(self, text: str) -> None:
        """Pass on the part of a text that belongs to the arguments object."""
        shown, end = len(self._arguments), None
        self._arguments += text
        if "}" in text:
            with suppress(ValueError, RecursionError):
                _, end = _DECODER.raw_decode(self._arguments)
        if piece := self._arguments[shown:end]:
            self._watch(Delta(piece, tool=self._tool))
        if end:
            # The rest closes the call.
            self._watch = lambda _: None


class PlainMessages:
    """A cache of converted messages: an already converted message stays the same object."""

    def __init__(self) -> None:
        # By the identity of the message, which is kept so that no other one gets it.
        self._plain: dict[int, tuple[Message, Message]] = {}
        self._names: dict[str, str] = {}

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all calls so far."""
        return frozenset(self._names)

    def add_id(self, call_id: str) -> None:
        """Record the id of a call whose reply may never become a message."""
        self._names.setdefault(call_id, "")

    def take(self, messages: Sequence[Message]) -> list[Message]:
        """Return a transcript as plain messages."""
        for message in messages:
            if id(message) not in self._plain:
                self._plain[id(message)] = message, self._converted(message)
        return [self._plain[id(message)][1] for message in messages]

    def _converted(self, message: Message) -> Message:
        if message.role == "assistant":
            return Message("assistant", tuple(map(self._said, message.blocks)))
        if not any(block["type"] == "tool_result" for block in message.blocks):
            return message
        return Message.user("\n\n".join(map(self._told, message.content)))

    def _said(self, block: Block) -> Block:
        if block["type"] != "tool_use":
            return block
        self._names[block["id"]] = block["name"]
        return {"type": "text", "text": written(block["name"], block["input"])}

    def _told(self, block: Block) -> str:
        if block["type"] != "tool_result":
            return text_of([block])
        return prompts.result_of(self._names.get(block["tool_use_id"], ""), text_of(block["content"]))


def tool_list(tools: Iterable[Tool]) -> str:
    """Return the tools as text, each with its description and its parameters; `respond` comes last."""
    in_order = sorted(tools, key=lambda tool: tool.name == RESPOND)
    return "\n".join(line for tool in in_order for line in _lines(tool))


def _lines(tool: Tool) -> Iterator[str]:
    yield f"- {tool.name}: {tool.description}"
    given, arguments = tool.input_schema.get("properties", {}), written_arguments(tool)
    if arguments.get("type") != "object":
        yield f"  arguments ({_kind(arguments)}): {_description(arguments)}"
    for name, part in arguments.get("properties", {}).items():
        told = [_description(part), *_left_out(given.get(name))]
        yield " ".join([f"  {name} ({_kind(part)})" + (":" if any(told) else ""), *filter(None, told)])


def _left_out(schema: object) -> Iterator[str]:
    """Yield constraints that the strict schema of a parameter lacks and small models violate."""
    if isinstance(schema, Mapping):
        if schema.get("default") is not None:
            yield f"null means {json.dumps(schema['default'], ensure_ascii=False)}."
        if isinstance(schema.get("maximum"), int | float):
            yield f"At most {schema['maximum']}."


def _description(schema: Mapping[str, Any]) -> str:
    """Return the description of a parameter, which is in a branch if the parameter is optional."""
    own = schema.get("description")
    return str(own) if own else next(filter(None, map(_description, schema.get("anyOf", ()))), "")


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in a short notation."""
    match schema:
        case {"enum": [*values]}:
            return " | ".join(json.dumps(value, ensure_ascii=False) for value in values)
        case {"anyOf": [*branches]}:
            return " | ".join(dict.fromkeys(map(_kind, branches)))
        case {"type": "array", "items": items}:
            return f"[{_kind(items)}, ...]"
        case {"type": "object", "properties": properties}:
            fields = ", ".join(f"{name}: {_kind(part)}" for name, part in properties.items())
            return f"{{{fields}}}"
        case {"type": str(kind)}:
            return kind
        case _:
            return "any"
