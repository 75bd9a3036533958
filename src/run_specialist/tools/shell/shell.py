"""The tool `bash`: run a command line, only ever in a sandbox."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import SHELL as NAME
from run_specialist.specialist.tool_names import names_tool
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import Context
from run_specialist.tools.editing.change import report_changes, to_the_end
from run_specialist.tools.editing.file_checkpoint import FileCheckpoint, held, recovered
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path
from run_specialist.tools.shell.command_rules import CommandRules
from run_specialist.tools.shell.kept_output import KeptOutput
from run_specialist.tools.shell.one_command import OneCommand
from run_specialist.tools.shell.sandboxed_process import CommandExit
from run_specialist.tools.shell.shown_files import writable_places
from run_specialist.tools.threads import in_thread

LONGEST = 100_000
"""Maximum length of a command line [characters]."""

_DESCRIPTION = (
    "Run a command line with a shell, in a sandbox. It sees the files of the project that may be read, at their own "
    "paths, and the programs of this system; the working folder is the root, {root}. {changes} There is no network and "
    "no input. Each call begins anew: no variable, no folder and no process of an earlier one is left. The output, "
    "with that for errors, comes back with the exit code; a long one only with its beginning and end, so use head, "
    "tail or grep."
)
_OTHERS = "To find and read files use the other tools."
_NOTHING = "Nothing can be changed but /tmp, which is empty at first and gone after the call."
_POLL = 0.02
_MARGIN = 0.05
"""Share of the timeout reserved for ending the command, so that its output is not lost."""


def shell_tool(settings: Specialist, root: Path, copy: WorkingCopy | None = None) -> Tool:
    """Return the tool for one run.

    copy: informed that files may have changed.
    """
    made = _Shell(settings, Path(os.path.realpath(root)), copy)
    return Tool(NAME, made.description, made.bash, ends_itself=bool(made.writable))


class _Shell:
    """Runs the commands of one run."""

    def __init__(self, settings: Specialist, root: Path, copy: WorkingCopy | None) -> None:
        self._root = root
        self._copy = copy
        self._one_at_a_time = asyncio.Lock()
        self._has_looked_back = False
        self._closed = [Path(os.path.realpath(settings.path))] if settings.path else []
        self._rules = CommandRules.of(settings.tools, settings.disallowed_tools)
        self._limit = settings.tool_result_limit
        self.writable, _ = writable_places(root, settings.writable)
        changes = _NOTHING
        if self.writable:
            changes = f"Only {_listed(self.writable)} can be changed, and /tmp, which is gone after the call."
        others = _OTHERS if any(names_tool(settings.tools, name) for name in ("search", "grep", "read")) else ""
        parts = (_DESCRIPTION.format(root=root, changes=changes), others, str(self._rules))
        self.description = " ".join(part for part in parts if part)
        sandbox = Sandbox(root, () if settings.paths is None else settings.paths)
        self._runner = OneCommand(sandbox, self.writable)

    async def bash(
        self,
        command: Annotated[str, Field(min_length=1, description="The command line, as for `bash -c`.")],
        context: Context,
    ) -> Output:
        """Run a command line; return its output with a note about its end."""
        if refusal := self._rules.refusal(command):
            raise ToolError(refusal)
        if len(command) > LONGEST:
            raise ToolError(f"a command line has at most {LONGEST:,} characters")
        if "\0" in command:
            raise ToolError("a command line cannot contain a NUL character")
        output = KeptOutput(4 * self._limit)
        seconds = context.seconds * (1 - _MARGIN)
        if not self.writable:
            ended = await self._runner.run(command, output, seconds)
            return Output(output.text(self._limit), _note(ended), is_error=bool(ended.stopped))
        # A file moved by one command could be hidden from the checks of another, or taken for a change of it.
        async with self._one_at_a_time, self._alone(seconds) as seconds:
            if not self._has_looked_back:
                await self._recover(context)
            checkpoint = await in_thread(lambda: self._checkpoint(context))
            try:
                ended = await self._runner.run(command, output, seconds, checkpoint)
            finally:
                undone = await self._record_uncancelled(checkpoint, context)
        note = _note(ended)
        if undone:
            note += f"\n[undone, because nothing may be changed there: {_listed([*map(escape_path, undone)])}]"
        return Output(output.text(self._limit), note, is_error=bool(ended.stopped))

    @asynccontextmanager
    async def _alone(self, seconds: float) -> AsyncIterator[float]:
        """Wait until no other run has a command in these folders; return a context with the time left [s]."""
        until = time.monotonic() + seconds
        while True:
            with held(self._root, self.writable) as is_free:
                if is_free:
                    yield until - time.monotonic()
                    return
            if time.monotonic() > until:
                raise ToolError("a command of another run is changing the same folders; try again later")
            await asyncio.sleep(_POLL)

    async def _recover(self, context: Context) -> None:
        """Record what the last command changed before the process of this resumed run was killed."""
        left = await in_thread(lambda: recovered(context.run_id))
        if left is not None:
            await report_changes(left, context.log)
        self._has_looked_back = True

    def _checkpoint(self, context: Context) -> FileCheckpoint:
        closed = [*self._closed, *(self._copy.closed() if self._copy is not None else ())]
        return FileCheckpoint.take(self._root, self.writable, closed, context.run_id, context.call_id)

    async def _record_uncancelled(self, checkpoint: FileCheckpoint, context: Context) -> Sequence[str]:
        """Record what a command has changed, and return the places that were put back.

        A cancellation takes effect afterwards.
        """
        undone: list[str] = []

        async def record() -> None:
            changes = await in_thread(checkpoint.compare)
            undone.extend(changes.undone)
            if await report_changes(changes, context.log):
                await in_thread(checkpoint.discard)

        try:
            await to_the_end(record(), lambda: None)
        finally:
            if self._copy is not None:
                self._copy.changes += 1
        return undone


def _note(ended: CommandExit) -> str:
    return f"[stopped: {ended.stopped}]" if ended.stopped else f"[exit code {ended.exit_code}]"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name or "the whole root" for name in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown  # noqa: PLR2004 - as above
