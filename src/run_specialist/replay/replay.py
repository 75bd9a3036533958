"""Replay a recorded run through the loop, and find the first difference."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from run_specialist.loop.run import Run
from run_specialist.providers.choose import ModelChain
from run_specialist.record.outcome import Outcome
from run_specialist.replay.cassette import COMPARED, Body, Cassette, compared, normalizer
from run_specialist.replay.differences import Difference, RequestComparison, json_text
from run_specialist.replay.rebuilt_job import RebuiltJob, RecordedTools, SpecialistLocation, rebuilt
from run_specialist.replay.recorded import Differs, RecordedProvider, ReplayProgress, Wire
from run_specialist.spawning.spawner import digest
from run_specialist.specialist.project import project_root

ADVICE = "If the change is intended, ask the question again and replay or save the new run; otherwise undo the change."


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    cassette: Cassette
    outcome: Outcome | None
    """Outcome of the replay; None if it stopped at a difference."""
    requests: int
    """Number of compared requests."""
    difference: Difference | None
    not_compared: tuple[str, ...]
    """Tools whose definitions were taken from the recorded run."""
    bodies: tuple[Body, ...] = ()
    """Bodies of the answered requests, in order; empty if no SDK was used."""

    @property
    def parts(self) -> tuple[str, Sequence[str], Sequence[str]]:
        """The difference for people: its place, the lines of the diff, and hints; empty if there is none."""
        if self.difference is None:
            return "", (), ()
        heading = self.difference.heading(self.cassette.source, len(self.cassette.requests))
        return heading, self.difference.shown, self.difference.hints

    @property
    def block(self) -> list[str]:
        """The lines of the difference; empty if there is none."""
        heading, diff, hints = self.parts
        return [heading, *diff, *hints] if heading else []

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        difference = self.difference and self.difference.as_json()
        same = self.difference is None
        return {"run_id": self.cassette.source, "same": same, "requests": self.requests, "difference": difference}


async def replay(
    cassette: Cassette,
    place: SpecialistLocation = SpecialistLocation(),  # noqa: B008 - frozen
) -> ReplayResult:
    """Replay a recorded run; nothing is sent or stored.

    Raises UsageError if the specialist cannot be found or run.
    """
    root = place.root or project_root(Path.cwd())
    normalize = normalizer(root) if cassette.is_file else lambda value: value
    async with AsyncExitStack() as opened:
        progress, wires, providers = ReplayProgress(), list[Wire | None](), list[RecordedProvider]()
        for number, model in enumerate([cassette.setup.model, *(one.model for one in cassette.later_models)]):
            wire = Wire.of(replace(cassette.setup, model=model), normalize)
            if wire is not None:
                opened.push_async_callback(wire.aclose)
            wires.append(wire)
            providers.append(RecordedProvider(cassette, normalize, wire, progress, number))
        first, *following = providers
        provider = ModelChain(first, following) if following else first
        recorded = RecordedTools(cassette, progress.miss)
        built = await opened.enter_async_context(rebuilt(cassette, place, provider, recorded))
        run = Run(built.job, clock=lambda: 0.0)
        outcome: Outcome | None = None
        try:
            outcome = await run.outcome()
            difference = progress.found or _at_the_end(
                cassette, RequestComparison(None, normalize), progress, run, outcome
            )
        except Differs as found:
            difference = found.difference
    if difference is not None:
        difference = replace(difference, hints=(*_hints(cassette, built), ADVICE))
    requests = min(progress.sent, len(cassette.requests))
    bodies = () if None in wires else tuple(body for wire in wires if wire for body in wire.bodies)
    return ReplayResult(cassette, outcome, requests, difference, tuple(built.not_compared), bodies)


def _at_the_end(
    cassette: Cassette, comparison: RequestComparison, progress: ReplayProgress, run: Run, outcome: Outcome
) -> Difference | None:
    """Compare the ends of both runs."""
    asked, requests = progress.sent, cassette.requests
    if asked < len(requests):
        ending = "\n".join(part for part in (f"status {outcome.status}", outcome.error, outcome.answer) if part)
        return Difference(None, f"the replay ended after {asked} of {len(requests)} requests", "", ending)
    now = compared(outcome.as_json())
    for key in COMPARED:
        stored, found_now = getattr(cassette.outcome, key), getattr(now, key)
        if found := comparison.differs(f"{key} of the outcome", stored, found_now, _shown):
            return found
    return comparison.messages(cassette.messages_before(len(requests) + 1), run.transcript)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json_text(value)


def _hints(cassette: Cassette, built: RebuiltJob) -> list[str]:
    """Return the differences between the recorded and the current files and settings."""
    setup, path = cassette.setup, built.file.path
    now: Mapping[str, Any] = built.settings
    ignored = {"prompt", "name", "description", "path", "model", "fallback_models", "mcp_servers", "output_schema"}
    changed = [
        f"{key} {json_text(setup.settings[key])} -> {json_text(now[key])}"
        for key in now
        if key not in ignored and key in setup.settings and setup.settings[key] != now[key]
    ]
    hints = [f"Settings that differ: {', '.join(changed)}."] if changed else []
    if not setup.digest:
        return hints
    if digest(path) == setup.digest:
        return [*hints, f"{path.name} is unchanged, so a tool, a config file or this program differs."]
    return [*hints, f"{path.name} has changed since the run."]
