"""A local Messages API that checks requests strictly and bills the cache like the real one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .cache import PromptCache
from .memory import thinking_mode
from .prompt import prefixes, serialise, tokens
from .replies import Reply
from .rules.base import Call
from .rules.table import RULES
from .script import OffScript, Recorded
from .served import ScriptedApi
from .sse import encode, events
from .wire import Wire


class MessagesSimulator(ScriptedApi):
    """Serve `/v1/messages` from a script; `models` are the models that exist, see `models.MODELS`."""

    rules, record = RULES, Recorded

    def __init__(self, replies: Any = (), **options: Any) -> None:
        super().__init__(replies, **options)
        self.cache = PromptCache()

    def _refuse(
        self, wire: Wire, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        wire.send_error(status, kind, message, headers)

    def _made(self, call: Call, record: Recorded, reply: Reply) -> dict[str, Any]:
        """Return the message that answers a request: billed, cached, sealed and remembered."""
        _check_runs(call.body, reply)
        with self._lock:
            usage = self.cache.account(call.body, call.segments, call.model.cache_minimum)
            record.content = self._memory.issue(
                reply.content,
                prefix=prefixes(call.segments)[-1],
                mode=thinking_mode(call.body, call.model),
                paused=reply.reason == "pause_turn",
                max_uses={tool["name"]: tool.get("max_uses") for tool in call.body.get("tools", ()) if "type" in tool},
                waiting=_waiting(call),
            )
            number = next(self._ids)
        usage["output_tokens"] = max(1, tokens(len(serialise(record.content))))
        uses = _server_uses(record.content)
        record.usage = {**usage, **({"server_tool_use": uses} if any(uses.values()) else {}), **reply.usage}
        return {
            "id": f"msg_{number:012d}",
            "type": "message",
            "role": "assistant",
            "model": call.body["model"],
            "content": record.content,
            "stop_reason": reply.reason,
            "stop_sequence": reply.stop_sequence,
            "stop_details": None if reply.stop_details is None else dict(reply.stop_details),
            "usage": record.usage,
        }

    def _events(self, record: Recorded, reply: Reply, made: dict[str, Any], wire: Wire) -> Iterator[bytes]:
        """Yield the events of a reply, holding the second half back until its gate opens."""
        sent = [encode(event) for event in events(made, reply.cut_json)]
        for index, event in enumerate(sent):
            if reply.midway is not None and index == len(sent) // 2:
                reply.midway.reached.set()
                if not wire.hold(reply.midway.opened):
                    raise ConnectionAbortedError
            yield event

    def _hold(self, reply: Reply, wire: Wire) -> bool:
        if reply.gate is not None:
            reply.gate.reached.set()
            if not wire.hold(reply.gate.opened):
                return False
        return reply.delay <= 0 or wire.hold(timeout=reply.delay)


def _check_runs(body: dict[str, Any], reply: Reply) -> None:
    """Raise OffScript for a use of the API's own tools that the request does not allow."""
    choice = body.get("tool_choice", {}).get("type", "auto")
    offered = {tool["name"] for tool in body.get("tools", ()) if "type" in tool}
    for block in reply.content:
        if block["type"] == "server_tool_use" and reply.reason != "pause_turn":
            if choice in ("none", "tool"):
                raise OffScript(f"the API runs no tool with a tool choice of {choice}")
            if block["name"] not in offered:
                raise OffScript(f"the API was not offered {block['name']}")


def _waiting(call: Call) -> list[dict[str, Any]]:
    """Return the uses of the API's own tools in the prompt that have no result yet."""
    answered = {block.get("tool_use_id") for _, _, block in call.blocks()}
    return [block for _, _, block in call.blocks("server_tool_use") if block["id"] not in answered]


def _server_uses(content: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many uses of the API's own tools are billed; failed searches are not."""
    kinds = [block["type"] for block in content if "error_code" not in block.get("content", {})]
    return {f"{name}_requests": kinds.count(f"{name}_tool_result") for name in ("web_search", "web_fetch")}
