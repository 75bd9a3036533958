"""Run many concurrent children of one parent, four of five of which succeed, and collect the outcome of each.

A Messages API on loopback answers each child according to the fate in its question.
"""

import asyncio
import gc
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.record.events import Called, Event, Finished
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.fields import Specialist
from run_specialist.store.reader import Store
from tests.leak_check import resident
from tests.loopback_server import in_thread, read_request

FAILING = 0.2
"""Share of the children that fail, if there are enough of them."""


@dataclass(frozen=True, slots=True)
class Fate:
    """One way in which a child can end."""

    name: str
    status: str
    exit_code: int
    failed_calls: int = 0
    requests: int = 3
    """Number of requests that reach the server."""


WELL = Fate("well", "answered", 0)
ILL = (
    Fate("500", "failed", 3, requests=2),
    Fate("400", "failed", 3, requests=2),
    Fate("overloaded", "failed", 3, requests=1),
    Fate("reset", "failed", 3, requests=2),
    Fate("cut", "failed", 3, requests=3),
    Fate("no JSON", "failed", 3, requests=2),
    Fate("refusal", "failed", 4, requests=2),
    Fate("mute", "failed", 4, requests=3),
    Fate("raises", "answered", 0, failed_calls=1),
    Fate("hangs", "answered", 0, failed_calls=1),
    Fate("misfit", "partial", 0),
    Fate("landing", "landed", 0, requests=2),
    Fate("aborted", "aborted", 130, failed_calls=2, requests=1),
    Fate("cancelled", "aborted", 130, failed_calls=2, requests=1),
)
FATES = {fate.name: fate for fate in (WELL, *ILL)}


def drawn(children: int, seed: int) -> Sequence[Fate]:
    """Return the fate of each child; with enough children every kind of failure occurs."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    failing = max(round(children * FAILING), min(len(ILL), children))
    ill = [ILL[number % len(ILL)] for number in range(failing)]
    fates = [*ill, *[WELL] * (children - len(ill))]
    chance.shuffle(fates)
    return fates


def question(number: int, fate: Fate) -> str:
    """Return the question to a child, by which the server recognizes it."""
    return f"child {number}: {fate.name}"


QUESTION = re.compile(rb"child (\d+): ([a-zA-Z0-9 ]+)")
WAIT = 0.01
"""Delay of an answer, so that the children run concurrently [s]."""

Reply = tuple[int, bytes]


class Crowded:
    """Answers the requests, and counts those of each child."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.at_once = self.most_at_once = 0
        self.url = ""
        self._awaited = 0
        self._all_asked = asyncio.Event()

    def expect(self, children: int) -> None:
        """Reset the counters, and answer only after so many children have sent their first request."""
        self.requests.clear()
        self.most_at_once, self._awaited, self._all_asked = 0, children, asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests on one connection until it ends."""
        try:
            while True:
                _, body = await read_request(reader)
                if not await self._answer(body, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return False if the connection ends with it."""
        found = QUESTION.search(body)
        assert found, body
        child, fate = int(found[1]), found[2].decode()
        self.requests[child] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self._gather() if self.requests[child] == 1 and self._awaited else asyncio.sleep(WAIT))
        finally:
            self.at_once -= 1
        request = json.loads(body)
        turn = sum(message["role"] == "assistant" for message in request["messages"]) + 1
        if fate == "reset" and turn == 2:
            writer.transport.abort()
            return False
        status, said = reply(child, fate, turn, request)
        cut = len(said) // 2 if fate == "cut" and turn == 3 else 0
        head = f"HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\nx-should-retry: false\r\n"
        writer.write(f"{head}content-length: {len(said)}\r\n\r\n".encode() + (said[:cut] if cut else said))
        await writer.drain()
        return not cut

    async def _gather(self) -> None:
        if len(self.requests) == self._awaited:
            self._all_asked.set()
        await self._all_asked.wait()


def reply(child: int, fate: str, turn: int, request: dict[str, Any]) -> Reply:
    """Return the status and body of an answer.

    turn: Number of the turn, from 1.
    """
    if fate == "overloaded":
        return _error(529, "overloaded_error")
    if turn == 1:
        how = {"raises": "raise", "hangs": "hang", "aborted": "wait", "cancelled": "wait"}.get(fate, "find")
        return _calls(child, turn, ("look", {"query": f"{child}a"}), ("look", {"query": f"{child}b", "how": how}))
    match fate:
        case "500":
            return _error(500, "api_error")
        case "400":
            return _error(400, "invalid_request_error")
        case "no JSON":
            return 200, b'{"type": "mess'
        case "refusal":
            return _message(child, turn, [], "refusal")
        case "mute":
            return _message(child, turn, [], "end_turn")
        case "misfit" | "landing":
            return _calls(child, turn, ("respond", {"answer": f"answer {child}"}))
    if turn == 2:
        return _calls(child, turn, ("look", {"query": f"{child}c"}))
    return _calls(child, turn, ("respond", {"answer": f"answer {child}"}))


def _error(status: int, kind: str) -> Reply:
    return status, json.dumps({"type": "error", "error": {"type": kind, "message": "not now"}}).encode()


def _calls(child: int, turn: int, *wanted: tuple[str, dict[str, Any]]) -> Reply:
    blocks = [
        {"type": "tool_use", "id": f"call_{child}_{turn}_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(wanted)
    ]
    return _message(child, turn, blocks, "tool_use")


def _message(child: int, turn: int, content: list[dict[str, Any]], reason: str) -> Reply:
    usage = {"input_tokens": 100 * turn, "output_tokens": 10}
    said = {"id": f"msg_{child}_{turn}", "type": "message", "role": "assistant", "model": "claude-haiku-4-5"}
    return 200, json.dumps({**said, "content": content, "stop_reason": reason, "usage": usage}).encode()


@contextmanager
def serving() -> Iterator[Crowded]:
    """Run the server in a thread."""
    crowded = Crowded()
    with in_thread(crowded.serve) as crowded.url:
        yield crowded


CHILD = Specialist(name="child", description="", prompt="You look.", tools=(), tool_timeout=0.2, model="haiku")
PATIENCE = 120
"""Timeout of a request, including the connection; the server and all children share one process [s]."""
STRICT = CHILD.model_copy(update={"output_schema": {"type": "object", "required": ["n"]}})
SHORT = CHILD.model_copy(update={"tool_calls_limit": 2})


async def look(query: str, how: str = "find") -> str:
    """Look something up, or fail at it."""
    match how:
        case "raise":
            raise RuntimeError("the index is broken")
        case "hang":
            await asyncio.Event().wait()
        case "wait":
            await asyncio.sleep(30)
    return f"note on {query}"


@dataclass
class Child:
    """One child, and its events."""

    number: int
    fate: Fate
    outcome: Outcome | None = None
    finished: int = 0
    """Number of its `Finished` events."""
    was_cancelled: bool = False
    """Whether its task raised CancelledError."""


@dataclass
class Crowd:
    """The collected results of all children."""

    children: list[Child]
    resident: dict[str, int] = field(default_factory=dict)
    """Memory of the process before, at the peak, and after [bytes]."""

    @property
    def by_fate(self) -> Counter[tuple[str, str]]:
        """Number of children by fate and final status."""
        return Counter((one.fate.name, one.outcome.status if one.outcome else "lost") for one in self.children)


async def play(fates: Sequence[Fate], server: Crowded, folder: Path, store: str = "none") -> Crowd:
    """Run children with these fates at the same time."""
    crowd = Crowd([Child(number, fate) for number, fate in enumerate(fates)])
    crowd.resident["before"] = crowd.resident["most"] = resident()
    async with (
        make_client(base_url=server.url, api_key="none-needed", max_retries=0, timeout=PATIENCE) as client,
        Runner(root=folder, provider=AnthropicProvider("haiku", client), tools=[look], store=store) as runner,
    ):
        watching = asyncio.create_task(_watch(crowd))
        async with asyncio.TaskGroup() as group:
            for child in crowd.children:
                group.create_task(_ask(runner, child))
        watching.cancel()
    crowd.resident["after"] = resident()
    return crowd


async def _ask(runner: Runner, child: Child) -> None:
    working: asyncio.Task[Outcome] | None = None

    def listen(event: Event) -> None:
        child.finished += isinstance(event, Finished)
        if isinstance(event, Called) and event.phase == "started" and event.id.endswith("1"):
            if child.fate.name == "aborted":
                run.abort()
            elif child.fate.name == "cancelled" and working:
                working.cancel()

    own = {"misfit": STRICT, "landing": SHORT}.get(child.fate.name, CHILD)
    run = await runner.prepare(own, question(child.number, child.fate), listener=listen)
    working = asyncio.create_task(run.outcome())
    try:
        await working
    except asyncio.CancelledError:
        child.was_cancelled = True
    child.outcome = run.ended


async def _watch(crowd: Crowd) -> None:
    while True:
        crowd.resident["most"] = max(crowd.resident["most"], resident())
        await asyncio.sleep(0.05)


def wrong(crowd: Crowd, server: Crowded) -> list[str]:
    """Return the deviations from the expected results, one per line."""
    found = [f"child {one.number}, {one.fate.name}: {why}" for one in crowd.children for why in _wrong_of(one, server)]
    ids = Counter(one.outcome.run_id for one in crowd.children if one.outcome)
    return [*found, *(f"{run_id} stands for {often} runs" for run_id, often in ids.items() if often > 1)]


def _wrong_of(child: Child, server: Crowded) -> list[str]:
    fate, outcome = child.fate, child.outcome
    if outcome is None:
        return ["no outcome"]
    told = {
        "status": (f"{outcome.status}{_why(outcome, fate)}", fate.status),
        "exit code": (int(outcome.exit_code), fate.exit_code),
        "ends that were told": (child.finished, 1),
        "failed calls": (outcome.tool_calls.failed, fate.failed_calls),
        "requests": (server.requests[child.number], fate.requests),
        "cancellation": (child.was_cancelled, fate.name == "cancelled"),
        "its own answer": (
            f"answer {child.number}" in outcome.answer,
            fate.status in {"answered", "landed", "partial"},
        ),
        "others' notes": ("note on" in outcome.answer.replace(f"note on {child.number}", ""), False),
    }
    return [f"{what}: {found!r}, not {wanted!r}" for what, (found, wanted) in told.items() if found != wanted]


def _why(outcome: Outcome, fate: Fate) -> str:
    return "" if outcome.status == fate.status or not outcome.error else f" ({outcome.error})"


def unread(store: str, crowd: Crowd) -> list[str]:
    """Return the runs in a store that do not match the outcomes of the children."""
    with Store(store) as kept:
        listed = {one.run_id: one.status for one in kept.runs()}
        ended = {one.outcome.run_id: one.outcome.status for one in crowd.children if one.outcome}
        wrong = [
            f"{run_id}: {listed.get(run_id)}, not {status}"
            for run_id, status in ended.items()
            if listed.get(run_id) != status
        ]
        wrong += [f"{run_id}: nobody's" for run_id in listed if run_id not in ended]
        return wrong + [one for one in ended if kept.load(one).outcome is None]


def alive() -> Counter[str]:
    """Count the objects of this package that exist, by type."""
    gc.collect()
    types = Counter(type(one) for one in gc.get_objects())
    names = {kind: f"{kind.__module__}.{kind.__qualname__}" for kind in types}
    return Counter({name: types[kind] for kind, name in names.items() if name.startswith("run_specialist.")})
