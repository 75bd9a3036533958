"""Query a local server before a run, with limits on time and memory; its responses are not trusted."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_specialist.errors import RunSpecialistError
from run_specialist.providers.local.addresses import is_loopback

if TYPE_CHECKING:
    import httpx2

PATIENCE = 2.0
"""Timeout of all queries together [s]."""
LARGEST_ANSWER = 512 * 1024
"""Maximum size of a response; the largest real one has 120 KB of license texts and tensor names [bytes]."""


class NothingListens(RunSpecialistError):
    """The server does not accept connections."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """One request to a server."""

    path: str
    """Relative to the root of the server, with a leading slash."""
    body: Mapping[str, Any] | None = None
    """Sent with POST as JSON; None = GET."""


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """The response of a server."""

    status: int = 0
    """HTTP status; 0 = no response in time, or one that was too long."""
    value: Any = None
    """The parsed JSON; None if there is none."""


async def ask_all(root: str, key: str, questions: Sequence[ServerRequest]) -> list[ServerResponse]:
    """Ask questions concurrently and return the answers in their order.

    root: URL of the server.
    key: sent as a bearer token if not empty.
    Raises NothingListens if the server does not accept connections.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    # A proxy must not see what goes to a server on this machine, and could not reach it.
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=not is_loopback(root)) as client:
        return await asyncio.gather(*(_ask(client, root, question) for question in questions))


async def _ask(client: "httpx2.AsyncClient", root: str, question: ServerRequest) -> ServerResponse:
    import httpx2  # noqa: PLC0415 - as above

    method = "GET" if question.body is None else "POST"
    try:
        async with (
            asyncio.timeout(PATIENCE),
            client.stream(method, root + question.path, json=question.body) as response,
        ):
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > LARGEST_ANSWER:
                    return ServerResponse()
            return ServerResponse(response.status_code, _parsed(bytes(body)))
    except httpx2.ConnectError as error:
        raise NothingListens(str(error)) from error
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, ValueError):
        return ServerResponse()


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
