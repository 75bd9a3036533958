"""The specialists of a project as MCP tools: names, descriptions, schemas and annotations."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_types import Tool, ToolAnnotations

from run_specialist.api.flag_names import with_flags
from run_specialist.errors import UsageError
from run_specialist.mcp_server.results import output_schema
from run_specialist.spawning.availability import sentences
from run_specialist.spawning.spawner import answer_schema
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.resolve import resolve
from run_specialist.specialist.tool_names import EDIT, SHELL, WRITE, names_tool

LONGEST_NAME = 48
"""Clients prefix tool names with the server's name, and model APIs accept at most 64 characters in total."""
RESERVED = ("start_run", "get_run", "cancel_run")
"""Tools for runs; specialists with these names get a suffix."""


@dataclass(frozen=True)
class SpecialistTool:
    """A specialist as an MCP tool."""

    tool_name: str
    file: SpecialistFile
    settings: Specialist
    only_reads: bool
    """True if neither the specialist nor its agents have custom tools; built-in tools are read-only."""
    answer_schema: AnswerSchema | None

    @property
    def tool(self) -> Tool:
        """The tool definition for clients."""
        return Tool(
            name=self.tool_name,
            title=self.title,
            description=self.file.description,
            input_schema=schema_of(asking(self.settings), ["query"]),
            output_schema=output_schema(self.answer_schema),
            annotations=hints(self.title, only_reads=self.only_reads),
        )

    @property
    def title(self) -> str:
        """The name with spaces, and a capital first letter."""
        words = re.sub(r"[-_\s]+", " ", self.file.name).strip()
        return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Catalogue:
    """The tools of a server for the current specialist files."""

    offered: Mapping[str, SpecialistTool]
    """The specialists by tool name."""
    problems: tuple[str, ...]
    """Why the others are not offered: errors of files, each naming the file, and missing requirements."""

    def find(self, name: str) -> SpecialistTool | None:
        """Return a specialist by tool name or by its own name, or None."""
        return self.offered.get(name) or next((one for one in self.offered.values() if one.file.name == name), None)

    def not_found(self, name: str) -> UsageError:
        """Return the error that there is no such specialist, with the names of those that are offered."""
        there = ", ".join(self.offered) or "none; see what `specialists check` says"
        return UsageError(f"there is no specialist {shown(repr(name))}; there are: {there}")

    def without(self, unavailable: Mapping[Path, str]) -> "Catalogue":
        """Return the catalogue without specialists that cannot work here; the names of the others stay the same.

        unavailable: the reasons by path.
        """
        offered = {name: one for name, one in self.offered.items() if one.file.path not in unavailable}
        reasons = sentences((one.file for one in self.offered.values()), unavailable)
        return Catalogue(offered, (*self.problems, *reasons))

    @property
    def only_reads(self) -> bool:
        """True if no specialist has custom tools."""
        return all(one.only_reads for one in self.offered.values())


def read_catalogue(registry: Registry) -> Catalogue:
    """Read all specialist files again and return those without errors as tools."""
    registry.reread()
    offered: dict[str, SpecialistTool] = {}
    problems: list[str] = []
    for file in registry.nearest():
        try:
            settings = resolve(file, {}).settings
            schema = answer_schema(file, settings)
        except UsageError as error:
            problems += with_flags(str(error)).splitlines()
            continue
        if settings.disable_model_invocation:
            continue
        name = _unique(_tool_name(file.name), offered)
        offered[name] = SpecialistTool(name, file, settings, _only_reads(file, settings, registry), schema)
    return Catalogue(offered, tuple(problems))


def asking(settings: Specialist) -> dict[str, Any]:
    """Return the schema properties of a question and the limits of its run."""
    limit = settings.tool_calls_limit
    known = "no limit" if limit is None else str(limit)
    calls: dict[str, Any] = {
        "type": "integer",
        "minimum": 0,
        "description": f"At most so many tool calls, failed ones included; {known} unless given.",
    }
    seconds: dict[str, Any] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "At most so many seconds; at the end it answers from what it has.",
    }
    return {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "The question, with all that has to be known to answer it; nothing else of yours is seen.",
        },
        "tool_calls_limit": calls if limit is None else calls | {"default": limit},
        "time_limit": seconds if settings.time_limit is None else seconds | {"default": settings.time_limit},
    }


def schema_of(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def hints(title: str, *, only_reads: bool) -> ToolAnnotations:
    """Return the annotations of a tool; custom tools may have any effect, so only built-in tools count as read-only."""
    if not only_reads:
        return ToolAnnotations(title=title, read_only_hint=False, open_world_hint=True)
    return ToolAnnotations(title=title, read_only_hint=True, destructive_hint=False, open_world_hint=False)


def _only_reads(file: SpecialistFile, settings: Specialist, registry: Registry, above: tuple[str, ...] = ()) -> bool:
    if settings.python_tools or settings.mcp_servers:
        return False
    if settings.writable and any(names_tool(settings.tools, tool) for tool in (EDIT, WRITE, SHELL)):
        return False
    for name in set(registry.callable_names(settings.agents)) - {*above, settings.name}:
        try:
            child_file = registry.find(name, file)
            child = resolve(child_file, {}).settings
        except UsageError:
            continue
        if not _only_reads(child_file, child, registry, (*above, settings.name)):
            return False
    return True


def _tool_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:LONGEST_NAME].rstrip("-") or "specialist"


def _unique(name: str, taken: Mapping[str, object]) -> str:
    number, free = 1, name
    while free in taken or free in RESERVED:
        number += 1
        free = f"{name}-{number}"
    return free
