"""The tool `bash`: run a command line, only ever in a sandbox."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import SHELL as NAME
from run_specialist.specialist.tool_names import names_tool
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import Context
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.sandbox.sandbox import Sandbox
from run_specialist.tools.shell.command_rules import CommandRules
from run_specialist.tools.shell.kept_output import KeptOutput
from run_specialist.tools.shell.one_command import OneCommand
from run_specialist.tools.shell.sandboxed_process import CommandExit
from run_specialist.tools.shell.shown_files import writable_places

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
_MARGIN = 0.05
"""Share of the timeout reserved for ending the command, so that its output is not lost."""


def shell_tool(settings: Specialist, root: Path, copy: WorkingCopy | None = None) -> Tool:
    """Return the tool for one run.

    copy: informed that files may have changed.
    """
    made = _Shell(settings, Path(os.path.realpath(root)), copy)
    return Tool(NAME, made.description, made.bash)


class _Shell:
    """Runs the commands of one run."""

    def __init__(self, settings: Specialist, root: Path, copy: WorkingCopy | None) -> None:
        self._copy = copy
        self._rules = CommandRules.of(settings.tools, settings.disallowed_tools)
        self._limit = settings.tool_result_limit
        self._writable, _ = writable_places(root, settings.writable)
        changes = _NOTHING
        if self._writable:
            changes = f"Only {_listed(self._writable)} can be changed, and /tmp, which is gone after the call."
        others = _OTHERS if any(names_tool(settings.tools, name) for name in ("search", "grep", "read")) else ""
        parts = (_DESCRIPTION.format(root=root, changes=changes), others, str(self._rules))
        self.description = " ".join(part for part in parts if part)
        sandbox = Sandbox(root, () if settings.paths is None else settings.paths)
        closed = [Path(os.path.realpath(settings.path))] if settings.path else []
        self._runner = OneCommand(sandbox, self._writable, closed)

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
        try:
            ended, undone = await self._runner.run(command, output, seconds)
        finally:
            if self._writable and self._copy is not None:
                self._copy.changes += 1
        note = _note(ended)
        if undone:
            note += f"\n[undone, because nothing may be changed there: {_listed(undone)}]"
        return Output(output.text(self._limit), note, is_error=bool(ended.stopped))


def _note(ended: CommandExit) -> str:
    return f"[stopped: {ended.stopped}]" if ended.stopped else f"[exit code {ended.exit_code}]"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name or "the whole root" for name in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown  # noqa: PLR2004 - as above
