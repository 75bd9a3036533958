"""Print what `specialists resume --at` reports before the first request of a fork."""

from typing import TYPE_CHECKING, Annotated, Protocol, get_args

import typer

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.budget.ladder import Style
from run_specialist.cli.flags import one_of
from run_specialist.cli.live_run import PrepareRun
from run_specialist.cli.notes import note
from run_specialist.cli.output_options import OutputSettings
from run_specialist.specialist.presets import Preset

if TYPE_CHECKING:
    from run_specialist.loop.job import ForkedFrom
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Listener


ForkAt = Annotated[
    int | None,
    typer.Option("--at", metavar="N", min=0, help="Fork: a new run that begins with the first N turns of this one."),
]
ForkLanding = Annotated[
    str | None,
    one_of("landing", "HOW", get_args(Style), f"With --at: another landing: {', '.join(get_args(Style))}."),
]
ForkPreset = Annotated[
    str | None,
    one_of("preset", "NAME", get_args(Preset), f"With --at: another preset: {', '.join(get_args(Preset))}."),
]


class PrepareFork(Protocol):
    """A function that prepares a fork, e.g. `partial(runner.fork, run_id, at=12)`."""

    async def __call__(self, *, listener: "Listener | None", watch: "Watch | None") -> "Run":
        """Return the new run, given its listener and the watcher of its replies."""
        ...


def forked(prepare: PrepareFork, output: OutputSettings) -> PrepareRun:
    """Return a function that prepares a fork and prints the cost of the copied turns if the model is another one."""

    async def prepare_and_say(*, listener: "Listener | None", watch: "Watch | None") -> "Run":
        run = await prepare(listener=listener, watch=watch)
        source = run.forked_from
        if source and source.cold_tokens is not None and not output.quiet:
            note(cold_line(source, run.model))
        return run

    return prepare_and_say


def cold_line(source: "ForkedFrom", model: str) -> str:
    """Return a line with the price of the first request if it is sent to another model.

    model: the model of the fork.
    """
    price = "unknown" if source.cold_cost is None else f"about {units.dollars(source.cold_cost)}"
    tokens = units.amount(Kind.TOKENS, source.cold_tokens or 0)
    return f"{model} has no prompt cache of {source.run_id}: it reads about {tokens} anew, price {price}"
