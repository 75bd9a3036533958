"""Providers of local models; one server for each file with weights."""

import asyncio
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from run_specialist.errors import UsageError, errors_as
from run_specialist.installation import adding
from run_specialist.providers.errors import number_set, tidy
from run_specialist.providers.local_servers import PROPS, WEIGHTS, WEIGHTS_ENDPOINT, ask_all, of_llamacpp, with_context
from run_specialist.providers.openai_chat import ChatProvider, chat_client
from run_specialist.tools.threads import in_thread

PATIENCE = 10.0
"""Timeout for the end of a killed process [s]."""
_SCRIPT = Path(__file__).with_name("llama_process.py")
_LONGEST_LINE = 2_000
_KEPT_LINES = 200
_ERROR = re.compile(r"^[\d.]+ E (?:[\w ~]{0,12} )?\s*\w*: (.*)$")
_LOADING = "error loading model: "
# The message that xllamacpp gives for every failure; the real reason is in the log of llama.cpp.
_UNKNOWN = "Failed to init server"


class LlamaServer:
    """A server that is loading, running or ended."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        """Start the process, without waiting for it.

        name: of the model, for messages.
        config: as `llama_process.serve` reads it, without the key.
        """
        self.key = secrets.token_urlsafe(24)
        """API key, which keeps other users of the machine out."""
        self.url: Future[str] = Future()
        """URL of the server once the model is loaded; UsageError with the reason if it cannot be loaded."""
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
            assert self._process.stdin is not None  # noqa: S101 - a pipe
            self._process.stdin.write(json.dumps({**config, "key": self.key}).encode() + b"\n")
            self._process.stdin.flush()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        """Wait until the model is loaded."""
        try:
            assert self._process.stdout is not None  # noqa: S101 - a pipe
            line = self._process.stdout.readline()
            answer = json.loads(line) if line.endswith(b"\n") else {}
            if url := answer.get("url"):
                self.url.set_result(str(url))
                return
            self._process.wait()
            self._drain.join(PATIENCE)
            why = f"`model={self._name}`: {self._reason(answer.get('error', ''))}"
        except Exception as error:  # noqa: BLE001 - the pipe was closed by `stop`, or the answer is not JSON
            why = f"llama.cpp did not start: {error}"
        self.url.set_exception(UsageError(why))

    @property
    def has_ended(self) -> bool:
        """True if loading has failed, or the process has ended since."""
        return bool(self.failure()) or (self.url.done() and self.url.exception() is not None)

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


CONTEXT_VARIABLE = "SPECIALIST_LOCAL_CONTEXT"
"""Environment variable with the length of the context [tokens]."""
SHORTEST_CONTEXT = 256
"""Minimum of that variable [tokens]."""
Report = Callable[[str], None]
"""Called with a line while a model is loaded."""


class ModelFiles:
    """The servers of the files that runs have named; safe to use from several event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, LlamaServer] = {}
        self._is_closed = False
        # Ends the processes even if the program never calls `aclose`.
        weakref.finalize(self, _stop_all, self._servers)

    async def provider(self, model: str, report: Report | None = None) -> ChatProvider:
        """Return a provider for the running event loop; start the server on first use.

        model: `local:` and the path of a GGUF file, relative to the current folder.
        Raises UsageError if the file cannot be used, or if a package is missing.
        """
        if missing := [name for name in ("xllamacpp", "openai") if not _is_installed(name)]:
            raise UsageError(
                f"`model={model}` needs a package that is not installed (no module named {missing[0]!r}); "
                f"{adding('local')}"
            )
        shared = await in_thread(lambda: self._shared(model, report))
        url = await asyncio.shield(asyncio.wrap_future(shared.url))
        client = chat_client(
            model, WEIGHTS_ENDPOINT, api_key=shared.key, base_url=f"{url}/v1", direct=True, max_retries=0
        )
        provider = ChatProvider(model.removeprefix(WEIGHTS), client, WEIGHTS_ENDPOINT, shared.failure)
        # What llama.cpp has chosen: the context of the model, or less if the memory is short of it.
        ((_, props),) = await ask_all(url, shared.key, PROPS)
        return with_context(provider, of_llamacpp(props))

    def _shared(self, model: str, report: Report | None) -> LlamaServer:
        """Return the server of a file; called in a thread, because disks are slow."""
        path = Path(os.path.realpath(Path(model.removeprefix(WEIGHTS)).expanduser()))
        config = _config(model, path)
        with self._lock:
            if self._is_closed:
                raise UsageError(f"`model={model}`: the Runner was closed meanwhile")
            found = self._servers.get(str(path))
            if found is None or found.has_ended:
                if found:
                    found.stop()
                if report:
                    report(f"loading {path.name} ({_size(path)})")
                found = self._servers[str(path)] = LlamaServer(model, config)
        return found

    async def aclose(self) -> None:
        """End all servers, including those that are still loading."""

        def stop() -> None:
            with self._lock:
                self._is_closed = True
            _stop_all(self._servers)

        await in_thread(stop)


def _stop_all(servers: dict[str, LlamaServer]) -> None:
    while servers:
        servers.popitem()[1].stop()


def _is_installed(name: str) -> bool:
    # Raised if something has blocked the module.
    with suppress(ValueError):
        return find_spec(name) is not None
    return False


def _config(model: str, path: Path) -> dict[str, Any]:
    """Return the configuration for a file, as `llama_process.serve` reads it, without the key.

    Raises UsageError if it is missing or not a GGUF file, or if the variable with the context is invalid.
    """
    with errors_as(UsageError, f"`model={model}`: {path} cannot be read", OSError, ValueError):
        if path.is_dir():
            raise UsageError(f"`model={model}`: {path} is a folder; name the GGUF file in it")
        if not path.is_file():
            raise UsageError(f"`model={model}`: there is no file {path}")
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise UsageError(f"`model={model}`: it is not a GGUF file; name a file with the ending .gguf")
    return {
        "path": str(path),
        "name": path.name,
        "context": number_set(CONTEXT_VARIABLE, "a number of tokens", SHORTEST_CONTEXT) or 0,
    }


def _size(path: Path) -> str:
    """Return the size of the weights, including all parts of a split file, with its unit."""
    parts = path.parent.glob(path.name.replace("-00001-of-", "-?????-of-"))
    size = sum(part.stat().st_size for part in parts) or path.stat().st_size
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"  # noqa: PLR2004 - the unit
