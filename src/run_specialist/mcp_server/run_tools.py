"""The tools for long runs: `start_run`, `get_run` and `cancel_run`."""

from typing import Any

from mcp_types import CallToolResult, Tool, ToolAnnotations

from run_specialist.errors import UsageError
from run_specialist.mcp_server.catalogue import Catalogue, asking, hints, schema_of
from run_specialist.mcp_server.results import result, text_for_model
from run_specialist.mcp_server.runs import ServedRun
from run_specialist.mcp_server.stored_runs import FinishedRun
from run_specialist.specialist.fields import Specialist

LONGEST_WAIT = 600
"""Maximum of `wait_seconds` [s]."""
_RUN_ID = {"type": "string", "minLength": 1, "description": "As start_run returned it."}
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
    get = Tool(
        name="get_run",
        description=(
            "Tells how a run stands that start_run began, or that this project stored: its progress, and its outcome "
            "once there is one."
        ),
        input_schema=schema_of(
            {
                "run_id": _RUN_ID,
                "wait_seconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": LONGEST_WAIT,
                    "default": 0,
                    "description": "Waits so long for the end of the run, if it is still at work.",
                },
            },
            ["run_id"],
        ),
        output_schema=_STATUS_SCHEMA,
        annotations=hints("How a run stands", only_reads=True),
    )
    cancel = Tool(
        name="cancel_run",
        description="Stops a run that start_run began, and returns what it had gathered.",
        input_schema=schema_of({"run_id": _RUN_ID}, ["run_id"]),
        output_schema=_STATUS_SCHEMA,
        annotations=ToolAnnotations(
            title="Cancel a run",
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
    # An empty enum of names is not a valid schema.
    return [*([_start_tool(catalogue)] if catalogue.offered else []), get, cancel]


def _start_tool(catalogue: Catalogue) -> Tool:
    names = [*catalogue.offered]
    described = {name: " ".join(one.file.description.split()) for name, one in catalogue.offered.items()}
    listed = "\n".join(f"- {name}: {words}" for name, words in described.items())
    query = asking(Specialist(name="", description="", prompt="", tool_calls_limit=None))
    query["tool_calls_limit"]["description"] = "At most so many tool calls; what its file says unless given."
    started = {"run_id": {"type": "string"}, "status": {"const": "running"}}
    return Tool(
        name="start_run",
        description=(
            "Begins a run that may take long and returns its run_id at once; get_run tells how it stands. The run goes "
            f"on whatever becomes of this connection.\n{listed}"
        ),
        input_schema=schema_of(
            {"specialist": {"type": "string", "enum": names, "description": "Which one to ask."}, **query},
            ["specialist", "query"],
        ),
        output_schema=schema_of(started, [*started]),
        annotations=hints("Start a run", only_reads=catalogue.only_reads),
    )


def started(served: ServedRun) -> CallToolResult:
    """Return the result of `start_run`."""
    text = f"Run {served.run_id} is at work. get_run with this run_id tells how it stands; wait_seconds lets it wait."
    return result(text, {"run_id": served.run_id, "status": "running"})


def served_status(served: ServedRun) -> CallToolResult:
    """Return the status of a run of this server; raises UsageError if the run failed without an outcome."""
    if served.run is None or (served.failure is not None and served.outcome is None):
        raise UsageError(f"the run broke off: {served.failure}")
    outcome, progress = served.outcome, served.progress
    status = outcome.status if outcome else "running"
    used = outcome.tool_calls.used if outcome else progress.tool_calls
    text = text_for_model(outcome, stored=served.is_kept) if outcome else f"[{status}] {progress.latest.message}"
    fields = _fields(served.run_id, served.specialist, status, used)
    return result(text, {**fields, "progress": progress.latest.message, "outcome": outcome and outcome.as_json()})


def stored_status(run: FinishedRun) -> CallToolResult:
    """Return the status of a stored run."""
    outcome = run.outcome
    if outcome:
        text = text_for_model(outcome, stored=True)
    elif run.status == "interrupted":
        text = (
            f"[interrupted after {run.tool_calls} tool calls: the process that worked on it died, and it has no "
            f"outcome; to go on from here on the command line: specialists resume {run.run_id}]"
        )
    else:
        text = f"[{run.status}] another process works on it; {run.tool_calls} tool calls used so far"
    fields = _fields(run.run_id, run.specialist, run.status, run.tool_calls)
    return result(text, {**fields, "progress": None, "outcome": outcome and outcome.as_json()})


def _fields(run_id: str, specialist: str, status: str, used: int | None) -> dict[str, Any]:
    return {"run_id": run_id, "specialist": specialist, "status": status, "tool_calls_used": used}
