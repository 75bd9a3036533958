"""A local simulator of the chat completions API that validates requests strictly and records all of them."""

import copy
import itertools
import json
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.wire.simulator.faults import Fault
from tests.wire.simulator.script import OffScript, Script
from tests.wire.simulator.server import Incoming, Loopback
from tests.wire.simulator.simulator import ScriptError
from tests.wire.simulator.wire import Wire

from .replies import ChatReply
from .rules import Call, first_broken
from .sse import chunks


@dataclass
class Recorded:
    """Hold one request as it was received, and the reply to it."""

    raw: bytes
    headers: Mapping[str, str]
    path: str
    body: dict[str, Any]
    """The parsed body; empty when it is no JSON object."""
    status: int | None = None
    rule: str | None = None
    """Id of the rule that the request broke."""
    error: str = ""
    message: dict[str, Any] = field(default_factory=dict)
    """The message that was sent back."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the messages as sent."""
        return list(self.body.get("messages", ()))

    @property
    def tool_choice(self) -> Any:
        """Return the option as sent."""
        return self.body.get("tool_choice")

    @property
    def schema(self) -> dict[str, Any] | None:
        """Return the schema that the reply has to match; None if there is none."""
        return (self.body.get("response_format") or {}).get("json_schema", {}).get("schema")

    @property
    def stream(self) -> bool:
        """Tell whether the reply was asked for as a stream."""
        return self.body.get("stream") is True

    @property
    def results(self) -> list[str]:
        """Return the contents of all tool messages, in order."""
        return [message["content"] for message in self.messages if message["role"] == "tool"]

    @property
    def last_line(self) -> str:
        """Return the line that the prompt ends with."""
        return str(self.messages[-1]["content"]).splitlines()[-1]


Policy = Callable[[Recorded], "ChatReply | Fault"]


class ChatSimulator:
    """Serve `/v1/chat/completions` from a script, as a context manager.

    replies: a list, used in order, or a function of the request.
    most_room: the largest reply that the model gives [tokens]; None for any.
    may_refuse: ids of the rules that requests may break; any other broken rule fails `check`.
    all_used: whether `check` fails when a reply is left over.
    """

    def __init__(
        self,
        replies: Sequence[ChatReply | Fault] | Policy = (),
        *,
        most_room: int | None = None,
        may_refuse: Collection[str] = (),
        all_used: bool = True,
    ) -> None:
        self.requests: list[Recorded] = []
        self.failures: list[str] = []
        self._script = Script(replies)  # type: ignore[arg-type]
        self._most_room = most_room
        self._may_refuse = frozenset(may_refuse)
        self._all_used = all_used
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._server = Loopback(self._answer)

    @property
    def base_url(self) -> str:
        """Return the address for a client's `base_url`."""
        return f"{self._server.url}/v1"

    def check(self) -> None:
        """Raise ScriptError for an unexpected request, and for an unused reply."""
        wrong = list(self.failures)
        wrong += [
            f"{seen.rule}: {seen.error}" for seen in self.requests if seen.rule and seen.rule not in self._may_refuse
        ]
        if self._all_used and self._script.unused:
            wrong.append(f"{self._script.unused} replies were never asked for")
        if wrong:
            raise ScriptError("\n".join(wrong))

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.failures += self._server.stop()
        if error is None:
            self.check()

    def _answer(self, incoming: Incoming, connect: Callable[[str], Wire]) -> None:
        try:
            body = json.loads(incoming.raw.decode())
        except ValueError:
            body = None
        record = Recorded(incoming.raw, incoming.headers, incoming.path, body if isinstance(body, dict) else {})
        with self._lock:
            self.requests.append(record)
            wire = connect(f"req_{next(self._ids)}")
        try:
            self._reply(Call(incoming, body), record, wire)
        except OffScript as error:
            self._fail(wire, record, str(error))
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - the test reports any exception of a policy
            self._fail(wire, record, traceback.format_exc())

    def _reply(self, call: Call, record: Recorded, wire: Wire) -> None:
        broken = first_broken(call)
        if broken is not None:
            rule, record.error = broken
            record.rule = rule.id
            self._refuse(wire, record, rule.status, record.error)
            return
        room = record.body.get("max_completion_tokens", 0)
        if self._most_room is not None and room > self._most_room:
            most = f"This model supports at most {self._most_room} completion tokens, whereas you provided {room}."
            self._refuse(wire, record, 400, f"max_tokens is too large: {room}. {most}")
            return
        answer = self._script.next(record)  # type: ignore[arg-type]
        reply = answer if isinstance(answer, ChatReply) else answer.reply
        completion = {} if reply is None else self._completion(record, reply)
        if not isinstance(answer, ChatReply):
            record.status = answer.status
            answer.play(wire, completion, stream=record.stream)
            return
        record.status = 200
        if record.stream:
            told = record.body.get("stream_options", {}).get("include_usage") is True
            wire.send_events(chunks(completion, answer.deltas, usage=told))
        else:
            wire.send(200, json.dumps(completion).encode())

    def _completion(self, record: Recorded, reply: ChatReply) -> dict[str, Any]:
        record.message = copy.deepcopy(dict(reply.message))
        with self._lock:
            for call in record.message.get("tool_calls") or ():
                if "id" in call and call["id"] is None:
                    call["id"] = f"call_{next(self._ids):06d}"
        asked, said = len(record.raw) // 4, len(json.dumps(record.message)) // 4
        usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": record.body["model"],
            "choices": [{"index": 0, "message": record.message, "logprobs": None, "finish_reason": reply.reason}],
            "usage": usage if reply.usage is None else dict(reply.usage),
        }

    def _refuse(self, wire: Wire, record: Recorded, status: int, message: str) -> None:
        record.status, record.error = status, message
        shape = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        wire.send(status, json.dumps({"error": shape}).encode())

    def _fail(self, wire: Wire, record: Recorded, why: str) -> None:
        """Note that the test itself is wrong, and keep the client from trying again."""
        self.failures.append(why)
        record.status, record.error = 500, why
        wire.send(500, b'{"error": {"message": "off script"}}', headers={"x-should-retry": "false"})
