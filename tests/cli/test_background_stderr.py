"""A server's standard error keeps the order of lines for a reader, and never blocks the server without one."""

import logging
import os
import time
import warnings

import pytest

from run_specialist.cli.mcp import BackgroundStderr

TIMELESS = 30
"""A timeout that is longer than any test [s]."""


@pytest.fixture
def pipe():
    """A pipe, as a file to read from and a file to write to."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as read, os.fdopen(writing, "wb", buffering=0) as write:
        yield read, write


def fill(writing) -> None:
    """Write into a pipe until it is full."""
    os.set_blocking(writing.fileno(), False)
    while writing.write(b"x" * 4096) is not None:
        pass
    while writing.write(b"x") is not None:
        pass
    os.set_blocking(writing.fileno(), True)


def written(reading, writing) -> list[str]:
    """Close the writing end, and return all lines of the pipe."""
    writing.close()
    return reading.read().decode().splitlines()


def test_logs_and_warnings_go_to_the_writer(pipe):
    """Log records and warnings go to the writer; afterwards the handlers are as before."""
    before = [*logging.getLogger().handlers]
    log = logging.getLogger("of-a-test")
    with BackgroundStderr(pipe[1].fileno(), patience=TIMELESS), warnings.catch_warnings():
        warnings.simplefilter("always")
        log.warning("a %s", "record")
        log.info("too small")
        warnings.showwarning("be warned", UserWarning, "file.py", 7)
    assert logging.getLogger().handlers == before
    lines = written(*pipe)
    assert lines[0] == "a record"
    assert "file.py:7: UserWarning: be warned" in lines[1]


def test_an_unread_pipe_never_blocks(pipe):
    """If nothing reads the pipe, surplus lines are dropped and closing does not wait; a later reader gets the count."""
    fill(pipe[1])
    with BackgroundStderr(pipe[1].fileno(), most=10, patience=0.01) as stderr:
        stderr.say("0")
        while not stderr._lines.empty():
            time.sleep(0.001)  # until its thread has taken the line, and waits for a reader
        for number in range(1, 1000):
            stderr.say(str(number))
        assert stderr._lines.full()
    reading = pipe[0].fileno()
    got = b""
    while b": 10\n" not in got:
        got += os.read(reading, 65_536)
    stderr._lines.put(None, timeout=TIMELESS)
    stderr._thread.join(TIMELESS)
    lines = written(*pipe)
    assert not stderr._thread.is_alive()
    assert lines == []
