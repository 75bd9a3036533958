"""Open a file in the user's editor, chosen and started as git does it."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

VARIABLES = ("VISUAL", "EDITOR")
"""Variables that name the editor, in this order; VISUAL not on a terminal that cannot move its cursor."""
_SHELL = "/bin/sh"


def chosen_editor(path: Path) -> str:
    """Return the editor's command; raises UsageError that names the file if no variable is set."""
    names = VARIABLES[1:] if os.environ.get("TERM") == "dumb" else VARIABLES
    command = next((value for name in names if (value := os.environ.get(name, "").strip())), "")
    if not command:
        raise UsageError(
            f"no editor: set {' or '.join(names)}, for example to `nano` or `code --wait`; "
            f"the file is {shown(str(path), None)}"
        )
    return command


def edit_file(path: Path, command: str) -> None:
    """Run the editor on a file and wait for its end; Ctrl-C is left to the editor.

    command: As in VISUAL; a shell splits it and expands its variables, but never reads the path.
    Raises UsageError if the editor cannot be started or fails.
    """
    # The first argument after the script is its name, `$0`.
    words = (
        [_SHELL, "-c", f'{command} "$@"', command, str(path)]
        if os.name == "posix"
        else [*(word.strip('"') for word in shlex.split(command, posix=False)), str(path)]
    )
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:
        # The editor would inherit that a signal is ignored, but not a handler.
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.call(words)  # noqa: S603 - the user's own command
    except (OSError, ValueError) as error:
        raise UsageError(f"the editor {shown(command)} cannot be started: {error}") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
        raise UsageError(f"the editor {shown(command)} {how}")
