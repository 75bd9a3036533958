"""The command `specialists mcp`: the specialists as tools for other programs."""

import asyncio
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from run_specialist.cli.console import fail, guarded, say
from run_specialist.cli.flags import Dir, Model, StoreUrl
from run_specialist.store.place import place

INSTALL = "specialists mcp needs the extra mcp: pip install 'run-specialist[mcp]'"


def mcp(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve over HTTP instead; a port alone is one of this machine, 0 any that is free.",
        ),
    ] = None,
    dir_: Dir = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="The project: its specialists, and what the file tools may see.  [default: the project root]"
        ),
    ] = None,
    model: Model = None,
    store: StoreUrl = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Let the files start the commands and import the functions that they name."),
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="SPECIALIST_MCP_TOKEN",
            help="What HTTP clients have to send as `Authorization: Bearer TOKEN`.",
        ),
    ] = None,
) -> None:
    """Serve the specialists as tools for MCP clients, over standard input and output.

    Each specialist is a tool. The server ends when its client closes standard input, or at Ctrl-C; runs that are still
    at work are stopped, and stored with what they have gathered.
    """
    if find_spec("mcp_types") is None or find_spec("mcp") is None:
        fail(INSTALL)
    if token is not None and not token.strip():
        fail("the token is empty; leave --token and SPECIALIST_MCP_TOKEN away to serve without one")
    if token is not None and not re.fullmatch("[!-~]+", token.strip()):
        fail("the token holds blanks or signs beyond ASCII, which no header carries safely; choose another one")
    if token is not None and http is None:
        say("warning: the token is of no use without --http")
    with guarded():
        from run_specialist.doors.api import Runner  # noqa: PLC0415 - fast `--help`
        from run_specialist.doors.mcp.server import serve  # noqa: PLC0415 - likewise

        named = place(store)
        dir_ = dir_ and dir_.absolute()
        if root is not None:
            # Clients start it in any folder, often in `/`.
            root = root.absolute()
            os.chdir(root)
        runner = Runner(
            root=root,
            dir=dir_,
            model=model,
            store=named.url if named.named else None,
            trust=trust,
            secrets=[] if token is None else [token.strip()],
        )
        if http is None:
            from run_specialist.doors.mcp.stdio import Stdio  # noqa: PLC0415 - likewise

            code = asyncio.run(serve(runner, Stdio, say))
        else:
            from run_specialist.doors.mcp.http import Address, Http  # noqa: PLC0415 - likewise

            address = Address.parse(http)
            code = asyncio.run(serve(runner, lambda: Http(address, token and token.strip()), say))
    raise typer.Exit(code)
