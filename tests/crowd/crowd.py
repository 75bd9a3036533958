"""Run many concurrent children of one parent, and collect the outcome of each."""

import asyncio
import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.record.events import Called, Event, Finished
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.fields import Specialist
from run_specialist.store.reader import Store
from tests.crowd.crowd_server import Crowded
from tests.crowd.fates import Fate, question
from tests.leak_check import resident

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
