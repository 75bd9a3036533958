"""A scripted run in its own process that kills itself at one exact point of storing its records.

The run has three turns with batches of calls, a summary before the third, and an answer. All calls differ.
"""

import asyncio
import json
import os
import secrets
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.prompts import SYSTEM_PROMPT
from run_specialist.providers.base import Capabilities, Opening, Request, Watch
from run_specialist.record.journal import EventLogged, Journal, Record
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.specialist.fields import Specialist
from run_specialist.store import writer
from run_specialist.store.writer import Writer
from run_specialist.tools.python_tools import tool

LONG = 900
"""Length of the outputs of the second turn, which makes a summary due before the third [characters]."""
SETTINGS: dict[str, Any] = {"name": "looker", "description": "Looks", "prompt": "Look it up.", "tools": []}
SUMMARIZE_AT = 500
NOTES = Usage(7, 0, 0, 3)
"""Usage of each summary."""


def append(path: Path, value: object) -> None:
    """Append a line to a file, without a buffer that would be lost with the process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, json.dumps(value).encode() + b"\n")
    os.close(descriptor)


class Looker:
    """A model that derives its replies from the requests, and logs both."""

    model = "scripted"
    capabilities = Capabilities(forced_choice=False, max_output_tokens=64_000)

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    def open(self, opening: Opening, watch: Watch | None = None) -> "_Talk":
        """Start a conversation."""
        return _Talk(opening, self._asked)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost, at one cent per thousand tokens [USD]."""
        return usage.total_tokens / 100_000

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


class _Talk:
    def __init__(self, opening: Opening, asked: Path) -> None:
        self._opening = opening
        self._path = asked

    async def ask(self, request: Request) -> Reply:
        """Log the request, and return the next reply."""
        await asyncio.sleep(0)
        if self._opening.system == SYSTEM_PROMPT:
            append(self._path, {"notes": True})
            return Reply(Stop.ANSWERED, ({"type": "text", "text": "What was noted."},), NOTES)
        sent = [{"role": message.role, "content": [*message.content]} for message in request.messages]
        blocks = _next(sent, ordered="respond" in str(sent[-1]["content"]))
        usage = Usage(len(json.dumps(sent)) // 4, 0, 0, secrets.randbelow(40) + 1)
        stop = Stop.WANTS_TOOLS if blocks[0]["type"] == "tool_use" else Stop.ANSWERED
        tools = [each.definition for each in self._opening.tools]
        front = json.dumps([self._opening.system, tools])
        append(self._path, {"messages": sent, "content": blocks, "usage": asdict(usage), "front": front})
        return Reply(stop, tuple(blocks), usage)


def _next(sent: Sequence[dict[str, Any]], *, ordered: bool) -> list[dict[str, Any]]:
    used = [block for message in sent for block in message["content"] if block["type"] == "tool_use"]
    made = [block["id"] for block in used if block["name"] in {"look", "get_tool_response"}]
    match len(made):
        case _ if ordered:
            return [_call("respond", answer=f"Owls eat {secrets.token_hex(4)}.")]
        case 0:
            return [_call("look", query=secrets.token_hex(4)) for _ in range(3)]
        case 3:
            return [_call("look", query=secrets.token_hex(4), length=LONG) for _ in range(2)]
        case 5:
            return [_call("look", query=secrets.token_hex(4)), _call("get_tool_response", execution_id=made[0])]
        case _:
            return [{"type": "text", "text": f"Owls eat {secrets.token_hex(4)}."}]


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"call_{secrets.token_hex(6)}", "name": name, "input": arguments}


class Killing:
    """A journal that kills its process at a given record."""

    def __init__(self, journal: Journal, at: str, number: int) -> None:
        """Set the wrapped journal and the point of the kill.

        at: `kept` kills when the n-th record is committed, before the run continues; `queued` when the n-th record is
            written, but only those before the last wait are passed on; `asked` and `waited` kill before and after the
            n-th wait.
        number: n, from 1; 0 = never. Events are not counted.
        """
        self._journal = journal
        self._at = at
        self._left = number
        self._held: list[Record] = []

    def write(self, record: Record) -> None:
        """Take a record, and kill the process if the point is reached."""
        if self._at == "queued":
            self._held.append(record)
        else:
            self._journal.write(record)
        if self._at == "kept":
            # Use a separate event loop, because this one must not continue.
            thread = threading.Thread(target=asyncio.run, args=(self._journal.committed(),))
            thread.start()
            thread.join()
        if self._at in {"kept", "queued"} and not isinstance(record, EventLogged):
            self._count()

    @property
    def has_begun(self) -> bool:
        """Return whether the wrapped journal has begun."""
        return self._journal.has_begun

    @property
    def outage(self) -> str | None:
        """Return the outage of the wrapped journal."""
        return self._journal.outage

    async def committed(self) -> str | None:
        """Wait for the wrapped journal, and kill the process if the point is reached."""
        for record in self._held:
            self._journal.write(record)
        self._held.clear()
        if self._at == "asked":
            self._count()
        lost = await self._journal.committed()
        if self._at == "waited":
            self._count()
        return lost

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            die()


def die() -> None:
    """Kill this process, so that nothing is closed or flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def _wrap(at: str, number: int) -> None:
    """Make all journals of this process kill it; `half` kills it within the n-th transaction."""
    if at == "half":
        from run_specialist.store.ledger import DELETE_MESSAGES
        from run_specialist.store.postgresql import ServerSession
        from run_specialist.store.sqlite import FileSession

        left = [number]

        def dying(write: Callable[..., int]) -> Callable[..., int]:
            def written(self: FileSession | ServerSession, statement: str, rows: Any) -> int:
                if statement == DELETE_MESSAGES:
                    left[0] -= 1
                    if left[0] == 0:
                        die()
                return write(self, statement, rows)

            return written

        for session in (FileSession, ServerSession):
            session.write = dying(session.write)  # type: ignore[method-assign] # replaced on purpose
        return

    def killing(make: Callable[..., Journal]) -> Callable[..., Journal]:
        return lambda *given: Killing(make(*given), at, number)

    Writer.journal = killing(Writer.journal)  # type: ignore[method-assign] # same
    Writer.claim = killing(Writer.claim)  # type: ignore[method-assign] # same


def go(store: str, logs: str, question: str, run_id: str, at: str, number: str, limit: str) -> None:
    """Start or resume a run, and kill the process at a given point.

    logs: Prefix of the names of the log files.
    run_id: Empty for a new run.
    at, number: See `Killing`.
    """
    _wrap(at, int(number))
    # A short grace period is enough: the previous process is dead, and the tests kill many processes.
    writer.GRACE = 0.05
    executed = Path(f"{logs}-executed")

    async def look(query: str, length: int = 0) -> str:
        append(executed, ["begun", query])
        await asyncio.sleep(0)
        append(executed, ["returned", query])
        return f"note on {query} {'.' * length}"

    async def ask() -> None:
        provider = Looker(Path(f"{logs}-asked"))
        async with Runner(provider=provider, tools=[tool(look)], store=store) as runner:
            if run_id:
                run = await runner.resume(run_id)
            else:
                specialist = Specialist(**SETTINGS, tool_calls_limit=int(limit), summarize_at=SUMMARIZE_AT)
                run = await runner.prepare(specialist, question)
            await run.outcome()

    asyncio.run(ask())
