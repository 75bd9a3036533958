"""Answers and input cost when the model wants five times as many calls as its limit allows."""

from collections.abc import Sequence

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

LIMIT, WANTS = 30, 150
MODELS: dict[str, dict[str, int]] = {
    "abreast": {"abreast": 4},
    "obeys": {"obeys": 1},
    "stubborn": {"obeys": 0},
}
"""Behavior of the model, as arguments of `Script`."""
BILLS = {
    "`order`, a model that obeys": ("order", "obeys", 54_000),
    "`order`, a stubborn model": ("order", "stubborn", 72_000),
    "`force`": ("force", "stubborn", 69_000),
    "`schema`": ("schema", "stubborn", 69_000),
}
"""Kind of landing, model, and maximum bill [input tokens]."""


def lap(lab: Lab, size: Size) -> None:
    """Run each peer to its limit with each model; run-specialist with each kind of landing."""
    for peer in ("ours", "ours_stored", "bare", "tool_runner", *size.guests):
        _land(lab, peer, "auto")
    for landing in ("order", "force", "schema"):
        _land(lab, "ours", landing)


def _land(lab: Lab, peer: str, landing: str) -> None:
    start = f"landing.{peer}.{landing}"
    with lab.failing(start):
        run = lab.new_run()
        models = list(MODELS.values())
        measured = lab.lap(peer, "landing", run, limit=LIMIT, landing=landing, wants=WANTS, models=models)
        for number, (model, came) in enumerate(zip(MODELS, measured["runs"], strict=True)):
            tally = lab.tally(f"{run}-{number}")
            lab.note(f"{start}.{model}.answers", came["answers"])
            lab.note(f"{start}.{model}.calls", came["calls"])
            lab.note(f"{start}.{model}.requests", tally.requests)
            lab.note(f"{start}.{model}.billed", tally.billed)


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    what = f"limit {LIMIT}, the model wants {WANTS}, four per turn"
    made = []
    for ours, other, against in (
        *(("ours", peer, f"against {peer}") for peer in ("tool_runner", *size.guests)),
        ("ours_stored", "ours", "with store and events, against without"),
    ):
        for kind, label, most, exactly in (
            ("answers", "answers", 1, True),
            ("calls", "calls run", LIMIT, True),
            ("requests", "requests", 11, False),
        ):
            one, two = (f"landing.{peer}.auto.abreast.{kind}" for peer in (ours, other))
            made.append(Row(f"{what}: {label}, {against}", "", one, two, at_most=most, exactly=exactly))
    for label, (landing, model, most) in BILLS.items():
        one, two = f"landing.ours.{landing}.{model}.billed", f"landing.bare.auto.{model}.billed"
        what = f"input billed, one call per turn, {label}, against a hand-written loop that forces"
        made.append(Row(what, "tokens", one, two, at_most=most))
    one, two = (f"landing.{peer}.auto.stubborn.billed" for peer in ("ours", "tool_runner"))
    what = "input billed, one call per turn, `auto`, against tool_runner, which has no answer"
    made.append(Row(what, "tokens", one, two))
    for guest in size.guests:
        one, two = (f"landing.{peer}.auto.stubborn.billed" for peer in ("ours", guest))
        made.append(Row(f"input billed, one call per turn, `auto`, against {guest}", "tokens", one, two))
    return made


FIGURE = Figure("landing", "At the limit", lap, rows, lambda size: 1)  # noqa: ARG005 - deterministic, so one lap
