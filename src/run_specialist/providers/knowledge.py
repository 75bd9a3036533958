"""What is known about one endpoint: its capabilities, corrected by its refusals and replies."""

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from run_specialist.errors import ChoiceRefused, ForcingRefused, SchemaRefused
from run_specialist.providers.base import Capabilities, Choice, Opening, Request
from run_specialist.providers.leaked_calls import leaked_calls
from run_specialist.providers.unread_answers import UnreadAnswers
from run_specialist.record.messages import Reply, Stop
from run_specialist.specialist.json_schema.strict_parts import matches
from run_specialist.tools.respond import NAME as RESPOND

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

FORCE_IGNORED = "the endpoint ignored that `respond` was forced; tool_calls: json may suit this model better"


@dataclass
class Knowledge:
    """Shared by all providers of one endpoint, which is a base URL and a model."""

    capabilities: Capabilities
    unknown: frozenset[str] = frozenset()
    """Request keys that the server has refused as unknown."""
    unread: UnreadAnswers = field(default_factory=UnreadAnswers)
    """Counts answers that were given without reading anything."""

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

    def learn_from(self, request: Request, reply: Reply) -> bool:
        """Record if a reply shows that replies are not constrained; return whether a forced choice was ignored."""
        if request.choice is not Choice.RESPOND and request.schema is None:
            return False
        if reply.stop not in {Stop.ANSWERED, Stop.WANTS_TOOLS} or not (reply.text or reply.calls):
            return False
        # Calls in JSON do not depend on this knowledge: a reply that is not a call has its own warning.
        if request.schema is not None and request.schema_name == RESPOND and not _obeys(request, reply):
            self.capabilities = replace(self.capabilities, schema=False)
        if request.choice is not Choice.RESPOND:
            return False
        was_ignored = all(call.name != RESPOND for call in reply.calls or leaked_calls(reply, [RESPOND]))
        if was_ignored:
            self.capabilities = replace(self.capabilities, forced_choice=False)
        return was_ignored


def _obeys(request: Request, reply: Reply) -> bool:
    """Return whether a reply is JSON that matches the schema of the request."""
    if reply.calls:
        return False
    try:
        return matches(json.loads(reply.text), request.schema or {})
    except (ValueError, RecursionError):
        return False


class InformedProvider:
    """A provider with what is known about its endpoint."""

    model: str
    client: "AsyncAnthropic | AsyncOpenAI"

    def __init__(self, capabilities: Capabilities) -> None:
        self.knowledge = Knowledge(capabilities)
        """May be replaced by that of another provider of the same endpoint."""
        self.requests_at_once: int | None = None
        """Maximum of running requests at the endpoint while one of this provider waits or runs; None = any number."""

    @property
    def address(self) -> tuple[str, str]:
        """Base URL and model of the endpoint."""
        return str(self.client.base_url), self.model

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities known so far."""
        return self.knowledge.capabilities

    @capabilities.setter
    def capabilities(self, capabilities: Capabilities) -> None:
        self.knowledge.capabilities = capabilities


class Lessons:
    """Learns from the replies of one conversation."""

    def __init__(self, provider: InformedProvider, opening: Opening) -> None:
        self._provider = provider
        self._opening = opening
        self._has_warned = False

    def taken(self, request: Request, reply: Reply) -> Reply:
        """Learn from a reply; return it, with a warning if another setting of `tool_calls` may suit the model."""
        knowledge = self._provider.knowledge
        if knowledge.learn_from(request, reply) and not self._has_warned:
            self._has_warned = True
            reply = reply.with_warning(FORCE_IGNORED)
        return knowledge.unread.noted(reply, request, self._opening)
