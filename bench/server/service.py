"""Messages API with a scripted model and statistics of the requests."""

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
    """An HTTP response."""

    status: int
    body: bytes
    kind: str = "application/json"
    """Content type."""
    delay: float = 0.0
    """Delay before sending it [s]."""


class Service:
    """Answers API requests and control requests of the benchmark."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tally] = {}
        self._threads = Threads()
        self._number = 0

    def answer(self, target: str, body: bytes) -> Response:
        """Return the response to a request."""
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/v1/messages":
                return self._message(body)
            case "/watch":
                self._tally(query["run"]).pid = int(query["pid"])
                return Response(200, b"{}")
            case "/tallies":
                used = resource.getrusage(resource.RUSAGE_SELF)
                statistics = {"cpu": used.ru_utime + used.ru_stime, "runs": self.statistics(query.get("run", ""))}
                return Response(200, encode(statistics))
            case "/forget":
                self._threads.forget(self._tallies)
                self._tallies.clear()
                return Response(200, b"{}")
            case _:
                return Response(404, encode(Refused(f"no such path: {url.path}", 404).body()))

    def statistics(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the statistics of the runs whose names start with a prefix."""
        return {name: tally.as_json() for name, tally in self._tallies.items() if name.startswith(prefix)}

    def _message(self, body: bytes) -> Response:
        begun = time.perf_counter()
        try:
            request = decode(body)
        except ValueError as error:
            return Response(400, encode(Refused(f"the body is not valid JSON: {error}").body()))
        script = script_in(body) or self._threads.script_of(request) or Script()
        tally = self._tally(script.run)
        tally.came(len(body))
        try:
            message = self._replied(script, tally, request)
        except Refused as refused:
            tally.refused.append(str(refused))
            return Response(refused.status, encode(refused.body()))
        except (KeyError, TypeError, AttributeError) as error:  # not covered by the rules
            tally.refused.append(f"malformed request: {error!r}")
            return Response(400, encode(Refused(f"malformed request: {error!r}").body()))
        if request.get("stream"):
            response = Response(200, streamed(message), "text/event-stream", script.delay / 1000)
        else:
            response = Response(200, encode(message), delay=script.delay / 1000)
        tally.busy += time.perf_counter() - begun
        return response

    def _replied(self, script: Script, tally: Tally, request: dict[str, Any]) -> dict[str, Any]:
        request = self._threads.complete(request)
        check(request)
        paid = tally.pay(request)
        newest = encode(request["messages"][-1]).decode() if script.obeys else ""
        turn = next_turn(script, tally.calls, request, newest)
        if not isinstance(turn, str):
            tally.calls += len(turn)
        self._number += 1
        message = reply(self._number, str(request["model"]), turn, paid)
        self._threads.store(script, request, message)
        return message

    def _tally(self, run: str) -> Tally:
        return self._tallies.setdefault(run, Tally())
