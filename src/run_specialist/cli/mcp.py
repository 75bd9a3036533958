"""The command `specialists mcp`: serve specialists over stdio or HTTP."""

import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Full, Queue
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from run_specialist.cli import flags
from run_specialist.cli.console import fail, guarded, labelled, require_extra, say, say_allowed
from run_specialist.store.location import place

if TYPE_CHECKING:
    from run_specialist.mcp_server.http import AccessToken, Http


HttpAddress = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve over HTTP instead of stdio; a port without a host listens on this machine only, 0 picks a free "
        "port.",
    ),
]
ServedRoot = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="FOLDER",
        help="Project to search for specialists, and folder that the file tools can read.  [default: the project root]",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar="SPECIALIST_MCP_TOKEN",
        help="Token that HTTP clients must send as `Authorization: Bearer TOKEN`.  [default: generated and stored]",
    ),
]
NoToken = Annotated[
    bool, typer.Option("--no-token", help="Accept every process on this machine, including those of other users.")
]


def mcp(
    http: HttpAddress = None,
    dir_: flags.Dir = None,
    root: ServedRoot = None,
    model: flags.Model = None,
    require_model: flags.RequireModel = False,
    requests_at_once: flags.RequestsAtOnce = None,
    store: flags.StoreUrl = None,
    on_lost: flags.OnLostFlag = "go_on",
    trust: flags.TrustFlag = False,
    token: Token = None,
    no_token: NoToken = False,
) -> None:
    """Serve the specialists as MCP tools, over stdio or HTTP.

    Each specialist is a tool. The server stops when its client closes standard input, or on Ctrl-C; active runs are
    then stopped and stored with their findings. Protocol revisions: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25,
    2026-07-28.
    """
    require_extra("mcp", "specialists mcp needs", "mcp_types", "mcp")
    if http is None and (sys.stdin is None or sys.stdout is None):
        fail("standard input and output must be open: an MCP client writes to one and reads the other")
    if token is not None:
        if no_token:
            fail("--no-token cannot be combined with a token from --token or SPECIALIST_MCP_TOKEN; remove one of them")
        token = token.strip()
        if not re.fullmatch("[!-~]+", token):
            fail("the token is empty, or has spaces or non-ASCII characters, which an HTTP header cannot carry")
    if http is None and (token is not None or no_token):
        say(f"warning: {'--no-token' if no_token else 'the token'} has no effect without --http")
    with guarded():
        location = place(store)
        dir_ = dir_ and dir_.absolute()
        if root is not None:
            # MCP clients start servers in any folder, often in `/`.
            root = root.absolute()
            os.chdir(root)
        config = flags.config_for_run(root, model, trust=trust)
        from run_specialist.mcp_server.server import Stdio, serve  # noqa: PLC0415 - fast `--help`

        generated = None
        if http is not None and not (token or no_token):
            from run_specialist.mcp_server.http import access_token  # noqa: PLC0415 - fast `--help`

            generated = access_token()
            token = generated.value
        runner = flags.configured_runner(
            config,
            dir_=dir_,
            strict=False,  # the command has no --strict, and serves files with warnings
            require_model=require_model,
            root=root,
            model=model,
            store=location.url if location.named else None,
            on_lost=on_lost,
            trust=trust,
            secrets=[token] if token else [],
            requests_at_once=requests_at_once,
        )
        runner.allowed = say_allowed
        import asyncio  # noqa: PLC0415 - fast `--help`

        with BackgroundStderr() as stderr:
            listen: Callable[[], Stdio | Http] = partial(Stdio, stderr.say)
            if http is not None:
                listen = partial(_listen, http, token, generated, stderr.say)
            code = asyncio.run(serve(runner, listen, stderr.say))
    raise typer.Exit(code)


def _listen(address: str, token: str | None, generated: "AccessToken | None", say: Callable[[str], None]) -> "Http":
    """Open the socket, and print the header that clients must send.

    generated: the token, unless the user chose one, or none is required.
    """
    from run_specialist.mcp_server.http import Address, Http  # noqa: PLC0415 - fast `--help`

    transport = Http(Address.parse(address), token)
    if generated:
        header = f"Authorization: Bearer {generated.value}"
        say(f"clients must send the header {header}")
        say(f'e.g. claude mcp add --transport http specialists {transport.url} --header "{header}"')
        say(generated.message)
        if not transport.is_private:
            say("warning: other machines can reach this server, and HTTP sends the token unencrypted")
    elif token is None:
        say(
            "warning: without a token, every process on this machine, including those of other users, can ask the "
            "specialists, spend money with your API key, and read the files that the specialists can read"
        )
    return transport


MOST_LINES = 256
"""Size of the queue; further lines are dropped."""
LONGEST_LINE = 16_384
"""Longer lines, such as tracebacks, are cut [characters]."""
PATIENCE = 0.5
"""Timeout for pending lines at exit [s]."""


class BackgroundStderr(logging.Handler):
    """Writes lines to standard error in order; drops lines if the queue is full.

    As a context manager, it also receives warnings and log records.
    """

    def __init__(self, descriptor: int = 2, *, most: int = MOST_LINES, patience: float = PATIENCE) -> None:
        """Create a writer for a file descriptor.

        most: size of the queue [lines].
        patience: timeout of `__exit__` for pending lines [s].
        """
        super().__init__(logging.WARNING)
        self._descriptor = descriptor
        self._lines: Queue[str | None] = Queue(most)
        self._dropped = 0
        self._patience = patience
        self._thread = threading.Thread(target=self._work, name="stderr", daemon=True)

    def say(self, text: str) -> None:
        """Write a message of the program."""
        self._put(labelled(text))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record."""
        self._put(self.format(record))

    def __enter__(self) -> Self:
        """Start the thread, and receive log records and warnings."""
        self._thread.start()
        logging.captureWarnings(capture=True)
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        """Wait for pending lines, up to the timeout."""
        logging.getLogger().removeHandler(self)
        logging.captureWarnings(capture=False)
        with suppress(Full):
            self._lines.put(None, timeout=self._patience)
            self._thread.join(self._patience)

    def _put(self, line: str) -> None:
        try:
            self._lines.put_nowait(line[:LONGEST_LINE])
        except Full:
            self._dropped += 1

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                self._write(labelled(f"{dropped} lines were dropped because standard error was not read"))
            self._write(line)

    def _write(self, line: str) -> None:
        # Not through sys.stderr: a blocked thread that holds its lock would make the interpreter abort at exit.
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]
