"""One call of `specialists map`: read the items, plan the runs, confirm the cost, work or queue them, summarize."""

import asyncio
import hashlib
import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence, Sized
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, replace
from decimal import ROUND_UP, Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from run_specialist.api.event_loop import with_bounded_cleanup
from run_specialist.batch.answer_file import AnswerFile, AnswerFolder, AnswerStream, folder_for
from run_specialist.batch.item import Item
from run_specialist.batch.limits import Typical, alike, forecast
from run_specialist.batch.questions import Template, asked, check
from run_specialist.batch.read_items import STDIN, Source, files_source, source_of
from run_specialist.budget import dollars
from run_specialist.cli.ask import answer
from run_specialist.cli.batch_options import (
    RETRIED,
    AnswerOptions,
    BatchOptions,
    EachRunOptions,
    ItemOptions,
    MoneyOptions,
    ProjectOptions,
    batch_runner,
)
from run_specialist.cli.console import (
    STDOUT,
    fail,
    is_terminal,
    print_json,
    print_line,
    printable,
    redirect_to_null,
    say,
    stderr_width,
    wrapped,
)
from run_specialist.cli.flags import OutputOptions, config_for_run
from run_specialist.cli.fleet import queue_url
from run_specialist.cli.map_progress import (
    TELLING,
    MapProgress,
    MapWorker,
    by_state,
    counted,
    label,
    reason_of,
    spread,
)
from run_specialist.cli.tables import duration_words
from run_specialist.errors import StoreMissing, UsageError
from run_specialist.record.outcome import Exit
from run_specialist.specialist.project import project_path
from run_specialist.store.location import NONE, place, shown

if TYPE_CHECKING:
    from run_specialist.api.run_maker import EndedRun
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch
    from run_specialist.fleet.batches import Control
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Listener
    from run_specialist.record.outcome import Outcome
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import PastRun


SHOWN = 3
"""Number of questions that a dry run shows."""
ENDED = frozenset({"answered", "landed", "partial", "failed"})
"""Statuses of runs that are not resumed without `--retry`, unless the endpoint caused the failure."""
RESUMED = ("failed", "aborted")
"""Statuses of earlier runs about the same answers that are resumed."""
LOOK = 2.0
"""Interval at which a waiting command polls the queue [s]."""
SECONDS = 15.0
"""Interval of the progress lines of a fleet, which are printed only after a change [s]."""
WITHOUT_ANSWER = ("dead", "cancelled")
"""States of items that a fleet has left without an outcome."""


class MapCall:
    """One call of the command, from its options to its summary."""

    def __init__(
        self,
        name: str,
        items: str | None,
        each_item: ItemOptions,
        answers: AnswerOptions,
        money: MoneyOptions,
        batch: BatchOptions,
        each_run: EachRunOptions,
        project: ProjectOptions,
        *,
        words: Sequence[str],
        fleet_at_once: int,
    ) -> None:
        """Check the items and plan their runs; sends nothing.

        words: the arguments as given; the command that continues the batch is built from them.
        fleet_at_once: how many items a fleet may work on at the same time; 0 = any number.
        Exits, or raises UsageError, if no question can be asked about the items.
        """
        self._name = name
        self._answers = answers
        self._money = money
        self._options = batch
        self._each_run = each_run
        self._project = project
        self._words = words
        self._fleet_at_once = fleet_at_once

        self._file = None if answers.out == STDOUT else answers.out
        is_for_people = not (answers.json_ or answers.events)
        self._writes_rows = answers.out is not None or (is_for_people and not is_terminal())
        self._prints_data = not is_for_people or (self._writes_rows and self._file is None)
        """Whether standard output carries data for programs: JSON, events or rows."""

        self._config = config_for_run(project.root, each_run.model, trust=project.trust, quiet=answers.quiet)
        self._runner = self._runner_in(project.root)
        self._url = place(self._runner.store).url
        self._is_stored = self._url != NONE

        if batch.wait and not batch.queue:
            fail("--wait waits for the workers of a fleet; it needs --queue")
        if batch.priority is not None and not batch.queue:
            fail("--priority orders the batches in the queue of a fleet; it needs --queue")
        if batch.wait and items == STDIN:
            fail("--wait reads the items a second time, with their answers; name a file instead of standard input")
        self._source = self._source_of(items, each_item)
        self._template = None if each_item.question is None else Template(each_item.question)
        self._inputs = check(self._source, self._template)
        self._count = len(self._inputs) if isinstance(self._inputs, Sized) else None
        """The number of items; None if they can be read only once."""
        self._reducing = None if answers.reduce is None else self._runner.registry.find(answers.reduce).path
        """The file of the specialist that combines the answers; None without `--reduce`."""
        self._plan(RETRIED[batch.retry])

    def work(self) -> int:
        """Execute the command; return the exit code."""
        if self._options.dry_run:
            self._show_plan()
            return 0
        if not self._answers.quiet:
            say(" · ".join(self._plan_parts()))
        # The maximum cost of the remaining items; None if it is unknown.
        most, limit = self._forecast.total_cost_high, self._batch.cost_limit
        if limit is not None:
            unspent = max(limit - self._spent, 0.0)
            most = unspent if most is None else min(most, unspent)
        self._money.confirm(most if self._forecast.runs else None)
        if self._options.queue:
            url = queue_url(self._runner.store)
            left = asyncio.run(self._queued(url))
            if left is None:
                return 0
            # The fleet has worked on the items: what is left is to read their answers.
            self._plan(RETRIED[None], is_over=True)
            lost, reached = left
            if lost:
                again = f"`specialists fleet retry {self._batch.id}`, then the same command"
                self._batch.only_read(f"the fleet has left items without an outcome, {lost}; {again}")
            elif reached:
                self._batch.only_read(reached, "cost_limit")
        return self._work_here()

    def _runner_in(self, root: Path | None) -> "Runner":
        """Return a runner whose file tools can read a folder."""
        project = replace(self._project, root=root)
        return batch_runner(self._config, project, self._each_run, quiet=self._answers.quiet)

    def _source_of(self, items: str | None, each: ItemOptions) -> Source:
        """Return the source of the items; exit if the options leave it open or name two.

        Raises UsageError if the source cannot be read.
        """
        if each.files is not None:
            if items is not None:
                fail("ITEMS and --files cannot be combined; use one of them, and quotes around the glob")
            if each.format_ is not None:
                fail("--format is about ITEMS; it cannot be combined with --files")
            specialist = self._runner.registry.find(self._name).specialist
            return files_source(each.files, self._runner.root, (specialist and specialist.paths) or ())
        if items is None:
            fail("there are no items; name a file, `-` for standard input, or use --files 'docs/*.md'")
        if items == STDIN and is_terminal(sys.stdin):
            say("type one item per line, then press Ctrl-D on an empty line")
        return source_of(items, each.format_)

    def _items(self) -> Iterator[Item]:
        """Yield the items with their questions."""
        return asked(self._inputs, self._template)

    @property
    def _question(self) -> str | None:
        """The question about each item, as a template; None if each item is its question."""
        return None if self._template is None else self._template.text

    def _plan(self, retried: Sequence[str], *, is_over: bool = False) -> None:
        """Make the batch, and forecast it from past runs; sends nothing.

        retried: statuses of earlier runs that are resumed.
        is_over: a fleet has finished the batch; only its outcomes are read.
        """
        if retried and not self._is_stored:
            fail("--retry needs stored runs; name a store with --store")
        from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

        with ExitStack() as stack:
            store: Store | None = None
            # There is no store before the first run.
            with suppress(StoreMissing):
                store = stack.enter_context(closing(Store(self._url))) if self._is_stored else None
            past = () if store is None else self._past(store)
            cost = forecast(past, None).cost_usd
            self._typical_cost = 0.0 if cost is None else cost.high
            limits = self._options.bounds
            if self._money.limit is not None:
                limits["cost_limit"] = self._money.limit
            self._batch: Batch = self._runner.map(
                self._name,
                self._inputs,
                self._question,
                source=self._source.name,
                retry=retried,
                typical_cost=self._typical_cost,
                **limits,
                **self._each_run.settings,
            )
            if is_over:
                self._batch.only_read()
            ended: set[str] = set()
            self._spent = 0.0
            """Known cost of the earlier runs of the batch [USD]."""
            if store is not None:
                ended, self._spent = self._earlier_runs(store, retried)
        self._earlier = sum(item.key in ended for item in self._items()) if ended and self._count is not None else 0
        """Number of items that already have an outcome and are not asked again."""
        self._rest = None if self._count is None else self._count - self._earlier
        """Number of items to be asked about."""
        self._forecast = forecast(past, self._rest)

    def _past(self, store: "Store") -> "Sequence[PastRun]":
        """Return past runs comparable to the planned ones (same model, same project), newest first."""
        from run_specialist.providers.choose import choose_model, described  # noqa: PLC0415 - only for stored runs
        from run_specialist.specialist.settings import resolve  # noqa: PLC0415 - only for stored runs

        runner = self._runner
        file = runner.registry.find(self._name)
        settled = resolve(file, self._each_run.settings).settings
        chosen = choose_model(self._each_run.model, settled.model, runner.default_model, settled.fallback_models)
        stored = store.past(file.name, project_path(runner.root))
        return alike(stored, described(chosen).provider.model, file.digest)

    def _earlier_runs(self, store: "Store", retried: Sequence[str]) -> tuple[set[str], float]:
        """Return the keys of the items that have an outcome, and the known cost of all earlier runs of the batch [USD].

        retried: statuses of earlier runs that are resumed.
        """
        batch_id = self._batch.id
        own = [run for run in store.runs(ids=[f"{batch_id}-"]) if run.parent_id is None]
        ended = {run.run_id for run in own if run.status in ENDED and run.status not in retried}
        if any(run.status == "failed" for run in own):
            from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - only if runs have failed

            with StoredBatches(store.url) as stored:
                ended -= stored.endpoint_failures(batch_id)
        return {run_id.removeprefix(f"{batch_id}-") for run_id in ended}, sum(run.cost_usd or 0.0 for run in own)

    def _show_plan(self) -> None:
        """Print the plan and the first questions."""
        first = [*islice(self._items(), SHOWN)]
        if self._answers.json_:
            print_json(self._plan_json(first))
            return
        print_line(" · ".join(self._plan_parts()))
        if self._forecast.runs:
            print_line(f"an item took {self._item('median')} (median), and nine of ten at most {self._item('high')}")
        for one in first:
            print_line(f"\n{one.number}  {label(one.input)}")
            print_line(textwrap.indent(one.question, "    "))
        print_line(f"\nbatch {self._batch.id}; nothing was sent")

    def _plan_json(self, first: Sequence[Item]) -> dict[str, Any]:
        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 8)

        def figures(typical: Typical | None) -> dict[str, float | None] | None:
            if typical is None:
                return None
            return {"median": rounded(typical.median), "nine_of_ten": rounded(typical.high)}

        expected = self._forecast
        return {
            "batch": self._batch.id,
            "items": self._count,
            "earlier": self._earlier,
            "at_once": self._options.at_once,
            "cost_limit": self._batch.cost_limit,
            "first": [{"number": one.number, "input": one.input, "question": one.question} for one in first],
            "forecast": {
                "runs": expected.runs,
                "tool_calls": figures(expected.calls),
                "seconds": figures(expected.seconds),
                "cost_usd": figures(expected.cost_usd),
                "total_seconds": rounded(expected.total_seconds(self._options.at_once)),
                "total_cost_usd": rounded(expected.total_cost_low),
                "total_cost_usd_90": rounded(expected.total_cost_high),
            },
        }

    def _item(self, figure: str) -> str:
        """Return what a typical past run used, e.g. `4 tool calls, 31 s, $0.04`.

        figure: `median`, or `high`: the 90th percentile.
        """
        expected = self._forecast
        calls, seconds, cost = (
            None if one is None else getattr(one, figure)
            for one in (expected.calls, expected.seconds, expected.cost_usd)
        )
        parts = [
            None if calls is None else counted(round(calls), "tool call"),
            None if seconds is None else duration_words(seconds),
            dollars(cost) if cost else None,
        ]
        return ", ".join(filter(None, parts))

    def _plan_parts(self) -> Iterator[str]:
        if self._count is None:
            yield "items as they come"
        elif self._earlier:
            yield f"{counted(self._count)}, {self._earlier:,} of them with an outcome already"
        else:
            yield counted(self._count)
        if self._rest == 0:
            yield "nothing to ask"
            return
        expected = self._forecast
        if not expected.runs:
            yield f"no past runs: the first {TELLING} items give a forecast"
            return
        cost, seconds = expected.cost_usd, expected.seconds
        each = f" and {dollars(cost.high)}" if cost is not None and cost.high else ""
        if seconds is not None:
            yield f"9 of 10 past runs took at most {duration_words(seconds.high)}{each}"
        if self._rest is None:
            return
        totals = []
        low, high = expected.total_cost_low, expected.total_cost_high
        if low is not None and high:
            most = self._batch.cost_limit
            limit = "" if most is None else f", at most {dollars(most)}"
            totals.append(f"about {spread(low, high)}{limit}")
        if (total := expected.total_seconds(self._options.at_once)) is not None:
            totals.append(f"{duration_words(total)} at {self._options.at_once} at once")
        yield ", ".join(totals)

    async def _queued(self, url: str) -> tuple[str, str] | None:
        """Put the items into the queue; with `--wait`, wait for the fleet and return what `_left_by_fleet` returns.

        url: the store with the queue.
        Exits if the batch is paused.
        """
        from run_specialist.fleet.batches import Control, put  # noqa: PLC0415 - a database library

        options, each, answers = self._options, self._each_run, self._answers
        queued = await put(
            self._runner,
            url,
            self._name,
            self._inputs,
            question=self._question,
            model=each.model,
            settings=each.settings,
            source=self._source.name,
            batch=options.batch,
            at_once=self._fleet_at_once,
            cost_limit=self._batch.cost_limit,
            require_model=each.require_model or None,
            priority=options.priority,
            typical_cost=self._typical_cost,
        )
        async with Control(url) as control:
            retried = await control.retry(queued.batch_id, RETRIED[options.retry]) if options.retry else 0
            again = f", {retried} to retry" if options.retry else ""
            say(f"batch {queued.batch_id}: {counted(queued.items)}, {queued.added:,} new in the queue{again}")
            if queued.kept_model is not None:
                say(f"its runs keep the model of the first call, {queued.kept_model}")
            if options.wait:
                return await self._left_by_fleet(control, queued.batch_id)
        if answers.json_:
            print_json({"batch": queued.batch_id, "items": queued.items, "added": queued.added, "retried": retried})
        elif not answers.quiet:
            command = f"`specialists fleet status {queued.batch_id}`"
            say(f"{command} shows them; the same command with --wait writes the answers")
        return None

    async def _left_by_fleet(self, control: "Control", batch_id: str) -> tuple[str, str]:
        """Wait until the queue has no more items of the batch, also while the database is away; exit if it is paused.

        Returns the counts of the items without an outcome, and why the batch ended at its cost limit; each as text,
        empty if that did not happen.
        """
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
            rest = status.queued + status.at_work
            if not rest:
                break
            if status.state == "paused":
                say(f"batch {batch_id} is paused: {status.reason}; to continue: specialists fleet resume {batch_id}")
                raise typer.Exit(int(Exit.NO_ANSWER))
            total = sum(status.items.values())
            at_work = f"{status.at_work:,} at work, {counted(status.workers, 'worker')}"
            parts = [
                f"{total - rest:,} of {counted(total)} done",
                at_work if status.workers else "no worker has any now; `specialists worker` starts one",
                dollars(status.cost_usd) if status.cost_usd else "",
                "" if status.reason is None else f"waits: {status.reason}",
            ]
            line = " · ".join(filter(None, parts))
            if waited >= SECONDS and line != said and not self._answers.quiet:
                say(line)
                said, waited = line, 0.0
            await asyncio.sleep(LOOK)
            waited += LOOK
        lost = (f"{count:,} {state}" for state in WITHOUT_ANSWER if (count := status.items.get(state)))
        limit = (status.reason or "") if status.state == "ended" else ""
        return ", ".join(lost), limit

    def _work_here(self) -> int:
        """Run the batch, print the summary, and return the exit code."""
        batch, answers = self._batch, self._answers
        folder = None
        if self._reducing is not None:
            folder = AnswerFolder(folder_for(batch.id, is_stored=self._is_stored))
        has_rows_here = answers.out == STDOUT and is_terminal()
        rows_to: AbstractContextManager[AnswerFile | AnswerStream | None] = nullcontext()
        if self._file is not None:
            items = Path(self._source.name)
            rows_to = AnswerFile(self._file, ordered=answers.ordered, items=items if items.is_file() else None)
        elif self._writes_rows:
            rows_to = AnswerStream(sys.stdout, ordered=answers.ordered)
        with rows_to as rows:
            if isinstance(rows, AnswerFile):
                batch.reuse(rows.earlier)
            worker = MapWorker(
                batch,
                [*([] if rows is None else [rows.write]), *([] if folder is None else [folder.add])],
                shows=not (answers.quiet or answers.events or has_rows_here),
                events=answers.events,
                answers=answers.out is None and not self._prints_data and is_terminal(),
            )
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
        if folder is not None and batch.counts.has_answer and not worker.interrupts:
            reduced = self._reduce(folder, str(self._reducing))
            code = code or int(reduced.exit_code)
        if self._is_stored and batch.unstored:
            code = code or int(Exit.USAGE)
        self._summarize(worker.progress, code, reduced)
        return code

    def _reduce(self, folder: AnswerFolder, path: str) -> "Outcome":
        """Ask a specialist about all answers; a repeated call is not paid for twice.

        path: of its file.
        """
        question = folder.finish(self._name, self._question)
        runner = self._runner_in(folder.folder)
        digest = hashlib.sha256()
        for one in sorted(folder.folder.glob("*.md")):
            digest.update(one.name.encode() + b"\0" + one.read_bytes() + b"\0")
        run_id = f"{self._batch.id}-reduced-{digest.hexdigest()[:16]}"

        async def prepare(*, listener: "Listener | None" = None, watch: "Watch | None" = None) -> "Run | EndedRun":
            if not self._is_stored:
                return await runner.prepare(path, question, paths=None, listener=listener, watch=watch)
            return await runner.take_up(
                run_id, path, question, paths=None, retry=RESUMED, listener=listener, watch=watch
            )

        async def once() -> "Outcome":
            async with runner:
                run = await prepare()
                return await run.outcome()

        if self._prints_data:
            return asyncio.run(with_bounded_cleanup(once()))
        quiet = self._answers.quiet
        output = OutputOptions(quiet=quiet)
        return answer(runner, prepare, output)

    def _summarize(self, progress: MapProgress, code: int, reduced: "Outcome | None") -> None:
        """Print the summary, as lines for people or as JSON."""
        batch, answers = self._batch, self._answers
        if answers.json_:
            unstored = batch.unstored if self._is_stored else 0
            print_json(summary_json(batch, progress, self._name, unstored, self._file, reduced))
        elif reduced is not None and answers.events:
            print_json({"event": "reduced", "outcome": reduced.as_json()}, None)
        elif reduced is not None and self._prints_data:
            print_json({"reduced": reduced.as_json()}, None)
        if answers.quiet and not code:
            return
        lines = summary_lines(
            batch,
            progress,
            self._name,
            self._words,
            out=self._file,
            is_written=self._writes_rows,
            is_stored=self._is_stored,
        )
        (first, command), *others = lines
        say(first, command=command)
        if not is_terminal(sys.stderr):
            for line, command in others:
                say(line, command=command)
            return
        # On a terminal they are one message.
        width = stderr_width() - len(INDENT)
        for line, command in others:
            for part in wrapped(printable(line), width, printable(command or "")):
                print_line(INDENT + part, sys.stderr)


INDENT = "  "
ROOM = 1.1
"""Factor between the expected cost and a suggested limit: an item begins only if the rest covers a typical one."""


def summary_json(
    batch: "Batch",
    progress: MapProgress,
    specialist: str,
    unstored: int,
    out: Path | None,
    reduced: "Outcome | None",
) -> dict[str, Any]:
    """Return the summary of a batch that has ended as JSON values."""
    counts = batch.counts
    return {
        "batch": batch.id,
        "specialist": specialist,
        "items": counts.done + counts.not_run if counts.total is None else counts.total,
        "counts": {
            name: value for name, value in asdict(counts).items() if name not in {"under_way", "earlier", "total"}
        },
        "earlier": progress.earlier,
        "cost_usd": None if progress.spent is None else round(progress.spent, 8),
        "duration_s": round(progress.seconds, 3),
        "ended_because": batch.ended_because,
        "problem": batch.problem,
        "not_stored": unstored,
        "out": None if out is None else str(out),
        "reduced": None if reduced is None else reduced.as_json(),
    }


def summary_lines(
    batch: "Batch",
    progress: MapProgress,
    specialist: str,
    words: Sequence[str],
    *,
    out: Path | None,
    is_written: bool,
    is_stored: bool,
) -> Iterator[tuple[str, str | None]]:
    """Yield the lines about a batch that has ended, each with the command in it that must not be wrapped, if any.

    words: the arguments of the call, after `specialists map`.
    out: the file of the answers; None = this call writes none.
    is_written: whether the answers were written to any output.
    """
    counts = batch.counts
    total = counts.done + counts.not_run if counts.total is None else counts.total
    yield f"{counted(total)} for {specialist}: {', '.join(by_state(counts)) or 'none'}", None
    yield " · ".join(_figures(progress, batch.cost_limit)), None
    if reason := reason_of(batch):
        yield reason, None
    if is_stored and (unstored := batch.unstored):
        runs = f"{counted(unstored, 'run')} {'is' if unstored == 1 else 'are'} not stored"
        kept = out is not None and out.suffix.lower() != ".csv"
        rest = f"their answers are in {out}, and are used from there" if kept else "they would be paid again"
        yield f"{runs}: free disk space, or check the store, before you repeat the command; {rest}", None
    if out is not None:
        if out.exists():
            yield f"answers: {out}", None
    elif is_stored and not is_written:
        yield "the answers are stored; the same command with --out FILE writes them at no cost", None
    if is_stored:
        yield from _next_commands(batch, progress.spent, words)
        page = f"specialists report {batch.id}"
        yield f"batch {batch.id}; its page: {page}", page


def _figures(progress: MapProgress, cost_limit: float | None) -> Iterator[str]:
    if progress.spent is None:
        yield "price unknown"
    elif progress.spent:
        now = progress.new_cost
        part = f", {dollars(now)} of it now" if now and progress.earlier else ""
        limit = "" if cost_limit is None else f" of at most {dollars(cost_limit)}"
        yield f"{dollars(progress.spent)}{limit}{part}"
    yield duration_words(progress.seconds)
    if progress.seconds_paused >= 1:
        yield f"paused for {duration_words(progress.seconds_paused)} of it"
    if progress.earlier:
        yield f"{counted(progress.earlier, 'outcome')} of earlier calls, not paid again"


def _next_commands(batch: "Batch", spent: float | None, words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield a line for each command that continues the batch, with that command."""
    counts = batch.counts
    if batch.ended_because == "cost_limit":
        if spent and counts.done:
            # Enough for all items, if the others cost as much as those so far.
            needed = spent * (counts.done + counts.not_run) / counts.done
            # Two significant digits, rounded up. 1.1 is a little more in binary, and must not become 1.2.
            exact = Decimal(f"{max(needed, batch.cost_limit or 0.0) * ROOM:.12g}")
            limit = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), rounding=ROUND_UP)
            command = same_command(words, "--cost-limit", f"{limit:f}")
            yield f"to continue with a higher limit: {command}", command
        else:
            yield "to continue, raise --cost-limit", None
    elif (counts.not_run or counts.aborted) and batch.ended_because != "fleet":
        command = same_command(words)
        yield f"to continue: {command}", command
    if counts.failed:
        command = same_command(words, "--retry", "failed")
        yield f"to retry the failed: {command}", command


def same_command(words: Sequence[str], option: str = "", value: str = "") -> str:
    """Return the command line of a call without passwords, with another value of an option.

    words: the arguments after `specialists map`.
    """
    kept, skip = [], False
    for word in words:
        if not option or (not skip and word != option and not word.startswith(f"{option}=")):
            kept.append(shown(word) if "://" in word else word)
        skip = word == option
    return shlex.join(["specialists", "map", *kept, *([option, value] if option else [])])
