"""llama.cpp's own HTTP server with a real model, on loopback, in a process of its own.

As a program: `python llama_server.py SETTINGS`, with `ServerSettings` as JSON. It prints its URL when it is ready, and
exits when its standard input ends: it never outlives the process that started it, however that one ends.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Timer
from typing import IO

LOADING = 120.0
"""Maximum duration of loading a model [s]."""
ENDING = 20.0
"""Time to exit before the process is killed [s]."""
LAST_LINES = 10
"""Lines of the server's log that are part of an error."""


class ServerFailed(Exception):
    """The server could not be started; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server."""

    model: str
    """Path of the GGUF file."""
    context: int
    """Length of the context of all slots together [tokens]."""
    chat_template: str | None = None
    """Text of a Jinja template; None for the template in the model's file."""
    temperature: float = 0.0
    """Of requests that name none; 0 = always the most likely token."""
    threads: int = 2
    slots: int = 1
    """Maximum number of requests that are answered at once; each has an equal share of the context."""


@dataclass(frozen=True)
class LlamaServer:
    """A running server."""

    process: subprocess.Popen[bytes]
    url: str
    """Base URL of the Messages API; chat completions are below its `/v1`."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that direct both APIs to this server."""
        addresses = {"ANTHROPIC_BASE_URL": self.url, "OPENAI_BASE_URL": f"{self.url}/v1", "LLAMACPP_BASE_URL": self.url}
        return {**addresses, "ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}


@contextmanager
def llama_server(settings: ServerSettings) -> Iterator[LlamaServer]:
    """Run a server; its process has ended when the context exits.

    Raises ServerFailed if it does not start.
    """
    command = [sys.executable, str(Path(__file__)), json.dumps(asdict(settings))]
    # Otherwise threads that wait for the next reply keep the cores busy.
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env)
        try:
            yield LlamaServer(process, _url(process, log))
        finally:
            _end(process)


def _url(process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    late = Timer(LOADING, process.kill)
    late.start()
    try:
        for line in process.stdout or ():
            if line.startswith(b"http://"):
                return line.decode().strip()
    finally:
        late.cancel()
        late.join()
    code = process.wait()
    log.seek(0)
    last = log.read().decode(errors="replace").splitlines()[-LAST_LINES:]
    raise ServerFailed("\n".join([f"llama.cpp's server did not start (exit code {code}):", *last]))


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve(settings: ServerSettings) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = settings.slots
    params.n_ctx = settings.context
    params.use_jinja = True
    params.ui = False
    params.sampling.temp = settings.temperature
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    if settings.chat_template:
        params.chat_template = settings.chat_template
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - read by the process that started this one
    sys.stdin.buffer.read()
    # A regular exit would wait for a reply that is still being generated.
    os._exit(0)


if __name__ == "__main__":
    _serve(ServerSettings(**json.loads(sys.argv[1])))
