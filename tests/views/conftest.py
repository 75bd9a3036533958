"""Page data, and a real browser: headless Chromium, controlled over a pipe with its own protocol."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from run_specialist.views.report import data
from tests.views.full import full_run

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 60
"""Timeout for an answer of the browser [s]."""


class Page:
    """One tab. Its unsolicited messages are collected in `events`."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, answers: int) -> None:
        self._process, self._to, self._answers = process, to, answers
        self._rest, self._last, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        """Messages with `method` and `params`."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            assert time.monotonic() < until, "the browser does not answer"
            if not select.select([self._answers], [], [], 1)[0]:
                continue
            read = os.read(self._answers, 1 << 20)
            assert read, f"the browser has gone: {self._process.poll()}"
            self._rest += read
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def wait_for(self, method: str) -> None:
        """Wait until an event with this method has arrived since `events` was last cleared."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window, and light or dark mode."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path, fragment: str = "", *, width: int = 1280, height: int = 900) -> None:
        """Load a file at a given window size in light mode, and wait for its load event."""
        self.resize(width, height)
        self.events.clear()
        self.send("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri() + fragment)
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        done = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        given = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **given, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **given)

    def close(self) -> None:
        """Close the browser, so that no process or open file is left."""
        self._session = ""
        self.send("Browser.close")
        self._process.wait(SECONDS)

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """Console messages of the page, log entries of the browser, and uncaught errors."""
        told = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [event for event in self.events if event.get("method") in told]

    @property
    def requests(self) -> list[str]:
        """The requested URLs, the page's own first."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@pytest.fixture(scope="module")
def full() -> Mapping[str, Any]:
    """Provide the page data of the run that has nearly every feature."""
    return data(full_run())


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Provide a browser with one tab that the tests of a module share; skip them if no browser is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on PATH")
    (its_input, to), (answers, its_output) = os.pipe(), os.pipe()
    # Chromium reads from descriptor 3 and writes to 4. While these ends are open, no other pipe gets these numbers.
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (its_input, its_output)]

    def connect() -> None:
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    flags += [
        "--remote-debugging-pipe",
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
        "--disable-background-networking",
    ]
    process = subprocess.Popen(
        [program, *flags, "about:blank"],
        close_fds=False,
        preexec_fn=connect,  # noqa: PLW1509 - only two system calls, and no thread of this program runs
        stderr=subprocess.DEVNULL,
    )
    for end in (its_input, its_output, *high):
        os.close(end)
    try:
        page = Page(process, to, answers)
        yield page
        page.close()
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(answers)
