"""The command `specialists mcp`: the specialists as tools for other programs."""

import asyncio
import os
import re
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import fail, guarded, say
from run_specialist.cli.flags import Dir, Model, OnLostFlag, StoreUrl
from run_specialist.store.location import place

if TYPE_CHECKING:
    from run_specialist.mcp_server.access_token import AccessToken
    from run_specialist.mcp_server.http import Http

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
    on_lost: OnLostFlag = "go_on",
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Let the files start the commands and import the functions that they name."),
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="SPECIALIST_MCP_TOKEN",
            help="What HTTP clients have to send as `Authorization: Bearer TOKEN`.  "
            "[default: one that is made and kept]",
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Let every process of this machine in, of other users too."),
    ] = False,
) -> None:
    """Serve the specialists as tools for MCP clients, over standard input and output.

    Each specialist is a tool. The server ends when its client closes standard input, or at Ctrl-C; runs that are still
    at work are stopped, and stored with what they have gathered.
    """
    if find_spec("mcp_types") is None or find_spec("mcp") is None:
        fail(INSTALL)
    token = _checked(token, no_token=no_token)
    if http is None and (token is not None or no_token):
        say(f"warning: {'--no-token' if no_token else 'the token'} is of no use without --http")
    with guarded():
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - likewise
        from run_specialist.cli.background_stderr import BackgroundStderr  # noqa: PLC0415 - fast `--help`
        from run_specialist.mcp_server.server import serve  # noqa: PLC0415 - likewise

        named = place(store)
        dir_ = dir_ and dir_.absolute()
        if root is not None:
            # Clients start it in any folder, often in `/`.
            root = root.absolute()
            os.chdir(root)
        made = _made(token, no_token=no_token) if http is not None else None
        sent = made.value if made else token
        runner = Runner(
            root=root,
            dir=dir_,
            model=model,
            store=named.url if named.named else None,
            on_lost=on_lost,
            trust=trust,
            secrets=[sent] if sent else [],
        )
        with BackgroundStderr() as stderr:
            if http is None:
                from run_specialist.mcp_server.stdio import Stdio  # noqa: PLC0415 - likewise

                code = asyncio.run(serve(runner, lambda: Stdio(stderr.say), stderr.say))
            else:
                opened = partial(_http, http, sent, made, stderr.say)
                code = asyncio.run(serve(runner, opened, stderr.say))
    raise typer.Exit(code)


def _checked(token: str | None, *, no_token: bool) -> str | None:
    """Return the token that was given, without blanks around it; leave where it cannot be used."""
    if token is None:
        return None
    if no_token:
        fail("--no-token and a token, from --token or SPECIALIST_MCP_TOKEN, exclude each other; leave one away")
    token = token.strip()
    if not token:
        fail("the token is empty; leave --token and SPECIALIST_MCP_TOKEN away, and one is made")
    if not re.fullmatch("[!-~]+", token):
        fail("the token holds blanks or signs beyond ASCII, which no header carries safely; choose another one")
    return token


def _made(token: str | None, *, no_token: bool) -> "AccessToken | None":
    """Return the token that is kept for this user, where none was given and one is wanted."""
    from run_specialist.mcp_server.access_token import access_token  # noqa: PLC0415 - fast `--help`

    return None if token or no_token else access_token()


def _http(http: str, token: str | None, made: "AccessToken | None", say: Callable[[str], None]) -> "Http":
    """Listen, and say what a client has to send."""
    from run_specialist.mcp_server.http import Address, Http  # noqa: PLC0415 - fast `--help`

    opened = Http(Address.parse(http), token, say)
    if made:
        header = f"Authorization: Bearer {made.value}"
        say(f"clients have to send the header {header}")
        say(f'e.g. claude mcp add --transport http specialists {opened.url} --header "{header}"')
        say(made.kept)
        if not opened.is_private:
            say("warning: other machines can reach this server, and the token travels unencrypted over plain HTTP")
    elif token is None:
        say(
            "warning: without a token every process of this machine, of other users too, may ask the specialists, "
            "spend on your key and read what they can read"
        )
    return opened
