"""A local Messages API that checks requests strictly and bills the cache like the real one."""

import itertools
import json
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from .cache import PromptCache
from .faults import Fault
from .memory import Memory, thinking_mode
from .models import MODELS, Model
from .prompt import prefixes, serialise, tokens
from .replies import Reply
from .rules.base import Call
from .rules.messages import oddities
from .rules.table import first_broken
from .script import Answer, OffScript, Policy, Recorded, Script
from .server import Incoming, Loopback
from .sse import encode, events
from .wire import Wire


class ScriptError(AssertionError):
    """The conversation differs from the one that the test expects."""


class MessagesSimulator:
    """Serve `/v1/messages` from a script, as a context manager.

    replies: a list, sent in order, or a function of the request.
    models: the models that exist; see `models.MODELS`.
    may_refuse: ids of the rules that requests may break; any other broken rule fails `check`.
    all_used: whether `check` fails when a reply is left over.
    """

    def __init__(
        self,
        replies: Sequence[Answer] | Policy = (),
        *,
        models: Sequence[Model] = MODELS,
        may_refuse: Collection[str] = (),
        all_used: bool = True,
    ) -> None:
        self.requests: list[Recorded] = []
        self.failures: list[str] = []
        self.script = Script(replies)
        self.cache = PromptCache()
        self._models = models
        self._may_refuse = frozenset(may_refuse)
        self._all_used = all_used
        self._memory = Memory()
        self._lock = threading.Lock()
        self._request_ids = itertools.count(1)
        self._message_ids = itertools.count(1)
        self._server = Loopback(self._answer)

    @property
    def base_url(self) -> str:
        """Return the address for a client's `base_url`."""
        return self._server.url

    @property
    def accepted(self) -> list[Recorded]:
        """Return the requests that were answered with status 200."""
        return [request for request in self.requests if request.status == 200]

    @property
    def refused(self) -> list[Recorded]:
        """Return the requests that broke a rule."""
        return [request for request in self.requests if request.rule is not None]

    def start(self) -> Self:
        """Begin to serve."""
        self._server.start()
        return self

    def stop(self) -> None:
        """Close all connections and wait for the threads."""
        self.failures += self._server.stop()

    def check(self) -> None:
        """Raise ScriptError when a request was unexpected or refused, or a reply was not asked for."""
        wrong = list(self.failures)
        wrong += [
            f"refused by {request.rule}: {request.error}"
            for request in self.refused
            if request.rule not in self._may_refuse
        ]
        if self._all_used and self.script.unused:
            wrong.append(f"replies that nobody asked for: {self.script.unused}")
        if wrong:
            raise ScriptError("\n".join(wrong))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self.check()

    def _answer(self, incoming: Incoming, connect: Callable[[str], Wire]) -> None:
        call = _parse(incoming, self._memory, self._models)
        body = call.body if isinstance(call.body, dict) else {}
        record = Recorded(incoming.raw, incoming.headers, incoming.method, incoming.path, body)
        with self._lock:
            self.requests.append(record)
            wire = connect(f"req_{next(self._request_ids):012d}")
        try:
            self._reply(call, record, wire)
        except OffScript as error:
            self._fail(wire, record, str(error))
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - the test reports any exception of a policy
            self._fail(wire, record, traceback.format_exc())

    def _reply(self, call: Call, record: Recorded, wire: Wire) -> None:
        with self._lock:
            broken = first_broken(call)
        if broken is not None:
            rule, record.error = broken
            record.rule, record.status = rule.id, rule.status
            wire.send_error(rule.status, rule.kind, record.error)
            return
        record.oddities = list(oddities(call))
        answer = self.script.next(record)
        reply = answer if isinstance(answer, Reply) else answer.reply
        if reply is not None and not _wait(reply, wire):
            wire.drop()
            return
        message = {} if reply is None else self._message(call, record, reply)
        if not isinstance(answer, Reply):
            self._spoil(answer, record, wire, message)
            return
        record.status = 200
        if record.stream:
            wire.send_events(_streamed(answer, message, wire))
        else:
            wire.send(200, serialise(message))

    def _message(self, call: Call, record: Recorded, reply: Reply) -> dict[str, Any]:
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
            number = next(self._message_ids)
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

    def _spoil(self, fault: Fault, record: Recorded, wire: Wire, message: dict[str, Any]) -> None:
        record.status = fault.status
        fault.play(wire, message, stream=record.stream)

    def _fail(self, wire: Wire, record: Recorded, why: str) -> None:
        """Note that the test itself is wrong, and keep the client from trying again."""
        self.failures.append(why)
        record.status, record.error = 500, why
        wire.send_error(500, "api_error", why, {"x-should-retry": "false"})


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


def _parse(incoming: Incoming, memory: Memory, models: Sequence[Model]) -> Call:
    body, problem = None, ""
    try:
        body = json.loads(incoming.raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    return Call(
        incoming.method,
        incoming.path,
        incoming.headers,
        incoming.raw,
        too_large=incoming.too_large,
        body=body,
        parse_error=problem,
        memory=memory,
        models=models,
    )


def _no_constant(name: str) -> None:
    message = f"{name} is not JSON"
    raise ValueError(message)


def _streamed(reply: Reply, message: dict[str, Any], wire: Wire) -> Iterator[bytes]:
    """Yield the events of a reply, holding the second half back until its gate opens."""
    sent = [encode(event) for event in events(message, reply.cut_json)]
    for index, event in enumerate(sent):
        if reply.midway is not None and index == len(sent) // 2:
            reply.midway.reached.set()
            if not wire.hold(reply.midway.opened):
                raise ConnectionAbortedError
        yield event


def _wait(reply: Reply, wire: Wire) -> bool:
    """Hold a reply back as it asks; return False when the simulator stops meanwhile."""
    if reply.gate is not None:
        reply.gate.reached.set()
        if not wire.hold(reply.gate.opened):
            return False
    return reply.delay <= 0 or wire.hold(timeout=reply.delay)
