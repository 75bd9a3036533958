"""Run a planned batch for `specialists map`, write its answers, and print the summary."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.cli.batch.map_options import AnswerOptions
from run_specialist.cli.batch.map_plan import MapPlan
from run_specialist.cli.batch.map_run import MapDisplay, MapWorker
from run_specialist.cli.batch.map_summary import MapSummary, SameCall
from run_specialist.cli.console import is_terminal, print_json, print_line, printable, redirect_to_null, say
from run_specialist.cli.output_file import STDOUT
from run_specialist.cli.wrapping import stderr_width, wrapped
from run_specialist.errors import UsageError
from run_specialist.record.outcome import Exit

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.answers.answer_file import AnswerFile
    from run_specialist.batch.answers.answer_stream import AnswerStream
    from run_specialist.cli.batch.map_progress import MapProgress
    from run_specialist.cli.batch.map_reduce import Answers, Reducer
    from run_specialist.record.outcome import Outcome

INDENT = "  "


class MapWork:
    """One call of the command."""

    def __init__(
        self, plan: MapPlan, runner: "Runner", answers: AnswerOptions, call: SameCall, reducer: "Reducer | None"
    ) -> None:
        self._plan = plan
        self._batch = plan.batch
        self._runner = runner
        self._answers = answers
        self._call = call
        self._reducer = reducer

    def work(self) -> int:
        """Run the batch, print the summary, and return the exit code."""
        from run_specialist.batch.answers.answer_file import AnswerFile  # noqa: PLC0415 - fast `--help`

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
        from run_specialist.cli.batch.map_reduce import Answers  # noqa: PLC0415 - only for --reduce

        return Answers(self._reducer, self._batch.id, is_stored=self._is_stored)

    def _rows(self) -> "AbstractContextManager[AnswerFile | AnswerStream | None]":
        """Return the output for the rows; None if answers are only stored."""
        from run_specialist.batch.answers.answer_file import AnswerFile  # noqa: PLC0415 - as above
        from run_specialist.batch.answers.answer_stream import AnswerStream  # noqa: PLC0415 - fast `--help`

        answers = self._answers
        if self._file is not None:
            items = Path(self._plan.asked.source.name)
            return AnswerFile(self._file, ordered=answers.ordered, items=items if items.is_file() else None)
        if not self._writes_rows:
            return nullcontext()
        return AnswerStream(sys.stdout, ordered=answers.ordered)

    @property
    def _writes_rows(self) -> bool:
        return self._answers.out is not None or (self._is_for_people and not is_terminal())

    @property
    def _prints_json(self) -> bool:
        """Whether standard output carries data for programs: JSON, events or rows."""
        return not self._is_for_people or (self._writes_rows and self._file is None)

    @property
    def _file(self) -> Path | None:
        return None if self._answers.out == STDOUT else self._answers.out

    @property
    def _is_stored(self) -> bool:
        from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`

        return place(self._runner.store).url != NONE

    def _shown(self) -> MapDisplay:
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
