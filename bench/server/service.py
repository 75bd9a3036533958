"""A Messages API whose model is a script, with an account of all that came in."""

import resource
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.server.codec import decode, encode
from bench.server.refusal import Refused
from bench.server.replies import reply, streamed
from bench.server.rules import check
from bench.server.script import Script, next_turn, script_in
from bench.server.tally import Tally
from bench.server.threads import Threads

MESSAGES = "/v1/messages"


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back."""

    status: int
    body: bytes
    kind: str = "application/json"
    delay: float = 0.0
    """How long to hold it back [s]."""


class Service:
    """Answers requests for messages, and questions of the bench about them."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tally] = {}
        self._threads = Threads()
        self._number = 0

    def answer(self, target: str, body: bytes) -> Response:
        """Return what a request gets."""
        url = urlsplit(target)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/v1/messages":
                return self._message(body)
            case "/watch":
                self._tally(asked["run"]).pid = int(asked["pid"])
                return Response(200, b"{}")
            case "/tallies":
                used = resource.getrusage(resource.RUSAGE_SELF)
                told = {"cpu": used.ru_utime + used.ru_stime, "runs": self.told(asked.get("run", ""))}
                return Response(200, encode(told))
            case "/forget":
                self._threads.forget(self._tallies)
                self._tallies.clear()
                return Response(200, b"{}")
            case _:
                return Response(404, encode(Refused(f"no such path: {url.path}", 404).body()))

    def told(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return what was counted of the runs whose names begin so."""
        return {name: tally.as_json() for name, tally in self._tallies.items() if name.startswith(prefix)}

    def _message(self, body: bytes) -> Response:
        begun = time.perf_counter()
        try:
            request = decode(body)
        except ValueError as error:
            return Response(400, encode(Refused(f"the body is no JSON: {error}").body()))
        script = script_in(body) or self._threads.script_of(request) or Script()
        tally = self._tally(script.run)
        tally.came(len(body))
        try:
            whole = self._replied(script, tally, request)
        except Refused as refused:
            tally.refused.append(str(refused))
            return Response(refused.status, encode(refused.body()))
        except (KeyError, TypeError, AttributeError) as error:  # a shape that no rule speaks of
            tally.refused.append(f"malformed request: {error!r}")
            return Response(400, encode(Refused(f"malformed request: {error!r}").body()))
        if request.get("stream"):
            response = Response(200, streamed(whole), "text/event-stream", script.delay / 1000)
        else:
            response = Response(200, encode(whole), delay=script.delay / 1000)
        tally.busy += time.perf_counter() - begun
        return response

    def _replied(self, script: Script, tally: Tally, request: dict[str, Any]) -> dict[str, Any]:
        request = self._threads.whole(request)
        check(request)
        paid = tally.pay(request)
        newest = encode(request["messages"][-1]).decode() if script.obeys else ""
        turn = next_turn(script, tally.calls, request, newest)
        if not isinstance(turn, str):
            tally.calls += len(turn)
        self._number += 1
        whole = reply(self._number, str(request["model"]), turn, paid)
        self._threads.hold(script, request, whole)
        return whole

    def _tally(self, run: str) -> Tally:
        return self._tallies.setdefault(run, Tally())
