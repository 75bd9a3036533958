"""A terminal on the standard error of a program, with which a test reads what is shown there."""

import os
import pty
import re
import select
import time
from contextlib import suppress

PATIENCE = 60
"""Timeout, after which a hanging program fails the test [s]."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A pseudo-terminal for the standard error of a program, and the output that it received."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.raw = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.ours)
        self.hang_up()

    def hang_up(self):
        """Close the program's end in this process, so that reading ends when the program exits."""
        if self.theirs is not None:
            os.close(self.theirs)
            self.theirs = None

    @property
    def text(self):
        """The output without escape sequences for cursor and colours."""
        return ESCAPES.sub("", self.raw)

    def read(self, until=None):
        """Read until the output contains a text, or to the end."""
        last = time.monotonic() + PATIENCE
        while until is None or until not in self.text:
            waiting = select.select([self.ours], [], [], max(0, last - time.monotonic()))[0]
            assert waiting, f"nothing more came: {self.text}"
            part = b""
            with suppress(OSError):  # the program has closed the terminal
                part = os.read(self.ours, 65536)
            if not part:
                assert until is None, f"{until!r} was never shown: {self.text}"
                return
            self.raw += part.decode("utf-8", "replace")
