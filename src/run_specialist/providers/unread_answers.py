"""Detect an endpoint whose models answer without reading anything, although they were offered tools."""

from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.leaked_calls import leaked_calls
from run_specialist.record.messages import Reply, Stop, has_calls
from run_specialist.tools.respond import NAME as RESPOND

MOST_UNREAD = 2
"""Number of answers without a call that cause the warning, once per endpoint."""
UNREAD = "the model answered without a single tool call for the second time; tool_calls: json may suit it better"


class UnreadAnswers:
    """Counts the answers of one endpoint without a call, over all conversations."""

    def __init__(self) -> None:
        self._answers = 0

    def noted(self, reply: Reply, request: Request, opening: Opening) -> Reply:
        """Count a reply that answers without reading; return it, with a warning when the limit is reached."""
        if not (_is_answer(reply, opening) and _may_read(request, opening)):
            return reply
        self._answers += 1
        if self._answers != MOST_UNREAD:
            return reply
        return reply.with_warning(UNREAD)


def _may_read(request: Request, opening: Opening) -> bool:
    """Return whether a request offers tools to a model that has not called any yet."""
    offers_tools = any(name != RESPOND for name in opening.tools.names)
    is_free = request.choice is Choice.AUTO and request.landing_instruction is None
    return offers_tools and is_free and not has_calls(request.messages)


def _is_answer(reply: Reply, opening: Opening) -> bool:
    if reply.stop not in {Stop.ANSWERED, Stop.WANTS_TOOLS} or not (reply.calls or reply.text):
        return False
    calls = reply.calls or leaked_calls(reply, opening.tools.names)
    return all(call.name == RESPOND for call in calls)
