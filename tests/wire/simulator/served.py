"""A local API that answers by a script, and fails the test when the conversation is another one."""

import itertools
import json
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from .faults import Fault
from .memory import Memory
from .models import MODELS, Model
from .prompt import serialise
from .rules.base import Call, Rule
from .script import OffScript, Received, Script
from .server import Incoming, Loopback
from .wire import Wire


class ScriptError(AssertionError):
    """The conversation differs from the one that the test expects."""


class ScriptedApi(ABC):
    """Serve an API from a script, as a context manager.

    replies: a list, sent in order, or a function of the request.
    may_refuse: ids of the rules that requests may break; any other broken rule fails `check`.
    all_used: whether `check` fails when a reply is left over.
    """

    rules: ClassVar[Sequence[Rule]]
    record: ClassVar[type[Received]]

    def __init__(
        self,
        replies: Any = (),
        *,
        models: Sequence[Model] = MODELS,
        may_refuse: Collection[str] = (),
        all_used: bool = True,
    ) -> None:
        self.requests: list[Any] = []
        self.failures: list[str] = []
        self._script = Script(replies)
        self._models = models
        self._may_refuse = frozenset(may_refuse)
        self._all_used = all_used
        self._memory = Memory()
        self._lock = threading.Lock()
        self._request_ids = itertools.count(1)
        self._ids = itertools.count(1)
        self._server = Loopback(self._answer)

    @property
    def base_url(self) -> str:
        """Return the address for a client's `base_url`."""
        return self._server.url

    @property
    def accepted(self) -> list[Any]:
        """Return the requests that were answered with status 200."""
        return [request for request in self.requests if request.status == 200]

    @property
    def refused(self) -> list[Any]:
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
        if self._all_used and self._script.unused:
            wrong.append(f"replies that nobody asked for: {self._script.unused}")
        if wrong:
            raise ScriptError("\n".join(wrong))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop()
        if error is None:
            self.check()

    def _answer(self, incoming: Incoming, connect: Callable[[str], Wire]) -> None:
        call = self._parse(incoming)
        body = call.body if isinstance(call.body, dict) else {}
        record = self.record(incoming.raw, incoming.headers, incoming.method, incoming.path, body)
        with self._lock:
            self.requests.append(record)
            wire = connect(f"req_{next(self._request_ids):012d}")
        try:
            with self._lock:
                broken = self._broken(call)
            if broken is not None:
                rule, record.error = broken
                record.rule, record.status = rule.id, rule.status
                self._refuse(wire, rule.status, rule.kind, record.error)
            else:
                self._reply(call, record, wire)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the test reports any exception of a policy
            # The test itself is wrong; the header keeps the client from trying again.
            why = str(error) if isinstance(error, OffScript) else traceback.format_exc()
            self.failures.append(why)
            record.status, record.error = 500, why
            self._refuse(wire, 500, "api_error", why, {"x-should-retry": "false"})

    def _parse(self, incoming: Incoming) -> Call:
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
            memory=self._memory,
            models=self._models,
        )

    def _broken(self, call: Call) -> tuple[Rule, str] | None:
        """Return the first rule that the request breaks, and what the API says about it."""
        return next(((rule, said) for rule in self.rules if (said := rule.broken_by(call)) is not None), None)

    def _reply(self, call: Call, record: Any, wire: Wire) -> None:
        answer: Any = self._script.next(record)
        fault: Fault | None = answer if hasattr(answer, "play") else None
        reply = answer if fault is None else fault.reply
        if reply is not None and not self._hold(reply, wire):
            wire.drop()
            return
        made = {} if reply is None else self._made(call, record, reply)
        record.status = 200 if fault is None else fault.status
        if fault is not None:
            fault.play(wire, made, stream=record.stream)
        elif record.stream:
            wire.send_events(self._events(record, reply, made, wire))
        else:
            wire.send(200, serialise(made))

    def _hold(self, reply: Any, wire: Wire) -> bool:
        """Hold a reply back as it asks; return False when the simulator stops meanwhile."""
        return True

    @abstractmethod
    def _refuse(
        self, wire: Wire, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an error in the API's shape."""

    @abstractmethod
    def _made(self, call: Call, record: Any, reply: Any) -> dict[str, Any]:
        """Return the body that answers a request."""

    @abstractmethod
    def _events(self, record: Any, reply: Any, made: dict[str, Any], wire: Wire) -> Iterator[bytes]:
        """Yield the events of a streamed reply."""


def _no_constant(name: str) -> None:
    message = f"{name} is not JSON"
    raise ValueError(message)
