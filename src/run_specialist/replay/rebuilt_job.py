"""Rebuild the job of a recorded run from the specialist's current file, with the notes and results of the run."""

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.api.config_files import read_config
from run_specialist.api.runner import Runner
from run_specialist.loop.job import Job
from run_specialist.providers.base import Provider
from run_specialist.providers.local_servers import prefix_of
from run_specialist.record.messages import ToolCall
from run_specialist.record.outcome import Child
from run_specialist.replay.cassette import Cassette, RecordedCall
from run_specialist.spawning.extra_tools import ExtraTools
from run_specialist.spawning.prompt_texts import AddedText
from run_specialist.spawning.server_tools import server_tool, server_tools
from run_specialist.spawning.spawner import Parent, RunEnvironment, settings_of, spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers import servers_of
from run_specialist.specialist.project import is_same, project_root
from run_specialist.specialist.settings import resolve
from run_specialist.specialist.tool_names import BUILT_IN, OFFERED, names_tool
from run_specialist.tools.archive import NAME as ARCHIVE
from run_specialist.tools.base import ChildContext, Context, Output, Tool, Toolset
from run_specialist.tools.memory import MAIN, NAME
from run_specialist.tools.respond import NAME as RESPOND

_READ_ON = re.compile(r"\[cut at \d+ of \d+ characters; read on by .*\]")
"""Pattern of the note on a cut result, which the loop adds again."""


class RecordedTools:
    """The recorded calls of a run; each can be used once."""

    def __init__(self, cassette: Cassette, missing: Callable[[ToolCall], None]) -> None:
        """Set the recorded run.

        missing: called with each call that the recorded run did not execute.
        """
        self._calls: dict[str, deque[RecordedCall]] = {}
        for one in cassette.calls:
            self._calls.setdefault(ToolCall(one.id, one.name, one.arguments).key, deque()).append(one)
        self._children = [*cassette.children]
        self._missing = missing

    def replaced(self, tool: Tool) -> Tool:
        """Return a tool with the same definition that returns recorded results."""

        async def recorded(context_of_the_call: Context, **arguments: Any) -> Output:  # noqa: ANN401 - any arguments
            call = ToolCall(context_of_the_call.call_id, tool.name, arguments)
            calls = self._calls.get(call.key)
            if not calls:
                self._missing(call)
                return Output("", is_error=True)
            found = next((one for one in calls if one.id == call.id), calls[0])
            calls.remove(found)
            if isinstance(context_of_the_call, ChildContext):
                context_of_the_call.lender.settle(self._child(found))
            note = "" if _READ_ON.fullmatch(found.note) else found.note
            return Output(found.output, note, found.is_error)

        # Nothing is executed, so no timeout applies.
        return replace(tool, function=recorded, schema=tool.input_schema, timeout=float("inf"))

    def _child(self, call: RecordedCall) -> Child | None:
        """Return the child run of a call, whose result begins with the child's name, status and number of calls."""
        for child in self._children:
            if call.output.startswith(f"[{child.specialist}: {child.status} after {child.tool_calls} "):
                self._children.remove(child)
                return child
        return None


def stand_ins(definitions: Iterable[Mapping[str, Any]], calls: Sequence[RecordedCall]) -> tuple[Tool, ...]:
    """Return tools with recorded definitions, to be replaced by `RecordedTools`.

    calls: calls of the run, which show whether identical ones were executed again.
    """
    repeatable = {call.name for call in calls if call.repeated}
    return tuple(
        Tool(one["name"], one["description"], lambda: "", one["name"] in repeatable, one["input_schema"])
        if "input_schema" in one
        else server_tool(one)
        for one in definitions
    )


def with_recorded_memory(environment: RunEnvironment, settings: Specialist, cassette: Cassette) -> RunEnvironment:
    """Return an environment with the notes of a recorded prompt instead of the current ones, and a stand-in tool.

    Neither needs trust, because the tool is not run. Without the key the environment stays unchanged, so that the
    removal of the notes counts as a difference.
    """
    if settings.memory is None:
        return environment
    setup, now, texts = cassette.setup, environment.memory.text, environment.prompt_texts
    recorded = prompts.notes_in(setup.system, MAIN)
    kept = tuple(one for one in texts.texts if one is not now)
    tools = stand_ins([one for one in setup.tools if one["name"] == NAME], cassette.calls)
    memory = replace(environment.memory, tool=environment.memory.tool or next(iter(tools), None))
    texts = replace(texts, texts=(*kept, AddedText(MAIN, recorded)) if recorded else kept)
    return replace(environment, memory=memory, prompt_texts=texts)


RUN_ID = "replay"
"""The id of a replay, which is never stored."""
_NOT_STARTED: dict[str, Any] = {"python_tools": (), "mcp_servers": None, "paths": None}
"""Settings with which nothing is imported, started or searched."""
_NOT_KEPT = frozenset({"name", "description", "prompt", "path", "model", "fallback_models", "mcp_servers"})
"""Settings that a call cannot override, or that are irrelevant for a replay."""


@dataclass(frozen=True, slots=True)
class SpecialistLocation:
    """The location of the specialist and its files."""

    root: Path | None = None
    """The folder of the file tools; None for the project root."""
    dir: Path | None = None
    """A folder that is searched for specialists before the others."""
    file: Path | None = None
    """The specialist's file; None = find it by name."""
    trust: bool = False
    """Whether to allow everything that the file declares."""


@dataclass(frozen=True, slots=True)
class RebuiltJob:
    """A job, and its current settings."""

    job: Job
    file: SpecialistFile
    settings: Mapping[str, Any]
    """Settings in the form in which runs store them."""
    not_compared: Sequence[str]
    """Tools whose definitions were taken from the recorded run."""


@asynccontextmanager
async def rebuilt(
    cassette: Cassette, place: SpecialistLocation, provider: Provider, recorded: RecordedTools
) -> AsyncIterator[RebuiltJob]:
    """Return the job of a recorded run; resources of its tools are closed afterwards.

    Raises UsageError if the specialist cannot be found or run.
    """
    setup = cassette.setup
    named = None if place.root is None else place.root.absolute()
    project = project_root(named or Path.cwd(), named)
    config = read_config(project, meant=is_same(project, named))
    dir_ = place.dir or config.get("dir") or _elsewhere(place.root)
    runner = Runner(
        root=place.root, dir=dir_, provider=provider, store="none", trust=place.trust, defaults=config.defaults
    )
    async with runner:
        file = runner.registry.find(str(place.file or setup.specialist))
        # Of the three required settings a call sets none.
        at_that_time = Specialist.model_validate(
            {"name": "", "description": "", "prompt": "", **setup.settings}, extra="ignore"
        )
        overrides = {key: getattr(at_that_time, key) for key in setup.overridden if key not in _NOT_KEPT}
        settings = resolve(file, overrides).settings
        idle = settings.model_copy(update=_NOT_STARTED)
        parent = Parent("", runner.root, tuple(setup.parents)) if setup.parents else None
        environment = await runner.environments.make(runner.root, file, idle, provider, parent)
        environment = with_recorded_memory(environment, settings, cassette)
        given = _given(cassette, settings, environment)
        # Otherwise the archive was offered only because a local model has a small context.
        keeps_archive = prefix_of(setup.model) is not None and any(one["name"] == ARCHIVE for one in setup.tools)
        job = spawn(file, settings, setup.question, replace(given, keeps_archive=keeps_archive))
        foreign = {tool.name for tool in (*given.tools, *given.extra_tools.functions, *given.extra_tools.served)}
        # No tool of a replay is executed.
        offered = [tool if tool.name == RESPOND else recorded.replaced(tool) for tool in job.opening.tools]
        job = replace(
            job,
            run_id=RUN_ID,
            opening=replace(job.opening, tools=Toolset(offered)),
            # Recorded results are masked already, and nothing is retried.
            secrets=(),
            settings=job.settings.model_copy(update={"patience": 0}),
        )
        yield RebuiltJob(
            job,
            file,
            settings_of(settings, job.answer_schema),
            sorted(foreign & {*job.opening.tools.names}),
        )


def _elsewhere(root: Path | None) -> Path | None:
    """Return the specialists folder of a project other than the current one, if it has one."""
    project = None if root is None else project_root(root, root)
    if project is None or is_same(project, project_root(Path.cwd())):
        return None
    return next((one for one in (project / "specialists", project / ".claude" / "agents") if one.is_dir()), None)


def _given(cassette: Cassette, settings: Specialist, environment: RunEnvironment) -> RunEnvironment:
    """Return the environment with stand-ins for tools that cannot be made here, as recorded."""
    setup = cassette.setup
    # A function of the project may have the name of a built-in tool.
    recorded = _function_names(setup.settings.get("python_tools", ()))
    replacing = {*setup.given_tools, *recorded}
    own = [one for one in setup.tools if "input_schema" in one]
    defined = {str(one["name"]): one for one in own if one["name"] not in {*BUILT_IN} - replacing}
    given = stand_ins([defined.pop(name) for name in setup.given_tools if name in defined], cassette.calls)
    servers = [f"mcp__{name}__" for name in servers_of(settings, environment.root)]
    served = [one for name, one in defined.items() if name.startswith(tuple(servers))]
    declared = _function_names(settings.python_tools)
    removed = recorded - declared
    functions = [
        one
        for name, one in defined.items()
        if settings.python_tools and not name.startswith("mcp__") and name not in removed
    ]
    added = [{"name": name, "description": "", "input_schema": {}} for name in sorted(declared - recorded)]
    trusted = environment.extra_tools.offered
    asked_for = [one for one in own if one["name"] in OFFERED and names_tool(settings.tools, str(one["name"]))]
    # The replies contain the calls that the API has run.
    of_api = {str(one["name"]) for one in setup.tools if "input_schema" not in one}
    by_api = [tool for tool in server_tools(settings) if tool.name in of_api]
    extra = ExtraTools(
        stand_ins([*functions, *added], cassette.calls),
        stand_ins(served, cassette.calls),
        # Whether they are trusted here does not matter, because they are not run.
        tuple({one.name: one for one in (*stand_ins(asked_for, cassette.calls), *trusted, *by_api)}.values()),
        files=environment.extra_tools.files,
    )
    return replace(environment, tools=given, extra_tools=extra)


def _function_names(references: Sequence[str]) -> set[str]:
    """Return the names of the project's functions, which a decorator may have changed."""
    return {reference.rpartition(":")[2].rpartition(".")[2] for reference in references}
