"""Record the sessions in README.md and docs/map.md from the real commands, on the screen of a terminal emulator.

uv run --with pyte python docs/record_session.py [FILE]...
"""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyte

ROOT = Path(__file__).resolve().parents[1]
MAP = "specialists map thoughts-analyzer --files 'thoughts/shared/decisions/**/*-is-*.md' --question 'Why: {stem}?'"
QUESTION = "Why is a soft landing better than a hard cutoff?"
SESSIONS = {
    "README.md": [f'run-specialist thoughts-analyzer "{QUESTION}" --tool-calls-limit 6'],
    "docs/map.md": [MAP, f"{MAP} --out answers.csv"],
}
"""The commands of each file, which use one store."""
WIDTH, HEIGHT = 100, 60
BEGIN, END = "<!-- session: recorded by docs/record_session.py -->", "<!-- /session -->"


def record(command: str, folder: str) -> str:
    """Run a command on a pseudo-terminal, and return the final content of the screen.

    folder: has the store, and receives the files that the command writes by name.
    """
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    name, *words = shlex.split(command)
    program = [Path(sys.executable).with_name(name), *words, "--root", str(ROOT), "--dir", str(ROOT / "specialists")]
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    # Set by environment variables, so that the printed commands do not name them.
    environment = {**os.environ, "SPECIALIST_STORE": f"{folder}/runs.db", "SPECIALIST_MODEL": "offline"}
    with subprocess.Popen(program, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        try:
            while piece := os.read(main, 65536):
                stream.feed(piece)
        except OSError:
            pass  # a pseudo-terminal reports its end as an error
    os.close(main)
    return "\n".join(line.rstrip() for line in screen.display).strip()


def main(files: Sequence[str]) -> None:
    """Replace the sessions between their markers in some files, or in all."""
    for name in files or SESSIONS:
        page = ROOT / name
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        with TemporaryDirectory() as folder:
            session = "\n\n".join(f"$ {command}\n{record(command, folder)}" for command in SESSIONS[name])
        page.write_text(f"{before}{BEGIN}\n```console\n{session}\n```\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
