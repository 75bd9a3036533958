"""Runs of a specialist's file, from the front matter to the outcome: the real SDK against the simulated API."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.loop.account import Clock
from run_specialist.loop.job import Augmenter
from run_specialist.loop.run import Run
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.wire.connected import connected
from tests.wire.simulator import MessagesSimulator, Recorded, Reply
from tests.wire.simulator.prompt import as_blocks
from tests.wire.simulator.replies import answers, calls
from tests.wire.simulator.script import Answer, OffScript, Policy

FORCED = {"type": "tool", "name": "respond"}
NO_TOOLS = {"type": "none"}
DONE = answers("what was found")


@dataclass
class ObservedRun:
    """One run: its requests, its events and its outcome."""

    run: Run
    api: MessagesSimulator
    events: list[Event] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    """The streamed pieces of the replies."""
    outcome: Outcome = None  # type: ignore[assignment] # set when the run is over

    @property
    def requests(self) -> list[Recorded]:
        """The requests of the run, without those for summaries."""
        return [request for request in self.api.requests if not for_summary(request)]

    @property
    def results(self) -> list[list[str]]:
        """The results in the newest message of each request but the first, as the model reads them."""
        return [list(request.results.values()) for request in self.requests[1:]]

    @property
    def choices(self) -> list[object]:
        """The tool choice of each request."""
        return [request.tool_choice for request in self.requests]

    def carrying(self, words: str) -> list[int]:
        """Return the numbers, from 1, of the requests whose newest message contains a text."""
        return [
            number for number, request in enumerate(self.requests, 1) if words in str(request.messages[-1]["content"])
        ]

    def named(self, name: str) -> list[Any]:
        """Return the events of one name, in order."""
        return [event for event in self.events if event.event == name]

    def phases(self, phase: str) -> list[str]:
        """Return the ids of the tool calls with an event of this phase."""
        return [event.id for event in self.named("tool_call") if event.phase == phase]


class Asker:
    """Runs a question through a specialist whose file has the given lines."""

    def __init__(self, start: Callable[..., MessagesSimulator], folder: Path, *, stream: bool) -> None:
        self._start = start
        self._folder = folder
        self._stream = stream
        self.started: list[MessagesSimulator] = []
        """The simulators of all runs, including those refused before the first request."""

    @asynccontextmanager
    async def prepared(
        self,
        script: Sequence[Answer] | Policy,
        *lines: str,
        model: str = "haiku",
        body: str = "You look things up.",
        question: str = "What is known?",
        tools: Sequence[Tool] = (LOOK,),
        augmenters: Sequence[Augmenter] = (),
        clock: Clock | None = None,
        api: dict[str, Any] | None = None,
        **settings: Any,
    ) -> AsyncIterator[ObservedRun]:
        """Yield a run that has not begun.

        lines: Lines of the front matter; without `tools` among them the specialist gets only the given tools.
        api: Options of the simulator.
        settings: Settings of the call.
        """
        own = () if any(line.startswith("tools:") for line in lines) else ("tools: []",)
        head = "\n".join(("---", "name: looker", "description: Looks.", *own, *lines, "---"))
        folder = self._folder / "specialists"
        folder.mkdir(exist_ok=True)
        (folder / "looker.md").write_text(f"{head}\n{body}\n", encoding="utf-8")
        simulator = self._start(script, **(api or {}))
        self.started.append(simulator)
        events: list[Event] = []
        pieces: list[str] = []
        watch = (lambda delta: pieces.append(delta.text)) if self._stream else None
        async with connected(simulator, model) as provider:
            runner = Runner(root=self._folder, dir=folder, provider=provider, tools=tools, augmenters=augmenters)
            run = await runner.prepare("looker", question, listener=events.append, watch=watch, **settings)
            if clock is not None:
                run = Run(run.job, events.append, watch, clock)
            yield ObservedRun(run, simulator, events, pieces)

    async def __call__(self, script: Sequence[Answer] | Policy, *lines: str, **options: Any) -> ObservedRun:
        """Return the finished run; see `prepared` for the arguments."""
        async with self.prepared(script, *lines, **options) as told:
            told.outcome = await told.run.outcome()
            return told


def for_summary(request: Recorded) -> bool:
    """Return whether a request is for a summary; no other request is without tools."""
    return not request.tool_names


def noting(notes: Answer | Policy, script: Sequence[Answer] | Policy) -> Policy:
    """Return a policy that answers requests for summaries with the notes, and all others with the script."""
    replies = iter(() if callable(script) else script)

    def policy(request: Recorded) -> Answer:
        if for_summary(request):
            return notes(request) if callable(notes) else notes
        reply = script(request) if callable(script) else next(replies, None)
        if reply is None:
            raise OffScript("the run asked for more than was scripted")
        return reply

    return policy


def looks(*queries: object, **options: Any) -> Reply:
    """Return a reply with one call of `look` for each query."""
    return calls("look", *({"query": str(query)} for query in queries), **options)


def batches(*sizes: int) -> list[Reply]:
    """Return replies with these numbers of calls, all with different queries."""
    return [looks(*(f"{turn}.{call}" for call in range(size))) for turn, size in enumerate(sizes, 1)]


def note(query: object) -> str:
    """Return the result of `look`."""
    return f"note on {str(query)!r}, part 0"


def texts(message: dict[str, Any]) -> list[str]:
    """Return the texts of a message, including tool results."""
    blocks = as_blocks(message["content"])
    return [
        block["text"] if block["type"] == "text" else block["content"]
        for block in blocks
        if block["type"] != "tool_use"
    ]
