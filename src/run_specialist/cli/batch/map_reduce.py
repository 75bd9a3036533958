"""`specialists map --reduce SPECIALIST`: ask another specialist to combine the answers, which it reads as files."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.api.shutdown import with_bounded_cleanup
from run_specialist.batch.answers.answer_folder import AnswerFolder, folder_for
from run_specialist.cli.live_run import answer
from run_specialist.cli.output_file import OutputFile
from run_specialist.cli.output_options import OutputSettings

if TYPE_CHECKING:
    from run_specialist.api.ended_run import EndedRun
    from run_specialist.api.runner import Runner
    from run_specialist.batch.done import Done
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Listener
    from run_specialist.record.outcome import Outcome
    from run_specialist.specialist.loader import SpecialistFile

RESUMED = ("failed", "aborted")
"""Statuses of earlier runs about the same answers that are resumed."""


@dataclass(frozen=True)
class Reducer:
    """A specialist, and a function that makes a runner whose root is the folder with the answers."""

    file: "SpecialistFile"
    make_runner: Callable[[Path], "Runner"]


class Answers:
    """The answers of a batch as files in a folder."""

    def __init__(self, reducer: Reducer, batch_id: str, *, is_stored: bool) -> None:
        """Create an empty folder; raises OSError."""
        self._reducer = reducer
        self._batch_id = batch_id
        self._is_stored = is_stored
        self._folder = AnswerFolder(folder_for(batch_id, is_stored=is_stored))

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self._folder.folder

    def write(self, done: "Done") -> None:
        """Write the file of an item; raises OSError."""
        self._folder.add(done)

    def reduce(self, specialist: str, asked: str | None, *, shown: bool, quiet: bool) -> "Outcome":
        """Ask the specialist about all answers and return its outcome; a repeated call is not paid for twice.

        specialist, asked: as for `AnswerFolder.finish`.
        shown: whether to show the run and print its answer.
        """
        question = self._folder.finish(specialist, asked)
        runner = self._reducer.make_runner(self.folder)
        run_id = f"{self._batch_id}-reduced-{self._digest()}" if self._is_stored else None

        async def prepare(*, listener: "Listener | None", watch: "Watch | None") -> "Run | EndedRun":
            path = str(self._reducer.file.path)
            if run_id is None:
                return await runner.prepare(path, question, paths=None, listener=listener, watch=watch)
            return await runner.take_up(
                run_id, path, question, paths=None, retry=RESUMED, listener=listener, watch=watch
            )

        async def once() -> "Outcome":
            async with runner:
                run = await prepare(listener=None, watch=None)
                return await run.outcome()

        if not shown:
            return asyncio.run(with_bounded_cleanup(once()))
        return answer(
            runner, prepare, OutputSettings(json=False, events=False, quiet=quiet, raw=False, file=OutputFile(None))
        )

    def _digest(self) -> str:
        """Return 16 hexadecimal digits that depend on the files."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.md")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]
