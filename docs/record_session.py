"""Record the session in README.md from the real command, on the screen of a terminal emulator.

uv run --with pyte python docs/record_session.py
"""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from tempfile import TemporaryDirectory

import pyte

ROOT = Path(__file__).resolve().parents[1]
COMMAND = 'run-specialist thoughts-analyzer "What happens to a run that is killed?" --tool-calls-limit 6'
WIDTH, HEIGHT = 100, 60
BEGIN, END = "<!-- session: recorded by docs/record_session.py -->", "<!-- /session -->"


def record() -> str:
    """Run the command on a pseudo-terminal, with a temporary store, and return the final content of the screen."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    program = Path(sys.executable).with_name("run-specialist")
    command = [program, *shlex.split(COMMAND)[1:], "--model", "offline"]
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    with TemporaryDirectory() as folder:
        # Set by an environment variable, so that the printed resume command does not name the store.
        environment = {**os.environ, "SPECIALIST_STORE": f"{folder}/runs.db"}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=terminal, stdout=terminal, stderr=terminal):
            os.close(terminal)
            try:
                while piece := os.read(main, 65536):
                    stream.feed(piece)
            except OSError:
                pass  # a pseudo-terminal reports its end as an error
    os.close(main)
    return "\n".join(line.rstrip() for line in screen.display).strip()


def main() -> None:
    """Replace the session between its markers in README.md."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    session = f"```console\n$ {COMMAND}\n{record()}\n```"
    readme.write_text(f"{before}{BEGIN}\n{session}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
