"""One fault case: a kind of fault at a moment, on one API, streamed or not; and the checks on its result."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.providers import anthropic, openai_chat
from run_specialist.providers.admission import GATES
from run_specialist.providers.base import Provider
from run_specialist.record.outcome import Outcome
from tests.leak_check import Census, leaks_since_async

from .kinds import End, Kind
from .lying_proxy import Liar
from .moments import CHILD, START, Looking, Model, Moment

HANG = 60.0
"""Timeout, after which a run counts as hanging [s]."""
PATIENCE = 0.5
"""Read timeout of the client for stalled replies [s]."""
TIME_LIMIT = 2.0
"""Time limit of runs that would not end without one [s]."""
SUMMARIES = 3
"""Number of times that a run requests a summary if every request for one fails."""
RETRIED_FOR = 1.0
"""Patience of the runs, which lets a request be sent three times [s]; the waits are skipped, see `skipped_waits.py`."""


@dataclass(frozen=True)
class Case:
    """One combination of fault, moment and API to test."""

    kind: Kind
    moment: Moment
    api: str
    """`messages` or `chat`."""
    stream: bool
    heals_after: int | None = None
    """Number of replies to corrupt; None = all at this moment."""
    aborts: bool = False
    """Whether the run is aborted as soon as it meets the fault."""

    def __str__(self) -> str:
        how = "stream" if self.stream else "whole"
        once = "" if self.heals_after is None else f", healed after {self.heals_after}"
        return f"{self.kind.name} @ {self.moment.name}, {self.api}, {how}{once}{', aborted' if self.aborts else ''}"

    @property
    def is_streamed(self) -> bool:
        """Whether the reply with the fault is streamed; those to children and for summaries never are."""
        return self.stream and self.moment.is_run_itself

    @property
    def makes_sense(self) -> bool:
        """Whether the fault applies to such a reply."""
        return self.kind.streams if self.is_streamed else self.kind.whole


@dataclass
class CaseResult:
    """The result of a case."""

    case: Case
    outcome: Outcome
    resumed: Outcome | None
    struck: int
    seconds: float
    asked: list[str]
    """Queries of all calls of the tool."""
    wrong: list[str] = field(default_factory=list)
    """Violations of the expected result; empty if there are none."""

    @property
    def word(self) -> str:
        """The result in one word, for a table."""
        return "resumed" if self.resumed is not None and self.outcome.status == "failed" else self.outcome.status


async def play(case: Case, folder: Path, *, alone: bool = True) -> CaseResult:
    """Run the case, resume it if it did not end well, and check the result; if it runs `alone`, for leaks too."""
    before = Census.take()
    _write(folder, case.moment)
    with START[case.api](Model(case.api, case.moment), all_used=False) as simulator:
        async with Liar(simulator.base_url, case.kind.play, case.moment.aim, case.heals_after) as liar:
            came = await _go(case, liar, folder)
        came.wrong += [f"in the play: {one}" for one in liar.problems]
    if alone:
        came.wrong += [f"left over: {one}" for one in await leaks_since_async(before)]
    return came


async def _go(case: Case, liar: Liar, folder: Path) -> CaseResult:
    looking = Looking(case.moment.length)
    provider = provider_of(case, liar.url)
    watch = (lambda delta: None) if case.stream else None
    begun = time.monotonic()
    try:
        async with Runner(
            root=folder, dir=folder, provider=provider, tools=[looking.tool], store=f"sqlite:///{folder}/runs.db"
        ) as runner:
            limits = {"time_limit": TIME_LIMIT} if case.kind.end is End.LASTS else {}
            settings = {"tool_calls_limit": case.moment.limit, **case.moment.settings, **limits}
            run = await runner.prepare("looker", "What do owls eat?", watch=watch, **settings)
            if case.aborts:
                liar.on_struck = run.abort
            async with asyncio.timeout(HANG):
                outcome = await run.outcome()
            seconds, struck = time.monotonic() - begun, liar.struck
            left_open = await _open_connections(liar)
            await liar.heal()
            # As another process resumes it: in this one the gate stays closed for as long as the server wanted.
            GATES.clear()
            resumed = None
            if outcome.status in {"failed", "partial", "aborted"}:
                run = await runner.resume(outcome.run_id, watch=watch, **({"time_limit": None} if limits else {}))
                async with asyncio.timeout(HANG):
                    resumed = await run.outcome()
    finally:
        await provider.aclose()
    came = CaseResult(case, outcome, resumed, struck, seconds, looking.asked)
    came.wrong += _judge(came)
    if left_open > 1:
        came.wrong.append(f"{left_open} connections are open after the run")
    return came


async def _open_connections(liar: Liar) -> int:
    """Return the number of open connections, after waiting for closed ones to disappear."""
    until = time.monotonic() + HANG
    while liar.open > 1 and time.monotonic() < until:  # noqa: ASYNC110 - a client sends no event when it hangs up
        await asyncio.sleep(0.005)
    return liar.open


def provider_of(case: Case, url: str) -> Provider:
    """Return a provider with the read timeout of the case."""
    make: Any = anthropic.make_client if case.api == "messages" else openai_chat.make_client
    options = {"timeout": PATIENCE} if case.kind.end is End.STALLS else {}
    client = make(base_url=url, api_key="test-key", **options)
    if case.api == "messages":
        return anthropic.AnthropicProvider("haiku", client)
    return openai_chat.ChatProvider("some-model", client)


def _judge(came: CaseResult) -> Iterator[str]:
    """Yield the violations of the expected result, one per line."""
    case, outcome, kind = came.case, came.outcome, came.case.kind
    tries = kind.tries[case.is_streamed]
    if case.heals_after is not None:
        tries = min(case.heals_after, tries)
    # A failed summary is retried before the next request of the run.
    most = tries * (SUMMARIES if case.moment.name == "summary" and case.heals_after is None else 1)
    # How often a silent server is asked again depends on the time that the others of the crowd take.
    least = tries if kind.exact and kind.end is not End.STALLS else 1
    if not case.aborts and kind.end in {End.FAILS, End.STALLS} and not least <= came.struck <= most:
        yield f"{came.struck} requests came in, and not {least} to {most}"
    if not came.struck:
        yield "the fault was never met"
    if outcome.error and ("\n" in outcome.error or "internal error" in outcome.error or len(outcome.error) > 900):
        yield f"the error is no clear line: {outcome.error!r}"
    if outcome.status not in _honest(case):
        yield f"status {outcome.status}: {outcome.error}"
    if (
        outcome.status in {"failed", "partial", "aborted"}
        and case.moment.name != "first"
        and "note on" not in outcome.answer
    ):
        yield f"the salvage holds nothing of what was gathered: {outcome.answer[:200]!r}"
    if came.resumed is not None and came.resumed.status not in {"answered", "landed"}:
        yield f"resumed, it is {came.resumed.status}: {came.resumed.error}"
    if kind.end is not End.EITHER and len(came.asked) != len(set(came.asked)):
        yield f"calls were run twice: {came.asked}"


def _honest(case: Case) -> set[str]:
    whole = {"answered", "landed"}
    if case.aborts:
        return {"aborted"}
    if case.kind.name == "refused":
        # The server refuses every connection, not only this request.
        return {"failed"}
    if case.heals_after is not None:
        return whole
    if not case.moment.is_run_itself and case.kind.name.startswith("429"):
        # The model stays closed for the next request of the run itself, too.
        return {*whole, "failed"}
    if not case.moment.is_run_itself:
        return {*whole, "partial"} if case.kind.end is End.LASTS else whole
    return {
        End.FAILS: {"failed"},
        End.STALLS: {"failed"},
        End.LASTS: {"partial", "failed"} if case.moment.name != "middle" else {"partial", "failed", "landed"},
        End.PASSES: whole,
        End.EITHER: {*whole, "failed", "partial"},
    }[case.kind.end]


def _write(folder: Path, moment: Moment) -> None:
    agents = f"agents: [{', '.join(moment.agents)}]\n" if moment.agents else ""
    for name, more, prompt in (("looker", agents, "You look things up."), ("owls", "", CHILD)):
        keys = f"tools: []\n{more}tool_calls_limit: 9\npatience: {RETRIED_FOR}"
        text = f"---\nname: {name}\ndescription: Looks.\n{keys}\n---\n{prompt}\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
