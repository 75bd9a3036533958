"""Start, watch and end one llama.cpp server in a separate process."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from run_specialist.errors import UsageError
from run_specialist.providers.sdk_errors import tidy

PATIENCE = 10.0
"""Timeout for the end of a killed process [s]."""
_SCRIPT = Path(__file__).with_name("llama_process.py")
_LONGEST_LINE = 2_000
_KEPT_LINES = 200
_ERROR = re.compile(r"^[\d.]+ E (?:[\w ~]{0,12} )?\s*\w*: (.*)$")
_LOADING = "error loading model: "
_UNKNOWN = "Failed to init server"
"""The message that xllamacpp gives for every failure; the real reason is in the log of llama.cpp."""


class LlamaServer:
    """A server that is loading, running or ended."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        """Start the process; `wait` returns when the model is loaded.

        name: of the model, for messages.
        config: as `llama_process.serve` reads it.
        """
        self._name = name
        self._log: deque[str] = deque(maxlen=_KEPT_LINES)
        self._stopped = False
        # Threads that wait actively would slow down one another and this program.
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a script of this package
            [sys.executable, "-P", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # Ctrl-C on the terminal is for this program, which then lands or ends its runs first.
            start_new_session=True,
        )
        self._drain = threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
        self._drain.start()
        with suppress(OSError):
            self._input.write(json.dumps(dict(config)).encode() + b"\n")
            self._input.flush()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        return self._process.stdin

    def wait(self) -> str:
        """Block until the model is loaded, and return the URL of the server.

        Raises UsageError with the reason if it cannot be loaded.
        """
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        line = self._process.stdout.readline()
        answer = json.loads(line) if line.endswith(b"\n") else {}
        if url := answer.get("url"):
            return str(url)
        self._process.wait()
        self._drain.join(PATIENCE)
        raise UsageError(f"`model={self._name}`: {self._reason(answer.get('error', ''))}")

    def failure(self, patience: float = 0) -> str:
        """Return why the server has ended; empty while it runs.

        patience: how long to wait for a process that is about to end [s].
        """
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return ""
        return f"llama.cpp ended while it served {self._name}: {self._reason('')}"

    def stop(self) -> None:
        """End the process and wait for its end; nothing in it needs to be saved."""
        self._stopped = True
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self._drain.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError, AttributeError):
                pipe.close()  # type: ignore[union-attr] # all are pipes

    def _read_log(self, log: IO[bytes]) -> None:
        # The terminal stays clean; the last lines are kept, because they have the reason of a failure.
        with suppress(OSError, ValueError):
            while line := log.readline(_LONGEST_LINE):
                self._log.append(line.decode("utf-8", "replace").rstrip())

    def _reason(self, error: str) -> str:
        if error and _UNKNOWN not in error:
            return tidy(error)
        if found := reason_in(self._log):
            return tidy(found)
        code = self._process.poll() or 0
        if self._stopped:
            return "it was stopped"
        if code == -signal.SIGKILL:
            return "the system killed it, probably because the memory was full; use a smaller file"
        return f"llama.cpp ended with code {code}" + (f" ({tidy(self._log[-1])})" if self._log else "")


def reason_in(log: Iterable[str]) -> str:
    """Return the reason of a failure from the log of llama.cpp; empty if the log has none.

    log: lines like `0.00.005.005 E llama_model_load: error loading model: ...`, or output of the interpreter.
    """
    errors = [found[1] for line in log if (found := _ERROR.match(line))]
    for text in errors:
        if _LOADING in text:
            return text.partition(_LOADING)[2]
    return errors[0] if errors else ""
