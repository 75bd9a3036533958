"""Learn what a model and its endpoint can do; find tool calls that a model wrote as text."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from run_specialist.errors import ChoiceRefused, ForcingRefused, SchemaRefused
from run_specialist.providers.base import Capabilities, Choice, Request
from run_specialist.record.messages import Block, Reply, Stop, spoken, text_of
from run_specialist.specialist.answer_schema import matches
from run_specialist.specialist.tool_names import RESPOND

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


# Find tool calls that a model wrote as text, and turn its reply into one that makes these calls.
#
# Servers without a matching chat template return such calls as the text of a finished reply, which would end the run.
# Only a text that consists of nothing else counts:
#
#     {"name": "search", "arguments": {"query": "x"}}     one or more objects; also `parameters` or `input`
#     ```json ... ```                                     the same in one code fence
#     <tool_call>{...}</tool_call>                        the same, each object in its own tags
#     {"answer": "...", "evidence": [...]}                the input of `respond`, in any of these forms

CALLS_AS_TEXT = (
    "the endpoint sends tool calls as text; they were read as calls, but `tool_calls: json` is more reliable here"
)
MOST_NESTED = 50
"""Maximum nesting of a call; deeper values stay text, because they could not be encoded again everywhere."""

_ARGUMENTS = ({"name", "arguments"}, {"name", "parameters"}, {"name", "input"})
_ANSWER = {"answer", "evidence", "gaps"}
_FENCED = re.compile(r"```\w*[ \t]*\r?\n(.*)```", re.DOTALL)
_TAG_OPENS = re.compile(r"<tool_call>\s*")
_TAG_CLOSES = re.compile(r"\s*</tool_call>\s*")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class LeakedCall:
    """A tool call found in the text of a reply."""

    name: str
    arguments: Mapping[str, Any]
    is_named: bool = True
    """False for the bare input of `respond`, which a model may also write when text is requested."""


def leaked_calls(reply: Reply, tools: Collection[str], *, bare_answer: bool = True) -> list[LeakedCall]:
    """Return the calls that the text of a reply consists of; empty for any other text.

    tools: the names of all tools that the model may call.
    bare_answer: whether bare input of `respond` counts as a call; False if it is read in another way.
    """
    if reply.stop is not Stop.ANSWERED or not reply.is_stop_known or reply.calls:
        return []
    try:
        found = list(_objects(reply.text))
    except (ValueError, RecursionError):
        return []
    calls = [_call(value, tools) for value in found]
    is_answer = len(found) == 1 and "answer" in found[0] and found[0].keys() <= _ANSWER
    if is_answer and bare_answer and RESPOND in tools:
        calls = [LeakedCall(RESPOND, found[0], is_named=False)]
    named = [call for call in calls if call]
    return named if len(named) == len(calls) and not any(map(_is_too_deep, found)) else []


def with_calls(reply: Reply, calls: Collection[LeakedCall], ids: Collection[str]) -> Reply:
    """Return a reply with these calls instead of their text; thinking is kept, in blocks of any kind.

    ids: one for each call.
    """
    text = text_of(reply.content)
    thought = text[: len(text) - len(spoken(text))]
    blocks: list[Block] = [block for block in reply.content if block.get("type") != "text"]
    blocks += [{"type": "text", "text": thought}] if thought.strip() else []
    blocks += [
        {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments}
        for call, call_id in zip(calls, ids, strict=True)
    ]
    return replace(reply, stop=Stop.WANTS_TOOLS, content=tuple(blocks))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that a text consists of.

    Raises ValueError for other or incomplete text, RecursionError for too deep nesting.
    """
    opens, closes = (_TAG_OPENS, _TAG_CLOSES) if text.startswith("<") else (_SPACE, _SPACE)
    fenced, position = _FENCED.fullmatch(text), 0
    text = fenced[1] if fenced else text
    while position < len(text):
        begin = opens.match(text, position)
        if begin is None or text[begin.end() : begin.end() + 1] != "{":
            raise ValueError("no JSON object")
        value, position = _JSON.raw_decode(text, begin.end())
        finish = closes.match(text, position)
        if finish is None:
            raise ValueError("the tag is not closed")
        position = finish.end()
        yield value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("JSON has no such number")
    return value


# A decoder that rejects numbers that JSON cannot represent.
_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def _call(value: Mapping[str, Any], tools: Collection[str]) -> LeakedCall | None:
    name = value.get("name")
    if value.keys() not in _ARGUMENTS or not isinstance(name, str) or name not in tools:
        return None
    (arguments,) = (item for key, item in value.items() if key != "name")
    return LeakedCall(name, arguments) if isinstance(arguments, dict) else None


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MOST_NESTED):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


# Number of answers without a call that cause the warning, once per endpoint.
_MOST_UNREAD = 2
UNREAD = "the model answered without a single tool call for the second time; tool_calls: json may suit it better"


FORCE_IGNORED = "the endpoint ignored that `respond` was forced; tool_calls: json may suit this model better"


@dataclass
class Knowledge:
    """Shared by all providers of one endpoint, which is a base URL and a model."""

    capabilities: Capabilities
    unknown: frozenset[str] = frozenset()
    """Request keys that the server has refused as unknown."""
    unread: int = 0
    """Number of answers that were given without reading anything, over all conversations."""

    def refused(self, choice: Choice, line: str) -> ChoiceRefused:
        """Record that the endpoint refuses a choice; return the error for the request.

        line: the error in one line.
        """
        match choice:
            case Choice.RESPOND:
                self.capabilities = replace(self.capabilities, forced_choice=False)
                return ForcingRefused(line)
            case Choice.SCHEMA:
                self.capabilities = replace(self.capabilities, schema=False)
                return SchemaRefused(line)
            case _:
                self.capabilities = replace(self.capabilities, none_choice=False)
                return ChoiceRefused(line)

    def taken(self, request: Request, reply: Reply, tools: Collection[str]) -> Reply:
        """Learn from a reply; return it, with a warning if another setting of `tool_calls` may suit the model.

        tools: the names of all tools that the model may call.
        """
        warning = FORCE_IGNORED if self.learn_from(request, reply) else ""
        if self.has_answered_unread(request, reply, tools):
            warning = UNREAD
        if warning or (not reply.calls and any(call.is_named for call in leaked_calls(reply, tools))):
            self.capabilities = replace(self.capabilities, json_calls=True)
        return reply.with_warning(warning)

    def learn_from(self, request: Request, reply: Reply) -> bool:
        """Record if a reply shows that replies are not constrained; return whether a forced choice was ignored."""
        if request.choice is not Choice.RESPOND and request.schema is None:
            return False
        if reply.stop not in {Stop.ANSWERED, Stop.WANTS_TOOLS} or not (reply.text or reply.calls):
            return False
        if request.schema is not None and not _obeys(request, reply):
            # Calls in JSON that are chosen explicitly do not depend on this: such a reply has its own warning.
            is_answer, known = request.schema_name == RESPOND, self.capabilities
            self.capabilities = replace(known, schema=False) if is_answer else replace(known, json_calls=False)
        if request.choice is not Choice.RESPOND:
            return False
        was_ignored = all(call.name != RESPOND for call in reply.calls or leaked_calls(reply, [RESPOND]))
        if was_ignored:
            self.capabilities = replace(self.capabilities, forced_choice=False)
        return was_ignored

    def has_answered_unread(self, request: Request, reply: Reply, tools: Collection[str]) -> bool:
        """Count a reply that answers without having read anything; return whether it is the one to warn about."""
        if request.has_read or reply.stop not in {Stop.ANSWERED, Stop.WANTS_TOOLS} or not (reply.calls or reply.text):
            return False
        if any(call.name != RESPOND for call in reply.calls or leaked_calls(reply, tools)):
            return False
        # It is an answer; does its request offer tools to a model that has not called any yet?
        is_free = request.choice is Choice.AUTO and request.landing_instruction is None
        if not (is_free and any(name != RESPOND for name in tools)):
            return False
        self.unread += 1
        return self.unread == _MOST_UNREAD


def _obeys(request: Request, reply: Reply) -> bool:
    """Return whether a reply is JSON that matches the schema of the request."""
    with suppress(ValueError, RecursionError):
        return not reply.calls and matches(json.loads(reply.text), request.schema or {})
    return False


_VENDORS = frozenset({"api.anthropic.com", "api.openai.com"})


class InformedProvider:
    """A provider with what is known about its endpoint."""

    model: str
    client: "AsyncAnthropic | AsyncOpenAI"

    def __init__(self, capabilities: Capabilities) -> None:
        self.knowledge = Knowledge(capabilities)
        """May be replaced by that of another provider of the same endpoint."""
        self.requests_at_once: int | None = None
        """Maximum of running requests at the endpoint while one of this provider waits or runs; None = any number."""

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.close()

    @property
    def address(self) -> tuple[str, str]:
        """Base URL and model of the endpoint."""
        return str(self.client.base_url), self.model

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities known so far."""
        known = self.knowledge.capabilities
        # A vendor's models are good at native calls; an answer without a call may have needed none.
        if known.json_calls and urlsplit(str(self.client.base_url)).hostname in _VENDORS:
            return replace(known, json_calls=False)
        return known
