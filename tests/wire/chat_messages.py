"""Parts of messages to and from chat completions servers."""

from tests.wire.chat.replies import tool_call

CALL = tool_call("look", {"query": "a"}, "call_x")
FORCED = {"type": "function", "function": {"name": "respond"}}
