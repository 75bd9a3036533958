"""The command `specialists map`: read the items, plan the runs, confirm the cost, work here or queue them."""

import asyncio
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.batch_options import (
    AnswerOptions,
    BatchMoneyOptions,
    BatchOptions,
    EachRunOptions,
    ItemOptions,
    ProjectOptions,
)
from run_specialist.cli.console import guarded
from run_specialist.cli.flags import SpecialistName, config_for_run
from run_specialist.cli.help import given_words, grouped

if TYPE_CHECKING:
    from run_specialist.api.config_files import Config
    from run_specialist.api.runner import Runner
    from run_specialist.batch.answer_file import AnswerFile, AnswerStream
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import InputRecord, Item
    from run_specialist.batch.limits import Forecast, Typical
    from run_specialist.batch.questions import Template
    from run_specialist.batch.read_items import Source
    from run_specialist.cli.batch_options import MoneyOptions
    from run_specialist.cli.map_progress import MapProgress
    from run_specialist.cli.map_run import Answers, MapDisplay, Reducer, SameCall
    from run_specialist.fleet.batches import BatchStatus, Control
    from run_specialist.record.outcome import Outcome
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import PastRun


Items = Annotated[
    str | None,
    typer.Argument(
        metavar="ITEMS",
        show_default=False,
        help="File with the items: JSON lines, a JSON array, CSV with a header, or one text per line; `-` means "
        "standard input.",
    ),
]


@grouped
def map_(
    context: typer.Context,
    name: SpecialistName,
    items: Items = None,
    *,
    each_item: ItemOptions,
    answers: AnswerOptions,
    money: BatchMoneyOptions,
    batch: BatchOptions,
    each_run: EachRunOptions,
    project: ProjectOptions,
) -> None:
    """Ask a specialist a question about each of many items.

    Repeat the same command to continue a batch: items that have an outcome are skipped, and a changed item counts as
    new. Ctrl-C stops after the current turns, a second Ctrl-C stops immediately. Results that were paid for are kept.

    Exit codes: 0 every item has an answer, 2 wrong flag or file, 3 the model's endpoint ended the batch, 4 an item has
    no answer, 130 interrupted.
    """
    answers.check()
    with guarded():
        config = config_for_run(project.root, each_run.model, trust=project.trust, quiet=answers.quiet)

        words, at_once = given_words(context), _fleet_at_once(context, batch)
        call = MapCall(name, items, each_item, answers, money, batch, each_run, project, config, words, at_once)
        code = call.work()
    raise typer.Exit(code)


def _fleet_at_once(context: typer.Context, batch: BatchOptions) -> int:
    """Return the value of `--at-once` for a fleet; 0 = any number of items at the same time, if it was not given."""
    source = context.get_parameter_source("at_once")
    return batch.at_once if source is not None and source.name == "COMMANDLINE" else 0


@dataclass(frozen=True)
class MapRequest:
    """A specialist, the items, and the question about each of them."""

    name: str
    source: "Source"
    given: "Iterable[InputRecord]"
    """The checked items; they have a length if they can be read more than once."""
    template: "Template | None"

    @classmethod
    def of(cls, items: str | None, each: ItemOptions, runner: "Runner", name: str) -> "MapRequest":
        """Return the checked items; exit, or raise UsageError, if no question can be asked about them."""
        from run_specialist.batch.questions import Template, check  # noqa: PLC0415 - fast `--help`

        source = _source(items, each, runner, name)
        template = None if each.question is None else Template(each.question)
        return cls(name, source, check(source, template), template)

    @property
    def count(self) -> int | None:
        """The number of items; None if they can be read only once."""
        return len(self.given) if isinstance(self.given, Sized) else None

    def items(self) -> "Iterator[Item]":
        """Yield the items with their questions."""
        from run_specialist.batch.item import keyed  # noqa: PLC0415 - fast `--help`
        from run_specialist.batch.questions import asked  # noqa: PLC0415 - fast `--help`

        return keyed(asked(self.given, self.template))


def _source(items: str | None, each: ItemOptions, runner: "Runner", name: str) -> "Source":
    """Return the source of the items; exit if the options leave it open or name two.

    Raises UsageError if the source cannot be read.
    """
    from run_specialist.batch.read_items import STDIN, files_source, source_of  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.console import fail, is_terminal, say  # noqa: PLC0415 - fast `--help`

    if each.files is not None:
        if items is not None:
            fail("ITEMS and --files cannot be combined; use one of them, and quotes around the glob")
        if each.format_ is not None:
            fail("--format is about ITEMS; it cannot be combined with --files")
        specialist = runner.registry.find(name).specialist
        return files_source(each.files, runner.root, (specialist and specialist.paths) or ())
    if items is None:
        fail("there are no items; name a file, `-` for standard input, or use --files 'docs/*.md'")
    if items == STDIN and is_terminal(sys.stdin):
        say("type one item per line, then press Ctrl-D on an empty line")
    return source_of(items, each.format_)


@dataclass(frozen=True)
class MapCall:
    """The parsed command line of `specialists map`."""

    name: str
    items: str | None
    each_item: ItemOptions
    answers: AnswerOptions
    money: "MoneyOptions"
    batch: BatchOptions
    each_run: EachRunOptions
    project: ProjectOptions
    config: "Config"
    words: tuple[str, ...]
    """The arguments as given; the command that continues the batch is built from them."""
    fleet_at_once: int
    """How many items a fleet may work on at the same time; 0 = any number."""

    def work(self) -> int:
        """Execute the command; return the exit code."""
        from run_specialist.cli.console import say  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_run import SameCall  # noqa: PLC0415 - fast `--help`

        runner = self._runner_in(self.project.root)
        check_queue(self.batch, self.items)
        asked = MapRequest.of(self.items, self.each_item, runner, self.name)
        reducer = self._reducer(runner)
        plan = self._plan(asked, runner)
        if self.batch.dry_run:
            plan.show(json=self.answers.json_)
            return 0
        if not self.answers.quiet:
            say(str(plan))
        confirm(plan.most if plan.forecast.runs else None, self.money)
        worked_on = self._by_fleet(plan, runner) if self.batch.queue else plan
        if worked_on is None:
            return 0
        return MapWork(worked_on, runner, self.answers, SameCall(self.words), reducer).work()

    def _runner_in(self, root: Path | None) -> "Runner":
        """Return a runner whose file tools can read a folder."""
        from run_specialist.cli.batch_options import batch_runner  # noqa: PLC0415 - fast `--help`

        return batch_runner(self.config, replace(self.project, root=root), self.each_run, quiet=self.answers.quiet)

    def _reducer(self, runner: "Runner") -> "Reducer | None":
        from run_specialist.cli.map_run import Reducer  # noqa: PLC0415 - fast `--help`

        wanted = self.answers.reduce
        return None if wanted is None else Reducer(runner.registry.find(wanted), self._runner_in)

    def _plan(self, asked: MapRequest, runner: "Runner") -> "MapPlan":
        from run_specialist.cli.batch_options import RETRIED  # noqa: PLC0415 - fast `--help`

        return planned(asked, runner, self.each_run, self._bounds, RETRIED[self.batch.retry])

    @property
    def _bounds(self) -> dict[str, Any]:
        """Return the limits of the batch as arguments of `Runner.map`."""
        limit = {} if self.money.limit is None else {"cost_limit": self.money.limit}
        return {"at_once": self.batch.at_once, **limit, **self.batch.bounds}

    def _by_fleet(self, plan: "MapPlan", runner: "Runner") -> "MapPlan | None":
        """Queue the items for a fleet; with `--wait` return the plan that reads its answers, otherwise None."""
        from run_specialist.cli.batch_options import RETRIED  # noqa: PLC0415 - fast `--help`

        followed = put_into_queue(plan, runner, self.each_run, self.batch, self.answers, self.fleet_at_once)
        if followed is None:
            return None
        # The fleet has worked on the items: what is left is to read their answers.
        done = planned(plan.asked, runner, self.each_run, self._bounds, RETRIED[None], is_over=True)
        if followed.lost:
            again = f"`specialists fleet retry {done.batch.id}`, then the same command"
            done.batch.only_read(f"the fleet has left items without an outcome, {followed.lost}; {again}")
        elif followed.limit:
            done.batch.only_read(followed.limit, "cost_limit")
        return done


def confirm(most: float | None, money: "MoneyOptions") -> None:
    """Ask for confirmation if the forecast exceeds the amount of `--confirm-above`; exit if it is denied.

    most: maximum cost of the batch; None = unknown [USD].
    Without a terminal there is no question: the batch is refused if `--confirm-above` was given and is exceeded.
    """
    from run_specialist.budget import dollars  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.batch_options import CONFIRM_ABOVE  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.console import fail, is_terminal  # noqa: PLC0415 - fast `--help`

    above = CONFIRM_ABOVE if money.confirm_above is None else money.confirm_above
    if money.yes or most is None or most <= above:
        return
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        if not typer.confirm(f"This may cost {dollars(most)}. Continue?", err=True):
            fail("nothing was sent", 0)
    elif money.confirm_above is not None:
        fail(
            f"this may cost {dollars(most)}, more than --confirm-above {dollars(above)}; nothing was sent: add --yes, "
            "set a --cost-limit, or raise it"
        )


SHOWN = 3
"""Number of questions that a dry run shows."""


@dataclass(frozen=True)
class MapPlan:
    """A batch that has not begun, and its forecast."""

    batch: "Batch"
    asked: "MapRequest"
    earlier: int
    """Number of items that already have an outcome and are not asked again."""
    forecast: "Forecast"
    """Forecast for the items without an outcome."""
    at_once: int
    spent: float
    """Cost of the earlier runs of the batch [USD]."""

    @property
    def rest(self) -> int | None:
        """Number of items to be asked about."""
        return None if self.asked.count is None else self.asked.count - self.earlier

    @property
    def most(self) -> float | None:
        """Maximum cost of the remaining items, within the limit; None if it is unknown [USD]."""
        limit = self.batch.cost_limit
        left = None if limit is None else max(limit - self.spent, 0.0)
        high = self.forecast.total_cost_high
        if high is None or left is None:
            return high if left is None else left
        return min(high, left)

    def __str__(self) -> str:
        return " · ".join(self._parts())

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        forecast = self.forecast
        return {
            "batch": self.batch.id,
            "items": self.asked.count,
            "earlier": self.earlier,
            "at_once": self.at_once,
            "cost_limit": self.batch.cost_limit,
            "first": [{"number": one.number, "input": one.input, "question": one.question} for one in self._first()],
            "forecast": {
                "runs": forecast.runs,
                "tool_calls": _figures(forecast.calls),
                "seconds": _figures(forecast.seconds),
                "cost_usd": _figures(forecast.cost_usd),
                "total_seconds": _rounded(forecast.total_seconds(self.at_once)),
                "total_cost_usd": _rounded(forecast.total_cost_low),
                "total_cost_usd_90": _rounded(forecast.total_cost_high),
            },
        }

    def show(self, *, json: bool) -> None:
        """Print the plan and the first questions."""
        from run_specialist.cli.console import print_json, print_line  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_progress import label  # noqa: PLC0415 - fast `--help`

        if json:
            print_json(self.as_json())
            return
        print_line(str(self))
        if self.forecast.runs:
            print_line(f"an item took {self._item('median')} (median), and nine of ten at most {self._item('high')}")
        for one in self._first():
            print_line(f"\n{one.number}  {label(one.input)}")
            print_line(textwrap.indent(one.question, "    "))
        print_line(f"\nbatch {self.batch.id}; nothing was sent")

    def _item(self, figure: str) -> str:
        """Return what a typical past run used, e.g. `4 tool calls, 31 s, $0.04`.

        figure: `median`, or `high`: the 90th percentile.
        """
        from run_specialist.budget import dollars  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_progress import counted, duration  # noqa: PLC0415 - fast `--help`

        forecast = self.forecast
        calls, seconds, cost = (
            None if one is None else getattr(one, figure)
            for one in (forecast.calls, forecast.seconds, forecast.cost_usd)
        )
        parts = [
            None if calls is None else counted(round(calls), "tool call"),
            None if seconds is None else duration(seconds),
            dollars(cost) if cost else None,
        ]
        return ", ".join(filter(None, parts))

    def _first(self) -> list["Item"]:
        return [*islice(self.asked.items(), SHOWN)]

    def _parts(self) -> Iterator[str]:
        from run_specialist.budget import dollars  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_progress import TELLING, counted, duration  # noqa: PLC0415 - fast `--help`

        items = self.asked.count
        if items is None:
            yield "items as they come"
        elif self.earlier:
            yield f"{counted(items)}, {self.earlier:,} of them with an outcome already"
        else:
            yield counted(items)
        if self.rest == 0:
            yield "nothing to ask"
            return
        forecast = self.forecast
        if not forecast.runs:
            yield f"no past runs: the first {TELLING} items give a forecast"
            return
        cost, seconds = forecast.cost_usd, forecast.seconds
        each = f" and {dollars(cost.high)}" if cost is not None and cost.high else ""
        if seconds is not None:
            yield f"9 of 10 past runs took at most {duration(seconds.high)}{each}"
        if self.rest is not None:
            yield ", ".join(self._totals())

    def _totals(self) -> Iterator[str]:
        from run_specialist.budget import dollars  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_progress import duration, spread  # noqa: PLC0415 - fast `--help`

        forecast = self.forecast
        low, high = forecast.total_cost_low, forecast.total_cost_high
        if low is not None and high:
            most = self.batch.cost_limit
            limit = "" if most is None else f", at most {dollars(most)}"
            yield f"about {spread(low, high)}{limit}"
        if (seconds := forecast.total_seconds(self.at_once)) is not None:
            yield f"{duration(seconds)} at {self.at_once} at once"


def _figures(typical: "Typical | None") -> dict[str, float] | None:
    if typical is None:
        return None
    return {"median": round(typical.median, 8), "nine_of_ten": round(typical.high, 8)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 8)


def planned(
    asked: MapRequest,
    runner: "Runner",
    each: EachRunOptions,
    bounds: dict[str, Any],
    retried: Sequence[str],
    *,
    is_over: bool = False,
) -> MapPlan:
    """Return a batch and its plan; sends nothing.

    each: options of each run.
    bounds: limits of the batch, as arguments of `Runner.map`.
    retried: statuses of earlier runs that are resumed.
    is_over: a fleet has finished the batch; only its outcomes are read.
    """
    from run_specialist.batch.limits import forecast  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.batch_options import RETRIED  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.console import fail  # noqa: PLC0415 - fast `--help`

    settings = each.settings
    with known_runs(runner.store) as known:
        if not known.are_stored and [*retried] != [*RETRIED[None]]:
            fail("--retry needs stored runs; name a store with --store")
        past = known.past(runner, asked.name, settings, each.model)
        cost = forecast(past, None).cost_usd
        typical = 0.0 if cost is None else cost.high
        batch = runner.map(
            asked.name,
            asked.given,
            None if asked.template is None else asked.template.text,
            source=asked.source.name,
            retry=retried,
            typical_cost=typical,
            **bounds,
            **settings,
        )
        if is_over:
            batch.only_read()
        earlier = known.earlier(batch.id, retried)
    count = asked.count
    ended = 0 if count is None else earlier.count(asked.items())
    return MapPlan(
        batch=batch,
        asked=asked,
        earlier=ended,
        forecast=forecast(past, None if count is None else count - ended),
        at_once=bounds["at_once"],
        spent=earlier.cost_usd,
    )


FAILED = "failed"
ENDED = frozenset({"answered", "landed", "partial", FAILED})
"""Statuses of runs that are not resumed without `--retry`, unless the endpoint caused the failure."""


@dataclass(frozen=True)
class EarlierRuns:
    """The runs that earlier calls have begun for a batch."""

    ended: frozenset[str] = frozenset()
    """Keys of the items that have an outcome and are not asked again."""
    cost_usd: float = 0.0
    """Known cost of all these runs [USD]."""

    def count(self, items: Iterable["Item"]) -> int:
        """Return how many items have an outcome."""
        return sum(item.key in self.ended for item in items) if self.ended else 0


class KnownRuns:
    """The runs in a store; empty if nothing is stored."""

    def __init__(self, store: "Store | None", *, are_stored: bool) -> None:
        self._store = store
        self.are_stored = are_stored
        """Whether runs will be stored, even if there is no store yet."""

    def past(self, runner: "Runner", name: str, settings: dict[str, Any], asked: str | None) -> Sequence["PastRun"]:
        """Return past runs comparable to the planned ones (same model, same project), newest first.

        settings: those of the call.
        asked: the model given with the call; None = that of the file or of the environment.
        """
        from run_specialist.batch.limits import alike  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

        if self._store is None:
            return ()
        file = runner.registry.find(name)
        model = _model(runner, name, settings, asked)
        stored = self._store.past(file.name, project_path(runner.root))
        return alike(stored, model, file.digest)

    def earlier(self, batch_id: str, retried: Collection[str]) -> EarlierRuns:
        """Return the runs of a batch.

        retried: statuses of earlier runs that are resumed.
        """
        if self._store is None:
            return EarlierRuns()
        own = [run for run in self._store.runs(ids=[f"{batch_id}-"]) if run.parent_id is None]
        ended = {run.run_id for run in own if run.status in ENDED and run.status not in retried}
        if any(run.status == FAILED for run in own):
            ended -= self._endpoint_failures(self._store.url, batch_id)
        keys = frozenset(run_id.removeprefix(f"{batch_id}-") for run_id in ended)
        return EarlierRuns(keys, sum(run.cost_usd or 0.0 for run in own))

    @staticmethod
    def _endpoint_failures(url: str, batch_id: str) -> set[str]:
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - only if runs have failed

        with StoredBatches(url) as stored:
            return stored.endpoint_failures(batch_id)


@contextmanager
def known_runs(store: str | None) -> Iterator[KnownRuns]:
    """Open the store of a runner for reading; raises StoreUnusable."""
    from run_specialist.errors import StoreMissing  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - as above

    url = place(store).url
    try:
        opened = None if url == NONE else Store(url)
    except StoreMissing:
        opened = None
    try:
        yield KnownRuns(opened, are_stored=url != NONE)
    finally:
        if opened is not None:
            opened.close()


def _model(runner: "Runner", name: str, settings: dict[str, Any], asked: str | None) -> str:
    """Return the model id of the planned runs."""
    from run_specialist.providers.choose import choose_model, described  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.settings import resolve  # noqa: PLC0415 - fast `--help`

    settled = resolve(runner.registry.find(name), settings).settings
    return described(choose_model(asked, settled.model, runner.default_model, settled.fallback_models)).provider.model


LOOK = 2.0
"""Interval at which a waiting command polls the queue [s]."""
SECONDS = 15.0
"""Interval of the progress lines, which are printed only after a change [s]."""
WITHOUT_ANSWER = ("dead", "cancelled")
"""States of items that a fleet has left without an outcome."""


@dataclass(frozen=True)
class FleetResult:
    """A batch that a fleet has finished."""

    lost: str = ""
    """Counts of the items without an outcome, as text; empty = none."""
    limit: str = ""
    """Why the batch ended at its cost limit; empty = it did not."""


def check_queue(batch: BatchOptions, items: str | None) -> None:
    """Exit if options exclude each other."""
    from run_specialist.cli.console import fail  # noqa: PLC0415 - fast `--help`

    if batch.wait and not batch.queue:
        fail("--wait waits for the workers of a fleet; it needs --queue")
    if batch.priority is not None and not batch.queue:
        fail("--priority orders the batches in the queue of a fleet; it needs --queue")
    if batch.wait and items == "-":
        fail("--wait reads the items a second time, with their answers; name a file instead of standard input")


def put_into_queue(
    plan: "MapPlan", runner: "Runner", each: EachRunOptions, batch: BatchOptions, answers: AnswerOptions, at_once: int
) -> FleetResult | None:
    """Put items into the queue, and wait for the fleet with `--wait`; return None without it.

    at_once: how many items the whole fleet may work on at the same time; 0 = any number.
    Exits if the batch is paused.
    """
    from run_specialist.cli.fleet import queue_url  # noqa: PLC0415 - fast `--help`

    return asyncio.run(_put(queue_url(runner.store), plan, runner, each, batch, answers, at_once))


async def _put(
    url: str,
    plan: "MapPlan",
    runner: "Runner",
    each: EachRunOptions,
    batch: BatchOptions,
    answers: AnswerOptions,
    at_once: int,
) -> FleetResult | None:
    from run_specialist.cli.batch_options import RETRIED  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.console import print_json, say  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.map_progress import counted  # noqa: PLC0415 - fast `--help`
    from run_specialist.fleet.batches import Control, put  # noqa: PLC0415 - a database library

    asked, cost = plan.asked, plan.forecast.cost_usd
    queued = await put(
        runner,
        url,
        asked.name,
        asked.given,
        question=None if asked.template is None else asked.template.text,
        model=each.model,
        settings=each.settings,
        source=asked.source.name,
        batch=batch.batch,
        at_once=at_once,
        cost_limit=plan.batch.cost_limit,
        require_model=each.require_model or None,
        priority=batch.priority,
        typical_cost=0.0 if cost is None else cost.high,
    )
    async with Control(url) as control:
        retried = await control.retry(queued.batch_id, RETRIED[batch.retry]) if batch.retry else 0
        again = f", {retried} to retry" if batch.retry else ""
        say(f"batch {queued.batch_id}: {counted(queued.items)}, {queued.added:,} new in the queue{again}")
        if queued.kept_model is not None:
            say(f"its runs keep the model of the first call, {queued.kept_model}")
        if batch.wait:
            return await _ended(control, queued.batch_id, quiet=answers.quiet)
    if answers.json_:
        print_json({"batch": queued.batch_id, "items": queued.items, "added": queued.added, "retried": retried})
    elif not answers.quiet:
        say(f"`specialists fleet status {queued.batch_id}` shows them; the same command with --wait writes the answers")
    return None


async def _ended(control: "Control", batch_id: str, *, quiet: bool) -> FleetResult:
    """Wait until the queue has no more items of the batch, also while the database is away; exit if it is paused."""
    from run_specialist.cli.console import say  # noqa: PLC0415 - fast `--help`
    from run_specialist.fleet.queue import QueueAway  # noqa: PLC0415 - a database library

    said, waited = "", SECONDS
    is_away = False
    while True:
        try:
            (status,) = await control.status(batch_id)
        except QueueAway as away:
            if not is_away:
                say(f"the database is unavailable, waiting: {away}")
            is_away = True
            await asyncio.sleep(LOOK)
            continue
        if is_away:
            say("the database is available again")
            is_away = False
        if not status.queued and not status.at_work:
            break
        if status.state == "paused":
            say(f"batch {batch_id} is paused: {status.reason}; to continue: specialists fleet resume {batch_id}")
            raise typer.Exit(4)
        if waited >= SECONDS and (line := _state(status)) != said and not quiet:
            say(line)
            said, waited = line, 0.0
        await asyncio.sleep(LOOK)
        waited += LOOK
    lost = (f"{count:,} {state}" for state in WITHOUT_ANSWER if (count := status.items.get(state)))
    limit = (status.reason or "") if status.state == "ended" else ""
    return FleetResult(", ".join(lost), limit)


def _state(status: "BatchStatus") -> str:
    """Return the progress of the fleet in one line."""
    from run_specialist.budget import dollars  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.map_progress import counted  # noqa: PLC0415 - fast `--help`

    total, rest = sum(status.items.values()), status.queued + status.at_work
    at_work = f"{status.at_work:,} at work, {counted(status.workers, 'worker')}"
    if not status.workers:
        at_work = "no worker has any now; `specialists worker` starts one"
    parts = [f"{total - rest:,} of {counted(total)} done", at_work]
    if status.cost_usd:
        parts.append(dollars(status.cost_usd))
    if status.reason is not None:
        parts.append(f"waits: {status.reason}")
    return " · ".join(parts)


INDENT = "  "


class MapWork:
    """One call of the command."""

    def __init__(
        self, plan: MapPlan, runner: "Runner", answers: AnswerOptions, call: "SameCall", reducer: "Reducer | None"
    ) -> None:
        self._plan = plan
        self._batch = plan.batch
        self._runner = runner
        self._answers = answers
        self._call = call
        self._reducer = reducer

    def work(self) -> int:
        """Run the batch, print the summary, and return the exit code."""
        from run_specialist.batch.answer_file import AnswerFile  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.console import redirect_to_null  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_run import MapWorker  # noqa: PLC0415 - fast `--help`
        from run_specialist.errors import UsageError  # noqa: PLC0415 - fast `--help`
        from run_specialist.record.outcome import Exit  # noqa: PLC0415 - fast `--help`

        batch, files = self._batch, self._files()
        with self._rows() as rows:
            if isinstance(rows, AnswerFile):
                batch.reuse(rows.earlier)
            worker = MapWorker(batch, [part for part in (rows, files) if part is not None], self._shown())
            try:
                worker.work(self._runner)
            except UsageError:
                if rows is not None and self._file is None:
                    # Its buffer would be written again at exit.
                    redirect_to_null(sys.stdout)
                raise
            if rows is not None and not batch.counts.not_run:
                rows.finish()
        code, reduced = int(batch.exit_code), None
        if files is not None and batch.counts.has_answer and not worker.interrupts.count:
            reduced = self._reduced(files)
            code = code or int(reduced.exit_code)
        if self._is_stored and batch.unstored:
            code = code or int(Exit.USAGE)
        self._show(worker.progress, code, reduced)
        return code

    @property
    def _is_for_people(self) -> bool:
        return not (self._answers.json_ or self._answers.events)

    def _files(self) -> "Answers | None":
        if self._reducer is None:
            return None
        from run_specialist.cli.map_run import Answers  # noqa: PLC0415 - only for --reduce

        return Answers(self._reducer, self._batch.id, is_stored=self._is_stored)

    def _rows(self) -> "AbstractContextManager[AnswerFile | AnswerStream | None]":
        """Return the output for the rows; None if answers are only stored."""
        from run_specialist.batch.answer_file import AnswerFile, AnswerStream  # noqa: PLC0415 - only for --reduce

        answers = self._answers
        if self._file is not None:
            items = Path(self._plan.asked.source.name)
            return AnswerFile(self._file, ordered=answers.ordered, items=items if items.is_file() else None)
        if not self._writes_rows:
            return nullcontext()
        return AnswerStream(sys.stdout, ordered=answers.ordered)

    @property
    def _writes_rows(self) -> bool:
        from run_specialist.cli.console import is_terminal  # noqa: PLC0415 - fast `--help`

        return self._answers.out is not None or (self._is_for_people and not is_terminal())

    @property
    def _prints_json(self) -> bool:
        """Whether standard output carries data for programs: JSON, events or rows."""
        return not self._is_for_people or (self._writes_rows and self._file is None)

    @property
    def _file(self) -> Path | None:
        from run_specialist.cli.console import STDOUT  # noqa: PLC0415 - fast `--help`

        return None if self._answers.out == STDOUT else self._answers.out

    @property
    def _is_stored(self) -> bool:
        from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`

        return place(self._runner.store).url != NONE

    def _shown(self) -> "MapDisplay":
        from run_specialist.cli.console import STDOUT, is_terminal  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_run import MapDisplay  # noqa: PLC0415 - fast `--help`

        answers = self._answers
        has_rows_here = answers.out == STDOUT and is_terminal()
        shows = not (answers.quiet or answers.events or has_rows_here)
        live = shows and sys.stderr is not None and is_terminal(sys.stderr)
        is_seen_here = answers.out is None and self._is_for_people and is_terminal()
        return MapDisplay(events=answers.events, live=live, lines=shows and not live, answers=is_seen_here)

    def _reduced(self, files: "Answers") -> "Outcome":
        asked = self._plan.asked
        template = None if asked.template is None else asked.template.text
        return files.reduce(asked.name, template, shown=not self._prints_json, quiet=self._answers.quiet)

    def _show(self, progress: "MapProgress", code: int, reduced: "Outcome | None") -> None:
        """Print the summary, as lines for people or as JSON."""
        from run_specialist.cli.console import print_json  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.map_run import MapSummary  # noqa: PLC0415 - fast `--help`

        ended = MapSummary(
            self._batch,
            progress,
            self._plan.asked.name,
            self._call,
            self._file,
            is_written=self._writes_rows,
            is_stored=self._is_stored,
        )
        if self._answers.json_:
            print_json(ended.as_json(reduced))
        elif self._answers.events and reduced is not None:
            print_json({"event": "reduced", "outcome": reduced.as_json()}, None)
        elif self._prints_json and reduced is not None:
            print_json({"reduced": reduced.as_json()}, None)
        if self._answers.quiet and not code:
            return
        _print_block([*ended.lines()])


def _print_block(lines: Sequence[tuple[str, str | None]]) -> None:
    """Print lines to standard error: one message on a terminal, otherwise one message per line.

    lines: each with the command in it that must not be wrapped, if any.
    """
    from run_specialist.cli.console import is_terminal, print_line, printable, say, stderr_width, wrapped  # noqa: PLC0415 - fast `--help`

    (first, command), *others = lines
    say(first, command=command)
    if not is_terminal(sys.stderr):
        for line, command in others:
            say(line, command=command)
        return
    width = stderr_width() - len(INDENT)
    for line, command in others:
        for part in wrapped(printable(line), width, printable(command or "")):
            print_line(INDENT + part, sys.stderr)
