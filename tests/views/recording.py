"""Runs of the loop with a scripted model and scripted tools, in virtual time, as they are stored."""

import asyncio
import inspect
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from run_specialist.errors import ProviderError, ToolError
from run_specialist.loop.run import Run
from run_specialist.providers.base import Capabilities, Choice, Opening, Request
from run_specialist.record.journal import Record
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.tools.base import Tool
from tests.any_script.virtual_time import run
from tests.journals import Notebook, stored

BEGIN = 1_795_320_000.0
"""Start of the runs: 2026-11-22 04:00:00 UTC [seconds since 1970]."""
SYSTEM = 5_200
"""Size of the system prompt and the tools [tokens]."""
RUN_ID = "20261122-040000-5f3a9c"
QUESTION = "What happens when a sub-agent reaches its tool call limit, and is anything that it gathered ever lost?"
TOOLS = {
    "search": ["query"],
    "grep": ["pattern"],
    "glob": ["pattern"],
    "read": ["path", "offset"],
    "ls": ["path"],
    "delegate": ["specialist", "query"],
}


@dataclass(frozen=True)
class Did:
    """A tool call and its result."""

    name: str
    arguments: Mapping[str, Any] | None
    result: str = ""
    seconds: float = 0.2
    is_error: bool = False
    call_id: str = ""


@dataclass(frozen=True)
class Said:
    """A reply of the model, and what its calls return."""

    text: str
    calls: Sequence[Did] = ()
    seconds: float = 2.4
    grown: int = 1_400
    """Tokens that are new in its request."""
    lost: int | None = None
    """Tokens read from the cache, if not all that were cached."""


def turn(text: str, *calls: Did, **others: Any) -> Said:
    """Return a reply with calls."""
    return Said(text, calls, **others)


@dataclass
class Player:
    """A model that says its lines, and tools that return what they name; without a line the process dies."""

    script: list[Said | Exception]
    summary: str
    notebook: "ClockedNotebook"
    model: str
    cached: int = 0
    turns: int = 0
    waiting: dict[str, list[Did]] = field(default_factory=dict)
    """The calls that the model has made, by tool and arguments."""
    capabilities = Capabilities(forced_choice=True, max_output_tokens=64_000)

    def open(self, opening: Opening, _watch: object = None) -> "Player":
        """Start a conversation, or one for a summary, which has no tools."""
        if opening.tools.names:
            return self
        self.cached = SYSTEM + 3_000
        return replace(self, script=[Said(self.summary, seconds=6.5)])

    def cost(self, usage: Usage) -> float:
        """Return the cost of a request [USD]."""
        new, written = usage.input_tokens * 3e-6, usage.cache_creation_input_tokens * 3.75e-6
        return round(new + written + usage.cache_read_input_tokens * 3e-7 + usage.output_tokens * 15e-6, 8)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    async def ask(self, request: Request) -> Reply:
        """Return the next reply."""
        if not self.script:
            self.notebook.is_closed = True
            raise ProviderError("the process is dead")
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        await asyncio.sleep(said.seconds)
        self.turns += 1
        blocks = [{"type": "text", "text": said.text}] if said.text else []
        for place, one in enumerate(said.calls, 1):
            call_id = one.call_id or f"toolu_{self.turns:02}{place}"
            blocks.append({"type": "tool_use", "id": call_id, "name": one.name, "input": one.arguments})
            self.waiting.setdefault(f"{one.name} {json.dumps(one.arguments)}", []).append(one)
        read, whole = self.cached if said.lost is None else said.lost, max(self.cached, SYSTEM) + said.grown
        forced = request.choice is not Choice.AUTO
        usage = Usage(whole - read if forced else 4, read, 0 if forced else whole - read - 4, 90 + len(said.text) // 4)
        self.cached = whole
        return Reply(Stop.WANTS_TOOLS if said.calls else Stop.ANSWERED, tuple(blocks), usage, "a reason")

    @property
    def tools(self) -> list[Tool]:
        """The tools; only one of them may be answered from the record."""
        return [self._tool(name, keys) for name, keys in TOOLS.items()]

    def _tool(self, name: str, keys: Sequence[str]) -> Tool:
        async def use(**given: Any) -> str:
            one = self.waiting[f"{name} {json.dumps(given)}"].pop(0)
            await asyncio.sleep(one.seconds)
            if one.is_error:
                raise ToolError(one.result)
            return one.result

        named = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=Any) for key in keys]
        use.__signature__ = inspect.Signature(named)
        return Tool(name, f"Use {name}.", use, repeatable=name == "read")


class ClockedNotebook(Notebook):
    """A journal in virtual time, which stores nothing once the process is dead."""

    def __init__(self, begin: float) -> None:
        super().__init__()
        self.is_closed = False
        self._begin = begin

    def write(self, record: Record) -> None:
        """Store a record."""
        if not self.is_closed:
            self.records.append(replace(record, at=self._begin + time.monotonic()))


def recorded(
    *script: Said | Exception,
    past: Sequence[Record] = (),
    after: float = 0,
    question: str = QUESTION,
    model: str = "claude-sonnet-4-5",
    summary: str = "",
    **settings: Any,
) -> list[Record]:
    """Return all records of a run, which ends as its process does if the script has no answer.

    past: records of a run that is resumed some time after the last of them [s], with these limits.
    """
    notebook = ClockedNotebook(past[-1].at + after if past else BEGIN)
    player = Player([*script], summary, notebook, model)
    around = RunEnvironment(Path("/home/ada/agents"), player, tools=player.tools)
    if past:
        before = stored(past)
        usage = before.turns[-1].reply.usage
        player.turns, player.cached = len(before.turns), usage.total_tokens - usage.output_tokens
        job = resume(before, ResumeRequest(limits=settings), around)
    else:
        own = {"name": "codebase-analyst", "description": "", "prompt": "You explain how existing code behaves."}
        specialist = Specialist(**own, tools=(), **settings)
        file = SpecialistFile(Path("/no/codebase-analyst.md"), specialist.name, "", specialist=specialist)
        job = replace(spawn(file, specialist, question, around), run_id=RUN_ID)

    async def go() -> None:
        clock = asyncio.get_running_loop().time
        with patch("time.monotonic", clock):
            await Run(job, journal=notebook, clock=clock).outcome()

    run(go())
    return [*past, *notebook.records]
