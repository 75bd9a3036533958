"""Script that serves the weights in a file by llama.cpp, in a separate process.

It imports the standard library and xllamacpp only. Loading a model holds the lock of the interpreter for its whole
length, so in the caller's process no event loop would run meanwhile, and a failed assertion of llama.cpp would end it.

It reads one line of JSON from standard input, and writes one to standard output: `{"url": ...}` or `{"error": ...}`.
It ends when standard input is closed, which the kernel does even if the caller is killed.
"""

import json
import os
import select
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

CHUNK = 65_536
# Memory for earlier prompts, so that alternating runs are not read again [MiB].
_PROMPT_CACHE_MIB = 2_048


def end_with_caller() -> None:
    """End this process when standard input is closed, even while the interpreter is locked."""
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    # Where the system supports it, the end of the input is a signal whose default action ends the process.
    with suppress(ImportError, OSError, AttributeError):
        import fcntl  # noqa: PLC0415 - not on Windows

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([0], [], [], 0)[0]:
            os._exit(0)


def _exit_at_end_of_input() -> None:
    while os.read(0, CHUNK):
        pass
    os._exit(0)


def serve(config: dict[str, Any]) -> Any:  # noqa: ANN401 - a server of xllamacpp
    """Load the model and return its server; raises RuntimeError, or any exception of llama.cpp."""
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = config["path"]
    params.model_alias = {config["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["key"]]
    params.ui = False
    params.use_jinja = True
    params.n_parallel = 1
    # 0 = that of the model, as far as llama.cpp finds memory for it.
    params.n_ctx = config["context"]
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until the caller ends."""
    # What llama.cpp prints must not mix with the answer.
    out = os.dup(1)
    os.dup2(2, 1)
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, CHUNK)
        if not part:
            return
        line += part
    end_with_caller()
    try:
        server = serve(json.loads(line))
        answer = {"url": server.listening_address}
    except Exception as error:  # noqa: BLE001 - reported to the caller
        server, answer = None, {"error": str(error)}
    os.write(out, json.dumps(answer).encode() + b"\n")
    os.close(out)
    if server is not None:
        threading.Event().wait()


if __name__ == "__main__":
    main()
