"""Tool calls as constrained JSON, for models that are bad at native tool calls.

Wraps the conversation of any provider. The tools are described in the system prompt, and each request carries the
schema of one call, so the reply must be a call. Calls and results are plain messages. For the loop, the replies look
the same as with native calls.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from run_specialist.errors import ProviderError, SchemaRefused
from run_specialist.providers import json_prompts
from run_specialist.providers.base import Choice, Conversation, Delta, Opening, Provider, Request, Watch
from run_specialist.providers.call_shape import FORMAT, WrittenCall, call_schema, read_call
from run_specialist.providers.call_stream import CallStream
from run_specialist.providers.plain_messages import PlainMessages
from run_specialist.providers.tool_list import tool_list
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Reply, Stop, has_calls
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import NAME as RESPOND

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
        system = json_prompts.with_tools(opening.system, tool_list(opening.tools.local))
        plain = replace(opening, system=system, tools=Toolset([]))
        self._conversation = provider.open(plain, None if watch is None else self._show)
        self._messages = PlainMessages()
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
        if ends:
            return self._only_respond
        if self._call_first and self._without_respond and not has_calls(request.messages):
            return self._without_respond
        return self._any_tool

    @cached_property
    def _any_tool(self) -> Mapping[str, Any]:
        return call_schema(self._tools)

    @cached_property
    def _only_respond(self) -> Mapping[str, Any]:
        return call_schema(tool for tool in self._tools if tool.name == RESPOND)

    @cached_property
    def _without_respond(self) -> Mapping[str, Any] | None:
        """Return the schema without `respond`; None if there is no other tool."""
        others: list[Tool] = [tool for tool in self._tools if tool.name != RESPOND]
        return call_schema(others) if others else None

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
            return self._text(reply, constrained=constrained)
        block = self._block(call, is_cut=is_cut)
        stop = Stop.TRUNCATED if is_cut else Stop.WANTS_TOOLS
        return replace(reply, stop=stop, content=(*_without_text(reply.content), block))

    def _text(self, reply: Reply, *, constrained: bool) -> Reply:
        """Return a reply without a call, with a warning if there should have been one."""
        if not constrained or self._was_ignored or reply.stop is not Stop.ANSWERED or not reply.text:
            return reply
        self._was_ignored = True
        return reply.with_warning(IGNORED)

    def _block(self, call: WrittenCall, *, is_cut: bool) -> Block:
        # Of a cut call only an answer is of any use; the rest would fill the transcript.
        arguments = call.arguments if call.tool == RESPOND or not is_cut else {}
        return self._with_own_id({"type": "tool_use", "name": call.tool, "input": arguments})

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
