"""A forked program finds the same state and ends in the same way as one in its own interpreter."""

import signal
import subprocess
import sys

import pytest

from tests.forked_program import ForkedProgram, run_forked

STATE = """
import os, signal, sys
streams = [(one.encoding, one.errors, one.line_buffering, one.mode, one.isatty()) for one in
           (sys.stdin, sys.stdout, sys.stderr)]
handled = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)]
kept = ("HOME", "MARK", "PYTHONIOENCODING", "PYTEST_CURRENT_TEST")
mask = os.umask(0)
print(streams, handled, sys.argv, os.getcwd(), mask, os.getppid(), os.getsid(0) == os.getpid(), __name__,
      [os.environ.get(name) for name in kept], sys.warnoptions, sys.path[0], sys.stdin.read(), "grün")
"""
CLOSED = """
import os, sys
from pathlib import Path
kept = [number for number in range(3) if os.path.exists(f"/proc/self/fd/{number}")]
Path(sys.argv[1]).write_text(str([sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__, kept]))
print("lost")
"""
FORKS = "import sys; sys.exit('tests.program_forks' not in sys.modules)"
ENDINGS = {
    "code": "import sys; print('out'); sys.exit(7)",
    "message": "import sys; sys.exit('no')",
    "error": "raise ValueError('bad')",
    "at exit": "import atexit; atexit.register(print, 'left')",
    "thread": "import threading, time; threading.Timer(0.01, print, ['late']).start()",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "Ctrl-C": "import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()",
    "full": "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('lost')",
    "unclosed": "import gc; open('/dev/null')",
}


def both(code, **options):
    """Run a program in its own interpreter and as a fork; return code and outputs of each."""
    command = [sys.executable, "-W", "error", "-c", code, "one", "two"]
    given = {"capture_output": True, "text": True} | options
    return [
        run(command, **given)
        for run in (lambda *words, **more: subprocess.run(*words, **more, check=False), run_forked)
    ]


@pytest.fixture
def forks():
    """Skip the test where programs are not forked."""
    if run_forked([sys.executable, "-W", "error", "-c", FORKS]).returncode:
        pytest.skip("no forks on this system")


@pytest.mark.exhaustive
def test_the_state_is_the_same(forks, tmp_path, monkeypatch):
    """Streams, handlers, arguments, folder, umask, parent, session and environment are those of an own interpreter."""
    monkeypatch.setenv("MARK", "ü")
    (tmp_path / "in").write_text("given")
    for session in (False, True):
        found = []
        with (tmp_path / "in").open() as first, (tmp_path / "in").open() as second:
            for run, stdin in ((subprocess.Popen, first), (ForkedProgram, second)):
                command = [sys.executable, "-W", "error", "-c", STATE, "one", "two"]
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "stdin": stdin}
                with run(command, cwd=tmp_path, start_new_session=session, **pipes) as process:
                    found.append((*process.communicate(timeout=60), process.returncode))
        assert found[0][0].split() == found[1][0].split()
        assert found[0][1:] == found[1][1:]
        assert found[0][1:] == ("", 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ENDINGS)
def test_the_end_is_the_same(forks, name):
    """Exit code, output and the last line of errors are those of an own interpreter."""
    own, forked = both(ENDINGS[name])
    assert (own.returncode, own.stdout) == (forked.returncode, forked.stdout)
    assert own.stderr.splitlines()[-1:] == forked.stderr.splitlines()[-1:]


@pytest.mark.exhaustive
def test_closed_streams_are_the_same(forks, tmp_path):
    """Of streams that are closed there is neither an object nor a descriptor."""
    command = [sys.executable, "-W", "error", "-c", CLOSED]
    shell = ["/bin/sh", "-c", 'exec "$@" >&- 2>&-', "sh"]
    own = subprocess.run([*shell, *command, tmp_path / "own"], check=False)
    forked = run_forked([*command, tmp_path / "forked"], closed=(1, 2))
    assert own.returncode == forked.returncode == 0
    assert (tmp_path / "own").read_text() == (tmp_path / "forked").read_text() == "[None, None, None, None, [0]]"


def test_it_is_a_child_that_takes_signals(forks):
    """A forked program is a child of this process: its end by a signal is its return code."""
    command = [sys.executable, "-W", "error", "-c", "import signal; print('up', flush=True); signal.pause()"]
    with ForkedProgram(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
