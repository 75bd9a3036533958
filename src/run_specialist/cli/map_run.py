"""One call of `specialists map`: read the items, plan the runs, confirm the cost, work or queue them, summarize."""

import asyncio
import hashlib
import shlex
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from run_specialist.api.event_loop import with_bounded_cleanup
from run_specialist.api.runner import Runner
from run_specialist.batch.answer_file import AnswerFile, AnswerFolder, AnswerStream
from run_specialist.batch.batch import Batch
from run_specialist.batch.item import Counts
from run_specialist.batch.limits import alike, forecast
from run_specialist.batch.questions import Template, asked, check
from run_specialist.batch.read_items import STDIN, Source, files_source, source_of
from run_specialist.budget import counted, dollars
from run_specialist.cli import batch_options, console
from run_specialist.cli.ask import answer
from run_specialist.cli.flags import OutputOptions, ProjectOptions, config_for_run
from run_specialist.cli.fleet import queue_url
from run_specialist.cli.help import given_words
from run_specialist.cli.map_progress import TELLING, MapProgress, MapWorker, by_state, label, reason_of, spread
from run_specialist.cli.runs import existing_store
from run_specialist.cli.tables import duration_words
from run_specialist.errors import SpecialistNotFound, UsageError
from run_specialist.loop.account import rounded
from run_specialist.record.outcome import Exit, Outcome
from run_specialist.specialist.project import project_path
from run_specialist.store.batch_reader import StoredBatches
from run_specialist.store.location import NONE, default_folder, place, shown
from run_specialist.store.reader import Store
from run_specialist.store.stored import PastRun

if TYPE_CHECKING:
    from run_specialist.fleet.batches import BatchStatus, Control


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
# States of items that a fleet has left without an outcome.
_WITHOUT_ANSWER = ("dead", "cancelled")


@dataclass
class MapCall:
    """One call of the command, from its options to its summary."""

    context: typer.Context
    name: str
    items: str | None
    options: batch_options.MapOptions
    each_run: batch_options.EachRunOptions
    project: ProjectOptions

    def __post_init__(self) -> None:
        """Check the items and plan their runs; sends nothing.

        Exits, or raises UsageError, if no question can be asked about the items.
        """
        options, project, items = self.options, self.project, self.items
        self.words = given_words(self.context)
        """The arguments as given; the command that continues the batch is built from them."""
        # The default is that of one process; a fleet may work on any number of items at the same time (0).
        given = self.context.get_parameter_source("at_once")
        self._fleet_at_once = options.at_once if given is not None and given.name == "COMMANDLINE" else 0

        self.file = None if options.out == console.STDOUT else options.out
        """The file of the answers; None = this call writes none."""
        is_for_people = not (options.json_ or options.events)
        self.writes_rows = options.out is not None or (is_for_people and not console.is_terminal())
        # Whether standard output carries data for programs: JSON, events or rows.
        self._prints_data = not is_for_people or (self.writes_rows and self.file is None)

        self._config = config_for_run(project.root, self.each_run.model, trust=project.trust, quiet=options.quiet)
        self._runner = self._runner_in(project.root)
        self._url = place(self._runner.store).url
        self.is_stored = self._url != NONE

        if (options.wait or options.priority is not None) and not options.queue:
            console.fail("--wait or --priority is about the queue of a fleet; it needs --queue")
        if options.wait and items == STDIN:
            console.fail("--wait reads the items a second time; name a file instead of standard input")
        if options.retry and not self.is_stored:
            console.fail("--retry needs stored runs; name a store with --store")
        self._source = self._source_of(items)
        self._template = None if options.question is None else Template(options.question)
        self._inputs = check(self._source, self._template)
        # The number of items; None if they can be read only once.
        self._count = len(self._inputs) if isinstance(self._inputs, Sized) else None
        # The file of the specialist that combines the answers; None without `--reduce`.
        try:
            self._reducing = None if options.reduce is None else self._runner.registry.find(options.reduce).path
        except SpecialistNotFound:
            if " " not in str(options.reduce).strip():
                raise
            console.fail("--reduce takes the name of a specialist; give a text as --reduce-question TEXT beside it")
        self._plan(batch_options.RETRIED[options.retry])

    def work(self) -> int:
        """Execute the command; return the exit code."""
        if self.options.dry_run:
            self._show_plan()
            return 0
        if not self.options.quiet:
            console.say(" · ".join(self._plan_parts()))
        # The maximum cost of the remaining items; None if it is unknown.
        most, limit = self._forecast.total_cost_high, self.batch.cost_limit
        if limit is not None:
            unspent = max(limit - self._spent, 0.0)
            most = unspent if most is None else min(most, unspent)
        self.options.confirm(most if self._forecast.runs else None)
        if self.options.queue:
            ended = asyncio.run(self._queued(queue_url(self._runner.store)))
            if ended is None:
                return 0
            # The fleet has worked on the items: what is left is to read their answers.
            self._plan(())
            lost = ", ".join(f"{ended.items[state]:,} {state}" for state in _WITHOUT_ANSWER if ended.items.get(state))
            if lost:
                again = f"`specialists fleet retry {self.batch.id}`, then the same command"
                self.batch.only_read(f"the fleet has left items without an outcome, {lost}; {again}")
            else:
                self.batch.only_read(ended.reason if ended.state == "ended" else None, "cost_limit")
        return self._work_here()

    def _runner_in(self, root: Path | None) -> Runner:
        """Return a runner whose file tools can read a folder."""
        project = replace(self.project, root=root)
        return batch_options.batch_runner(self._config, project, self.each_run, quiet=self.options.quiet)

    def _source_of(self, items: str | None) -> Source:
        """Return the source of the items; exit if the options leave it open or name two.

        Raises UsageError if the source cannot be read.
        """
        files, format_ = self.options.files, self.options.format_
        if files is not None:
            if items is not None or format_ is not None:
                console.fail("--files cannot be combined with ITEMS and --format; quote the glob")
            specialist = self._runner.registry.find(self.name).specialist
            return files_source(files, self._runner.root, (specialist and specialist.paths) or ())
        if items is None:
            console.fail("there are no items; name a file, `-` for standard input, or use --files 'docs/*.md'")
        if items == STDIN and console.is_terminal(sys.stdin):
            console.say("type one item per line, then press Ctrl-D on an empty line")
        return source_of(items, format_)

    def _plan(self, retried: Sequence[str]) -> None:
        """Make the batch, and forecast it from past runs; sends nothing.

        retried: statuses of earlier runs that are resumed.
        """
        with existing_store(self._runner.store) as store:
            past = forecast(() if store is None else self._past(store), None)
            self._typical_cost = 0.0 if past.cost_usd is None else past.cost_usd.high
            self.batch: Batch = self._runner.map(
                self.name,
                self._inputs,
                self.options.question,
                source=self._source.name,
                retry=retried,
                typical_cost=self._typical_cost,
                **self.options.bounds,
                **self.each_run.settings,
            )
            ended: set[str] = set()
            # Known cost of the earlier runs of the batch [USD].
            self._spent = 0.0
            if store is not None:
                ended, self._spent = self._earlier_runs(store, retried)
        # Number of items that already have an outcome and are not asked again.
        self._earlier = 0
        if ended and self._count is not None:
            self._earlier = sum(item.key in ended for item in asked(self._inputs, self._template))
        self._forecast = replace(past, items=None if self._count is None else self._count - self._earlier)

    def _past(self, store: Store) -> Sequence[PastRun]:
        """Return past runs comparable to the planned ones (same model, same project), newest first."""
        file, batches = self._runner.registry.find(self.name), self._runner.batches
        request = self._runner.maker.asked(file, self.name, {**self.each_run.settings, "model": self.each_run.model})
        return alike(store.past(file.name, project_path(self._runner.root)), batches.model_of(request), file.digest)

    def _earlier_runs(self, store: Store, retried: Sequence[str]) -> tuple[set[str], float]:
        """Return the keys of the items that have an outcome, and the known cost of all earlier runs of the batch [USD].

        retried: statuses of earlier runs that are resumed.
        """
        batch_id = self.batch.id
        own = [run for run in store.runs(ids=[f"{batch_id}-"]) if run.parent_id is None]
        ended = {run.run_id for run in own if run.status in ENDED and run.status not in retried}
        if any(run.status == "failed" for run in own):
            with StoredBatches(store.url) as stored:
                ended -= stored.endpoint_failures(batch_id)
        return {run_id.removeprefix(f"{batch_id}-") for run_id in ended}, sum(run.cost_usd or 0.0 for run in own)

    def _show_plan(self) -> None:
        """Print the plan and the first questions."""
        expected, at_once = self._forecast, self.options.at_once
        first = [*islice(asked(self._inputs, self._template), SHOWN)]
        if not self.options.json_:
            console.print_line(" · ".join(self._plan_parts()))
            for one in first:
                console.print_line(f"\n{one.number}  {label(one.input)}")
                console.print_line(textwrap.indent(one.question, "    "))
            console.print_line(f"\nbatch {self.batch.id}; nothing was sent")
            return
        figures = {
            name: (one := getattr(expected, name)) and {"median": rounded(one.median), "nine_of_ten": rounded(one.high)}
            for name in ("tool_calls", "seconds", "cost_usd")
        }
        console.print_json(
            {
                "batch": self.batch.id,
                "items": self._count,
                "earlier": self._earlier,
                "at_once": at_once,
                "cost_limit": self.batch.cost_limit,
                "first": [{"number": one.number, "input": one.input, "question": one.question} for one in first],
                "forecast": {
                    "runs": expected.runs,
                    **figures,
                    "total_seconds": rounded(expected.total_seconds(at_once)),
                    "total_cost_usd": rounded(expected.total_cost_low),
                    "total_cost_usd_90": rounded(expected.total_cost_high),
                },
            }
        )

    def _plan_parts(self) -> Iterator[str]:
        earlier = f", {self._earlier:,} of them with an outcome already" if self._earlier else ""
        yield "items as they come" if self._count is None else f"{counted(self._count, 'item')}{earlier}"
        expected, at_once = self._forecast, self.options.at_once
        if expected.items == 0:
            yield "nothing to ask"
            return
        if not expected.runs:
            yield f"no past runs: the first {TELLING} items give a forecast"
            return
        cost, seconds = expected.cost_usd, expected.seconds
        each = f" and {dollars(cost.high)}" if cost is not None and cost.high else ""
        if seconds is not None:
            yield f"9 of 10 past runs took at most {duration_words(seconds.high)}{each}"
        totals = []
        low, high, limit = expected.total_cost_low, expected.total_cost_high, self.batch.cost_limit
        if low is not None and high:
            totals.append(f"about {spread(low, high)}{'' if limit is None else f', at most {dollars(limit)}'}")
        if (total := expected.total_seconds(at_once)) is not None:
            totals.append(f"{duration_words(total)} at {at_once} at once")
        if totals:
            yield ", ".join(totals)

    async def _queued(self, url: str) -> "BatchStatus | None":
        """Put the items into the queue; with `--wait`, wait for the fleet and return the state of the batch.

        url: the store with the queue.
        Exits if the batch is paused.
        """
        from run_specialist.fleet.batches import Control, put  # noqa: PLC0415 - a database library

        options, each = self.options, self.each_run
        batch_id = self.batch.id
        items, added = await put(
            self._runner,
            url,
            self.name,
            self._inputs,
            batch_id=batch_id,
            question=options.question,
            model=each.model,
            settings=each.settings,
            at_once=self._fleet_at_once,
            cost_limit=self.batch.cost_limit,
            require_model=each.require_model or None,
            priority=options.priority,
            typical_cost=self._typical_cost,
        )
        async with Control(url) as control:
            retried = await control.retry(batch_id, batch_options.RETRIED[options.retry]) if options.retry else 0
            again = f", {retried} to retry" if options.retry else ""
            console.say(f"batch {batch_id}: {counted(items, 'item')}, {added:,} new in the queue{again}")
            if options.wait:
                return await self._ended_by_fleet(control, batch_id)
        if options.json_:
            console.print_json({"batch": batch_id, "items": items, "added": added, "retried": retried})
        elif not options.quiet:
            command = f"`specialists fleet status {batch_id}`"
            console.say(f"{command} shows them; the same command with --wait writes the answers")
        return None

    async def _ended_by_fleet(self, control: "Control", batch_id: str) -> "BatchStatus":
        """Return the state of a batch as soon as the queue has no more items of it; exit if it is paused.

        Waits also while the database is away.
        """
        from run_specialist.fleet.queue import QueueAway  # noqa: PLC0415 - a database library

        said, next_at = "", 0.0
        while True:
            try:
                (status,) = await control.status(batch_id)
            except QueueAway as away:
                line = f"the database is unavailable, waiting: {away}"
            else:
                rest = status.queued + status.at_work
                if not rest:
                    return status
                if status.state == "paused":
                    resume = f"specialists fleet resume {batch_id}"
                    console.say(f"batch {batch_id} is paused: {status.reason}; to continue: {resume}")
                    raise typer.Exit(int(Exit.NO_ANSWER))
                total = sum(status.items.values())
                workers = f"{status.at_work:,} at work, {counted(status.workers, 'worker')}"
                parts = [
                    f"{total - rest:,} of {counted(total, 'item')} done",
                    workers if status.workers else "no worker has any now; `specialists worker` starts one",
                    dollars(status.cost_usd) if status.cost_usd else "",
                    "" if status.reason is None else f"waits: {status.reason}",
                ]
                line = " · ".join(filter(None, parts))
            if line != said and time.monotonic() >= next_at and not self.options.quiet:
                console.say(line)
                said, next_at = line, time.monotonic() + SECONDS
            await asyncio.sleep(LOOK)

    def _work_here(self) -> int:
        """Run the batch, print the summary, and return the exit code."""
        batch, options = self.batch, self.options
        folder = None
        if self._reducing is not None:
            kept = default_folder() / "batches" / batch.id / "answers"
            folder = AnswerFolder(kept if self.is_stored else Path(tempfile.mkdtemp(prefix=f"answers-{batch.id}-")))
        rows_to: AbstractContextManager[AnswerFile | AnswerStream | None] = nullcontext()
        if self.file is not None:
            items = Path(self._source.name)
            rows_to = AnswerFile(self.file, ordered=options.ordered, items=items if items.is_file() else None)
        elif self.writes_rows:
            rows_to = AnswerStream(sys.stdout, ordered=options.ordered)
        shows = not (options.quiet or options.events or (options.out == console.STDOUT and console.is_terminal()))
        with rows_to as rows:
            if isinstance(rows, AnswerFile):
                batch.reuse(rows.earlier)
            worker = MapWorker(
                batch,
                [*([] if rows is None else [rows.write]), *([] if folder is None else [folder.add])],
                shows=shows,
                events=options.events,
                answers=options.out is None and not self._prints_data and console.is_terminal(),
            )
            try:
                worker.work(self._runner)
            except UsageError:
                if rows is not None and self.file is None:
                    # Its buffer would be written again at exit.
                    console.redirect_to_null(sys.stdout)
                raise
            if rows is not None and not batch.counts.not_run:
                rows.finish()
        code, reduced = int(batch.exit_code), None
        if folder is not None and batch.counts.has_answer and not worker.interrupts:
            reduced = self._reduce(folder, str(self._reducing))
            code = code or int(reduced.exit_code)
        unstored = batch.unstored if self.is_stored else 0
        code = code or int(Exit.USAGE if unstored else Exit.OK)
        if options.json_:
            console.print_json(self._summary_json(worker.progress, unstored, reduced))
        elif reduced is not None and options.events:
            console.print_json({"event": "reduced", "outcome": reduced.as_json()}, None)
        elif reduced is not None and self._prints_data:
            console.print_json({"reduced": reduced.as_json()}, None)
        lines = summary_lines(self, worker.progress) if code or not options.quiet else ()
        for number, (line, command) in enumerate(lines):
            console.say(line, command=command, follows=number > 0)
        return code

    def _reduce(self, folder: AnswerFolder, path: str) -> Outcome:
        """Ask a specialist about all answers; a repeated call is not paid for twice.

        path: of its file.
        """
        own = self.options.reduce_question or ""
        question, runner = folder.finish(self.name, self.options.question, own), self._runner_in(folder.folder)
        # Another specialist, or another question, is another run.
        digest = hashlib.sha256(f"{path}\0{own}".encode())
        for one in sorted(folder.folder.glob("*.md")):
            digest.update(one.name.encode() + b"\0" + one.read_bytes() + b"\0")
        run_id = f"{self.batch.id}-reduced-{digest.hexdigest()[:16]}"

        prepare = partial(runner.take_up, run_id, path, question, paths=None, retry=RESUMED)

        async def once() -> Outcome:
            async with runner:
                return await (await prepare()).outcome()

        if self._prints_data:
            return asyncio.run(with_bounded_cleanup(once()))
        return answer(runner, prepare, OutputOptions(quiet=self.options.quiet))

    def _summary_json(self, progress: MapProgress, unstored: int, reduced: Outcome | None) -> dict[str, Any]:
        batch, counts = self.batch, asdict(self.batch.counts)
        return {
            "batch": batch.id,
            "specialist": self.name,
            "items": _total(batch.counts),
            "counts": {name: counts[name] for name in counts if name not in {"under_way", "earlier", "total"}},
            "earlier": progress.earlier,
            "cost_usd": None if progress.spent is None else round(progress.spent, 8),
            "duration_s": round(progress.seconds, 3),
            "ended_because": batch.ended_because,
            "problem": batch.problem,
            "not_stored": unstored,
            "out": None if self.file is None else str(self.file),
            "reduced": None if reduced is None else reduced.as_json(),
        }


def _total(counts: Counts) -> int:
    return counts.done + counts.not_run if counts.total is None else counts.total


def summary_lines(call: MapCall, progress: MapProgress) -> Iterator[tuple[str, str | None]]:
    """Yield the lines about a batch that has ended, each with the command in it that must not be wrapped, if any."""
    batch, counts, spent, file = call.batch, call.batch.counts, progress.spent, call.file
    yield f"{counted(_total(counts), 'item')} for {call.name}: {', '.join(by_state(counts)) or 'none'}", None

    limit = "" if batch.cost_limit is None else f" of at most {dollars(batch.cost_limit)}"
    now = f", {dollars(progress.new_cost)} of it now" if progress.new_cost and progress.earlier else ""
    parts = [
        "price unknown" if spent is None else f"{dollars(spent)}{limit}{now}" if spent else "",
        duration_words(progress.seconds),
        f"paused for {duration_words(progress.seconds_paused)} of it" if progress.seconds_paused >= 1 else "",
        f"{counted(progress.earlier, 'outcome')} of earlier calls, not paid again" if progress.earlier else "",
    ]
    yield " · ".join(filter(None, parts)), None
    if reason := reason_of(batch):
        yield reason, None
    if call.is_stored and (unstored := batch.unstored):
        runs = f"{counted(unstored, 'run')} {'is' if unstored == 1 else 'are'} not stored"
        kept = file is not None and file.suffix.lower() != ".csv"
        rest = f"their answers are in {file}, and are used from there" if kept else "they would be paid again"
        yield f"{runs}: free disk space, or check the store, before you repeat the command; {rest}", None
    if file is not None and file.exists():
        yield f"answers: {file}", None
    if not call.is_stored:
        return
    if file is None and not call.writes_rows:
        yield "the answers are stored; the same command with --out FILE writes them at no cost", None
    command = same_command(call.words)
    if batch.ended_because == "cost_limit":
        yield "to continue, raise --cost-limit", None
    elif (counts.not_run or counts.aborted) and batch.ended_because != "fleet":
        yield f"to continue: {command}", command
    if counts.failed:
        command = same_command(call.words, "--retry", "failed")
        yield f"to retry the failed: {command}", command
    page = f"specialists report {batch.id}"
    yield f"batch {batch.id}; its page: {page}", page


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
