"""Offer specialists and stored runs as tools of the MCP server; convert arguments and results."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import mcp_types
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from run_specialist import budget
from run_specialist.budget import Kind
from run_specialist.errors import UsageError, with_flags
from run_specialist.mcp_server.runs import RunStatus, ServedRun
from run_specialist.record.outcome import NO_MODEL, Outcome
from run_specialist.spawning.availability import sentences
from run_specialist.spawning.spawner import answer_schema
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve
from run_specialist.specialist.tool_names import EDIT, SHELL, WRITE, names_tool
from run_specialist.tools.delegate import outcome_text
from run_specialist.views.page import iso

LONGEST_NAME = 48
"""Clients prefix tool names with the server's name, and model APIs accept at most 64 characters in total."""
RESERVED = ("start_run", "get_run", "steer_run", "cancel_run")
"""Tools for runs; specialists with these names get a suffix."""


@dataclass(frozen=True)
class Catalogue:
    """The tools of a server for the current specialist files."""

    offered: Mapping[str, tuple[SpecialistFile, Tool]]
    """The specialists by tool name, each with its definition for clients."""
    problems: tuple[str, ...]
    """Why the others are not offered: errors of files, each naming the file, and missing requirements."""

    def without(self, unavailable: Mapping[Path, str]) -> "Catalogue":
        """Return the catalogue without specialists that cannot work here; the names of the others stay the same.

        unavailable: the reasons by path.
        """
        offered = {name: one for name, one in self.offered.items() if one[0].path not in unavailable}
        reasons = sentences((file for file, _ in self.offered.values()), unavailable)
        return Catalogue(offered, (*self.problems, *reasons))


def read_catalogue(registry: Registry) -> Catalogue:
    """Read all specialist files again and return those without errors as tools."""
    registry.reread()
    offered: dict[str, tuple[SpecialistFile, Tool]] = {}
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
        first = re.sub(r"[^A-Za-z0-9_-]+", "-", file.name).strip("-")[:LONGEST_NAME].rstrip("-") or "specialist"
        names = (first, *(f"{first}-{number}" for number in range(2, len(offered) + len(RESERVED) + 3)))
        name = next(one for one in names if one not in offered and one not in RESERVED)
        words = re.sub(r"[-_\s]+", " ", file.name).strip()
        title = words[:1].upper() + words[1:]
        tool = Tool(
            name=name,
            title=title,
            description=file.description,
            input_schema=schema_of(asking(settings), ["query"]),
            output_schema=output_schema(schema),
            annotations=hints(title, only_reads=_only_reads(file, settings, registry)),
        )
        offered[name] = (file, tool)
    return Catalogue(offered, tuple(problems))


def asking(settings: Specialist) -> dict[str, Any]:
    """Return the schema properties of a question and the limits of its run."""
    limit = settings.tool_calls_limit
    known = "no limit" if limit is None else str(limit)
    asks = "The question, with all that has to be known to answer it; nothing else of yours is seen."
    text = f"At most so many tool calls, failed ones included; {known} unless given."
    calls: dict[str, Any] = {"type": "integer", "minimum": 0, "description": text}
    text = "At most so many seconds; at the end it answers from what it has."
    seconds: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0, "description": text}
    return {
        "query": {"type": "string", "minLength": 1, "description": asks},
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
    writes = settings.writable and any(names_tool(settings.tools, tool) for tool in (EDIT, WRITE, SHELL))
    if settings.python_tools or settings.mcp_servers or writes:
        return False
    for name in set(registry.callable_names(settings.agents)) - {*above, settings.name}:
        # A child that cannot be read cannot be asked.
        with suppress(UsageError):
            child_file = registry.find(name, file)
            child = resolve(child_file, {}).settings
            if not _only_reads(child_file, child, registry, (*above, settings.name)):
                return False
    return True


NO_ANSWER = ("failed", "aborted")
"""With these statuses, `answer` contains only partial findings."""
_HIDDEN = ("error", "exit_code")


def outcome_result(outcome: Outcome, *, stored: bool, reply_by: str = "start_run") -> CallToolResult:
    """Return the result of a call whose run has ended.

    stored: whether the run is stored and can be resumed.
    reply_by: the tool for a reply to a question of the specialist.
    """
    text = text_for_model(outcome, stored=stored, reply_by=reply_by)
    return result(text, outcome.as_json(), is_error=outcome.status in NO_ANSWER)


def result(text: str, structured: dict[str, Any] | None, *, is_error: bool = False) -> CallToolResult:
    """Return a result with a text for the model; an error gives the reason and the fix."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=is_error
    )


def output_schema(answer: AnswerSchema | None) -> dict[str, Any]:
    """Return the JSON Schema of an outcome.

    answer: the schema of a non-null `output`; None for a specialist that answers in text only.
    """
    schema = _outcome_schema()
    output: dict[str, Any] = {"type": "null"}
    definitions = schema["$defs"]
    if answer is not None:
        # Omit a schema that cannot be embedded; the run validates the answer in any case.
        output, embedded = {}, answer.embedded("/$defs/Output")
        if embedded is not None:
            output = {"anyOf": [{"$ref": "#/$defs/Output"}, {"type": "null"}]}
            definitions = {**definitions, "Output": dict(embedded)}
    return {**schema, "$defs": definitions, "properties": {**schema["properties"], "output": output}}


@cache
def _outcome_schema() -> dict[str, Any]:
    full = TypeAdapter(Outcome).json_schema(mode="serialization")
    del full["$defs"]["Exit"]

    def without_titles(value: Any) -> Any:  # noqa: ANN401 - JSON
        # Titles repeat the names.
        if isinstance(value, list):
            return [without_titles(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: without_titles(one) for key, one in value.items() if not (key == "title" and isinstance(one, str))}

    schema: dict[str, Any] = without_titles(full)
    schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in _HIDDEN}
    schema["required"] = [*schema["properties"]]
    schema["description"] = "How the run ended."
    return schema


def text_for_model(outcome: Outcome, *, stored: bool, reply_by: str = "start_run") -> str:
    """Return the text for the model: the outcome, and how to continue if a limit ended the run."""
    more = ""
    if outcome.landing is not None:
        kind = Kind(outcome.landing.reason)
        limit = outcome.limits[kind].limit
        reached = kind.label if limit is None else budget.amount(kind, limit)
        again = "ask again with a larger one" if kind in {Kind.TOOL_CALLS, Kind.TIME} else "ask for less at a time"
        on = f", or go on from here on the command line: specialists resume {outcome.run_id}" if stored else ""
        more = f"the limit of {reached} was reached; {again}{on}"
    elif outcome.question and stored:
        more = f"to reply: {reply_by} with run_id {outcome.run_id}, and the reply as query"
    elif outcome.status in NO_ANSWER and stored:
        more = f"to go on from here on the command line: specialists resume {outcome.run_id}"
    parts = [outcome_text(outcome, more)]
    # The first line says already that no model judged.
    if warnings := [f"- {warning}" for warning in outcome.warnings if warning != NO_MODEL]:
        parts.append("\n".join(["Warnings:", *warnings]))
    return "\n\n".join(parts)


LONGEST_WAIT = 600
"""Maximum of `wait_seconds` [s]."""
_RUN_ID = {"type": "string", "minLength": 1, "description": "As start_run returned it."}
_MORE = {**_RUN_ID, "description": "A run that has ended, to ask it more with a fresh budget; limits are then totals."}
_STATUS = {
    "run_id": {"type": "string"},
    "specialist": {"type": "string"},
    "status": {"type": "string", "description": "running; interrupted, its process died; else that of its outcome."},
    "progress": {"type": ["string", "null"], "description": "What it did last, and what is left."},
    "tool_calls_used": {"type": ["integer", "null"]},
    "outcome": {"type": ["object", "null"], "description": "Null while there is none."},
}
_STATUS_SCHEMA = schema_of(_STATUS, [*_STATUS])


def run_tools(catalogue: Catalogue) -> list[Tool]:
    """Return the tools for long runs; `start_run` only if there are specialists."""
    text = "Waits so long for the end of the run, if it is still at work."
    wait = {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0, "description": text}

    def of_run(name: str, title: str, description: str, more: Mapping[str, Any], **hinted: bool) -> Tool:
        """Return a tool for one run; of its arguments only `wait_seconds` is optional."""
        properties = {"run_id": _RUN_ID, **more}
        return Tool(
            name=name,
            description=description,
            input_schema=schema_of(properties, [key for key in properties if key != "wait_seconds"]),
            output_schema=_STATUS_SCHEMA,
            annotations=ToolAnnotations(title=title, destructive_hint=False, open_world_hint=False, **hinted),
        )

    tells = (
        "Tells how a run stands that start_run began, or that this project stored: its progress, and its outcome once "
        "there is one."
    )
    get = of_run("get_run", "How a run stands", tells, {"wait_seconds": wait}, read_only_hint=True)
    stops = "Stops a run that start_run began, and returns what it had gathered."
    cancel = of_run("cancel_run", "Cancel a run", stops, {}, read_only_hint=False, idempotent_hint=True)
    adds = "Adds a text to a run at work that start_run began, beside its next tool results."
    added = {"text": {"type": "string", "minLength": 1}}
    steer = of_run("steer_run", "Add to a run", adds, added, read_only_hint=False)
    if not catalogue.offered:
        # An empty enum of names is not a valid schema.
        return [get, steer, cancel]
    lines = [f"\n- {name}: {' '.join(file.description.split())}" for name, (file, _) in catalogue.offered.items()]
    only_reads = all(one.annotations and one.annotations.read_only_hint for _, one in catalogue.offered.values())
    query = asking(Specialist(name="", description="", prompt="", tool_calls_limit=None))
    query["tool_calls_limit"]["description"] = "At most so many tool calls; what its file says unless given."
    named = {"type": "string", "enum": [*catalogue.offered], "description": "Which one to ask."}
    begun = {"run_id": {"type": "string"}, "status": {"const": "running"}}
    start = Tool(
        name="start_run",
        description=(
            "Begins a run that may take long and returns its run_id at once; get_run tells how it stands. The run goes "
            f"on whatever becomes of this connection.{''.join(lines)}"
        ),
        input_schema=schema_of({"specialist": named, **query, "run_id": _MORE}, ["specialist", "query"]),
        output_schema=schema_of(begun, [*begun]),
        annotations=hints("Start a run", only_reads=only_reads),
    )
    return [start, get, steer, cancel]


def started(run_id: str) -> CallToolResult:
    """Return the result of `start_run`."""
    text = f"Run {run_id} is at work. get_run with this run_id tells how it stands; wait_seconds lets it wait."
    return result(text, {"run_id": run_id, "status": "running"})


def status_result(run: RunStatus) -> CallToolResult:
    """Return the status of a run."""
    status = {
        "run_id": run.run_id,
        "specialist": run.specialist,
        "status": run.status,
        "tool_calls_used": run.tool_calls,
        "progress": run.progress,
        "outcome": run.outcome and run.outcome.as_json(),
    }
    return result(status_text(run), status)


def status_text(run: RunStatus) -> str:
    """Return the status of a run as a text for the model."""
    if run.outcome:
        return text_for_model(run.outcome, stored=run.is_kept)
    if run.progress is not None:
        return f"[{run.status}] {run.progress}"
    if run.status == "interrupted":
        return (
            f"[interrupted after {run.tool_calls} tool calls: the process that worked on it died, and it has no "
            f"outcome; to go on from here on the command line: specialists resume {run.run_id}]"
        )
    return f"[{run.status}] another process works on it; {run.tool_calls} tool calls used so far"


POLL_INTERVAL = 1_000
"""How often clients should ask for a task [ms]."""


def task_tools(catalogue: Catalogue) -> list[Tool]:
    """Return the tools for a client that polls tasks: its calls need no `start_run`, so they take its `run_id`."""
    offered = [tool.model_copy(deep=True) for _, tool in catalogue.offered.values()]
    for tool in offered:
        tool.input_schema["properties"]["run_id"] = _MORE
    return [*offered, *(tool for tool in run_tools(catalogue) if tool.name == "steer_run")]


def task(run: RunStatus, *, is_new: bool = False) -> dict[str, Any]:
    """Return a run as a task; is_new: as the result of the call that began it."""
    text, ended = status_text(run), run.outcome
    found = {"taskId": run.run_id, "createdAt": iso(run.began), "lastUpdatedAt": iso(run.changed)}
    # Runs are kept as long as the store is.
    shown: dict[str, Any] = {**found, "ttlMs": None, "pollIntervalMs": POLL_INTERVAL, "statusMessage": text}
    if is_new:
        return {**shown, "resultType": "task", "status": "working"}
    if run.status == "interrupted":
        return {**shown, "status": "failed", "error": {"code": mcp_types.INTERNAL_ERROR, "message": text}}
    if ended is None or ended.status == "aborted":
        return {**shown, "status": "working" if ended is None else "cancelled"}
    given = outcome_result(ended, stored=run.is_kept, reply_by="this tool")
    result = given.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**shown, "status": "completed", "statusMessage": ended.status, "result": result}


def prompts(catalogue: Catalogue) -> list[mcp_types.Prompt]:
    """Return a prompt for each specialist, with which a person has it asked."""
    asks = "Your question; without one, what the conversation is about."
    arguments = [mcp_types.PromptArgument(name="query", description=asks, required=False)]
    return [
        mcp_types.Prompt(name=name, title=tool.title, description=tool.description, arguments=arguments)
        for name, (_, tool) in catalogue.offered.items()
    ]


def prompt(tool_name: str, query: str | None) -> mcp_types.GetPromptResult:
    """Return the prompt of a specialist for a question."""
    about = "what we are discussing" if query is None else f"this question: {query}"
    text = f"Ask the tool `{tool_name}`, and give me its answer with the evidence. Ask it {about}"
    content = TextContent(type="text", text=text)
    return mcp_types.GetPromptResult(messages=[mcp_types.PromptMessage(role="user", content=content)])


_RUNS, _JSON, _TEXT = "run-specialist://runs/", "application/json", "text/markdown"
RUN_URI = re.compile(rf"{_RUNS}([^/]+)(/report)?")
"""The URI of a run as a resource, or of its report."""
TEMPLATES = [
    mcp_types.ResourceTemplate(name=name, uri_template=_RUNS + form, description=description, mime_type=kind)
    for name, form, description, kind in (
        ("run", "{run_id}", "How a run stands, with its outcome.", _JSON),
        ("report", "{run_id}/report", "The answer of a run with the evidence.", _TEXT),
    )
]


def reports(known: Mapping[str, ServedRun]) -> list[mcp_types.Resource]:
    """Return the reports of runs, the newest first."""
    return [
        mcp_types.Resource(name=f"{known[run_id].specialist} {run_id}", uri=f"{_RUNS}{run_id}/report", mime_type=_TEXT)
        for run_id in reversed([*known])
    ]


def resource(uri: str, run: RunStatus, *, is_report: bool) -> mcp_types.ReadResourceResult:
    """Return a run as a resource, with what `get_run` returns."""
    kind, text = _TEXT, status_text(run)
    if not is_report:
        kind, text = _JSON, json.dumps(status_result(run).structured_content, ensure_ascii=False, indent=2)
    return mcp_types.ReadResourceResult(contents=[mcp_types.TextResourceContents(uri=uri, mime_type=kind, text=text)])


LARGEST = 1_000_000_000
"""Largest accepted limit."""


_Words = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]
_RunId = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, pattern="^[A-Za-z0-9_-]{1,64}$")]
_ARGUMENTS: Mapping[str, tuple[str, TypeAdapter[Any]]] = {
    "specialist": ("a text that is not empty", TypeAdapter(_Words)),
    "query": ("a text that is not empty", TypeAdapter(_Words)),
    "text": ("a text that is not empty", TypeAdapter(_Words)),
    "run_id": ("the whole run_id as start_run returned it", TypeAdapter(_RunId)),
    "tool_calls_limit": ("a whole number from 0 up", TypeAdapter(Annotated[int, Field(ge=0, le=LARGEST)])),
    "time_limit": ("seconds above 0", TypeAdapter(Annotated[float, Field(gt=0, le=LARGEST)])),
    "wait_seconds": (f"seconds from 0 to {LONGEST_WAIT}", TypeAdapter(Annotated[float, Field(ge=0, le=LONGEST_WAIT)])),
}


def checked_arguments(
    given: Mapping[str, Any] | None, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the arguments of a call; `question` is read as `query`. Raises UsageError.

    A null counts as missing, because models write missing values this way.
    """
    known = (*required, *optional)
    values = {key: value for key, value in (given or {}).items() if value is not None or key not in known}
    if "query" in known and "query" not in values and "question" in values:
        values["query"] = values.pop("question")
    for key in values:
        if key not in known:
            raise UsageError(f"there is no argument {shown(key)}; there are: {', '.join(known)}")
    for key in known:
        wanted, adapter = _ARGUMENTS[key]
        value = values.get(key)
        if value is None and key in optional:
            continue
        try:
            # pydantic would convert a boolean to a number.
            values[key] = adapter.validate_python(None if isinstance(value, bool) else value)
        except ValidationError:
            found = "nothing" if value is None else shown(repr(value), 60)
            raise UsageError(f"{key}: wanted {wanted}, found {found}") from None
    return values
