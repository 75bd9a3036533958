"""A terminal to run the commands on, and text that would be harmful on one."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Sequence

from tests.forked_program import run_forked

POISON = (
    "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b]8;;http://owned\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x1b[5;7mowned\x1b[8m\x1bc"
    "\x9b2J\x9d0;owned\x9c\x90owned\x9c\x85\u202eowned\u202c\u2066\u200f\b\b\b\a\v\f\x0e\x7f\rowned\x00\u2028\ufeff\udc1b"
)
"""Title, clipboard, link, screen, colours, reset; C1 controls; bidirectional controls; cursor; a lone surrogate."""
SENDABLE = POISON.replace("\udc1b", "")
"""The part that can be encoded as UTF-8."""
NAMEABLE = SENDABLE.replace("\x00", "").replace("/", "")
"""The part that can be in a file name or an argument."""

PATIENCE = 120
"""Timeout for all commands together [s]."""
_OURS = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\[\?(?:25|7)[lh]|\x1b\[2K|\x1b\[C\x1b\[J\x1b\[D|\x1b\[[0-9]*A|\r+(?=\n|\x1b\[|$)"
)
_NEVER_OURS = re.compile(r"\x1b\[(?:[0-9]+;)*[578](?:;[0-9]+)*m")
_DRIVER = """
import importlib, json, sys
for program, *arguments in json.load(open(sys.argv[1])):
    sys.argv = [program, *arguments]
    print("$", program, ascii(arguments), flush=True)
    try:
        importlib.import_module(
            "run_specialist.cli." + {"run-specialist": "ask", "specialists": "manage"}[program]
        ).main()
    except SystemExit as end:
        print("->", end.code, flush=True)
"""


def on_terminal(folder: os.PathLike[str], commands: Sequence[Sequence[str]]) -> dict[str, str]:
    """Run commands one after the other on a pseudo-terminal, and return the output of each.

    folder: Working directory, which also receives the list of commands.
    """
    listed = os.path.join(folder, "commands.json")  # noqa: PTH118 - one line
    with open(listed, "w") as file:  # noqa: PTH123 - one line
        json.dump([list(words) for words in commands], file)
    ours, theirs = pty.openpty()
    got: list[bytes] = []

    def gather() -> None:
        try:
            while piece := os.read(ours, 65_536):
                got.append(piece)
        except OSError:
            pass  # reading from a closed pseudo-terminal fails

    reader = threading.Thread(target=gather)
    reader.start()
    try:
        command = [sys.executable, "-W", "error", "-c", _DRIVER, listed]
        run_forked(
            command,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=os.environ | {"PAGER": "cat"},  # a pager would wait for keys
            timeout=PATIENCE,
            check=True,
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    shown = b"".join(got).decode("utf-8", "surrogateescape")
    return dict(zip((" ".join(words) for words in commands), shown.split("$ ")[1:], strict=False))


def harm(shown: str) -> list[str]:
    """Return the control characters in an output that the program does not use itself, each with its context."""
    rest = _OURS.sub("", shown)
    found = [match[0] for match in _NEVER_OURS.finditer(shown)]
    found += [
        f"{sign!r} in {rest[max(0, at - 40) : at + 40]!r}"
        for at, sign in enumerate(rest)
        if not (sign.isprintable() or sign in "\n\t")
    ]
    return found
