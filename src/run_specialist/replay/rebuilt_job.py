"""Rebuild the job of a recorded run from the specialist's current file."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from run_specialist.api.runner import Runner
from run_specialist.config.config import read_config
from run_specialist.loop.job import Job
from run_specialist.providers.base import Provider
from run_specialist.providers.local.local_servers import prefix_of
from run_specialist.replay.cassette import Cassette
from run_specialist.replay.recorded_memory import with_recorded_memory
from run_specialist.replay.recorded_tools import RecordedTools, stand_ins
from run_specialist.spawning.extra_tools import ExtraTools
from run_specialist.spawning.origin import settings_of
from run_specialist.spawning.run_environment import Parent, RunEnvironment
from run_specialist.spawning.server_offers import server_tools
from run_specialist.spawning.spawner import spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers.servers import servers_of
from run_specialist.specialist.project import is_same, project_root
from run_specialist.specialist.resolve import resolve
from run_specialist.specialist.tool_names import BUILT_IN, EDIT, OFFERED, SHELL, WRITE, names_tool
from run_specialist.tools.archive import NAME as ARCHIVE
from run_specialist.tools.base import Toolset
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.tools.memory.memory_tool import NAME as MEMORY
from run_specialist.tools.respond import NAME as RESPOND

Tools = Literal["stored", "live"]
"""Whether tools return recorded results, or are run again."""

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
    cassette: Cassette, place: SpecialistLocation, provider: Provider, tools: Tools, recorded: RecordedTools
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
        settings = resolve(file, _overrides(cassette)).settings
        is_live = tools == "live"
        idle = settings if is_live else settings.model_copy(update=_NOT_STARTED)
        parent = Parent("", runner.root, tuple(setup.parents)) if setup.parents else None
        environment = await runner.environments.make(runner.root, file, idle, provider, parent)
        environment = with_recorded_memory(environment, settings, cassette)
        given = _given(cassette, settings, environment, is_live=is_live)
        job = spawn(file, settings, setup.question, replace(given, keeps_archive=_keeps_archive(cassette)))
        foreign = {tool.name for tool in (*given.tools, *given.extra_tools.functions, *given.extra_tools.served)}
        changing = {EDIT, WRITE, MEMORY, *([SHELL] if settings.writable else [])}
        stored = {*job.opening.tools.names} - {RESPOND} if not is_live else {*setup.given_tools, DELEGATE, *changing}
        offered = [recorded.replaced(tool) if tool.name in stored else tool for tool in job.opening.tools]
        job = replace(
            job,
            run_id=RUN_ID,
            opening=replace(job.opening, tools=Toolset(offered)),
            # Recorded results are masked already, and nothing is retried.
            secrets=job.secrets if is_live else (),
            settings=job.settings.model_copy(update={"patience": 0}),
        )
        yield RebuiltJob(
            job,
            file,
            settings_of(settings, job.answer_schema),
            sorted(foreign & {*job.opening.tools.names} & (stored if is_live else foreign)),
        )


def _elsewhere(root: Path | None) -> Path | None:
    """Return the specialists folder of a project other than the current one, if it has one."""
    project = None if root is None else project_root(root, root)
    if project is None or is_same(project, project_root(Path.cwd())):
        return None
    return next((one for one in (project / "specialists", project / ".claude" / "agents") if one.is_dir()), None)


def _overrides(cassette: Cassette) -> dict[str, Any]:
    """Return the settings that the call of the recorded run set."""
    setup = cassette.setup
    # Of the three required ones a call sets none.
    recorded = Specialist.model_validate(
        {"name": "", "description": "", "prompt": "", **setup.settings}, extra="ignore"
    )
    return {key: getattr(recorded, key) for key in setup.overridden if key not in _NOT_KEPT}


def _given(cassette: Cassette, settings: Specialist, environment: RunEnvironment, *, is_live: bool) -> RunEnvironment:
    """Return the environment with stand-ins for tools that cannot be made here, as recorded."""
    setup = cassette.setup
    # A function of the project may have the name of a built-in tool.
    replacing = {*setup.given_tools, *_function_names(setup.settings.get("python_tools", ()))}
    own = [one for one in setup.tools if "input_schema" in one]
    defined = {str(one["name"]): one for one in own if one["name"] not in {*BUILT_IN} - replacing}
    given = stand_ins([defined.pop(name) for name in setup.given_tools if name in defined], cassette.calls)
    if is_live:
        return replace(environment, tools=given)
    servers = [f"mcp__{name}__" for name in servers_of(settings, environment.root)]
    served = [one for name, one in defined.items() if name.startswith(tuple(servers))]
    declared = _function_names(settings.python_tools)
    removed = _function_names(setup.settings.get("python_tools", ())) - declared
    functions = [
        one
        for name, one in defined.items()
        if settings.python_tools and not name.startswith("mcp__") and name not in removed
    ]
    added = [
        {"name": name, "description": "", "input_schema": {}}
        for name in sorted(declared - _function_names(setup.settings.get("python_tools", ())))
    ]
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


def _keeps_archive(cassette: Cassette) -> bool:
    """Return whether the archive was offered only because a local model has a small context."""
    setup = cassette.setup
    return prefix_of(setup.model) is not None and any(one["name"] == ARCHIVE for one in setup.tools)
