"""Convert database rows to stored runs; the reverse of `to_rows.py`. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from run_specialist.record.journal import RunSnapshot, Spending
from run_specialist.record.messages import Message, ToolCall, Usage
from run_specialist.record.outcome import (
    AskedModel,
    Child,
    Evidence,
    Exit,
    FileChange,
    LandingReport,
    Outcome,
    Spent,
    ToolCalls,
)
from run_specialist.record.server_calls import searches
from run_specialist.store.stored import StoredCall, StoredEvent, StoredMessage, StoredRun, StoredTurn

Row = Mapping[str, Any]
"""The columns of a row by name."""

_UNPRINTED = {"error", "exit_code"}
"""Fields of an outcome that `--json` does not print."""
_EXIT_CODES = {"failed": Exit.NO_ANSWER, "aborted": Exit.INTERRUPTED}
"""Exit codes of printed outcomes, by status; all others are `OK`."""
_HAVE_ERRORS = {*_EXIT_CODES, "partial"}
"""The statuses of outcomes with an error."""


def stored_run(
    listed: Mapping[str, Any], run: Row, rows: Mapping[str, Iterable[Row]], children: tuple[Child, ...]
) -> StoredRun:
    """Build a run from its rows.

    listed: fields of `ListedRun`.
    run: row of the table `runs`.
    rows: ordered rows of the other tables by table name; rows of `calls` include the `body` of their output.
    """
    frozen = json.loads(run["frozen"])
    fork = frozen.get("fork") or {}
    return StoredRun(
        **listed,
        forked_from=fork.get("run_id"),
        forked_at=fork.get("at"),
        frozen=frozen,
        snapshot=None if run["standing"] is None else run_snapshot(json.loads(run["standing"])),
        outcome=outcome(run["outcome"]),
        turns=tuple(map(_turn, rows["turns"])),
        calls=tuple(map(_call, rows["calls"])),
        messages=tuple(map(_message, rows["messages"])),
        events=tuple(StoredEvent(row["number"], row["at"], json.loads(row["body"])) for row in rows["events"]),
        children=children,
    )


def outcome(text: str | None) -> Mapping[str, Any] | None:
    """Parse an outcome; return it as `--json` prints it."""
    if text is None:
        return None
    return {key: value for key, value in json.loads(text).items() if key not in _UNPRINTED}


def outcome_of(values: Mapping[str, Any]) -> Outcome:
    """Build the outcome as the run returned it.

    values: as it is stored, or as `--json` prints it; then status and warnings tell the error and the exit code.
    """
    landing, status = values["landing"], values["status"]
    printed = {
        "error": values["warnings"][-1] if status in _HAVE_ERRORS and values["warnings"] else None,
        "exit_code": _EXIT_CODES.get(status, Exit.OK),
    }
    restored = {
        **printed,
        **values,
        "evidence": tuple(Evidence(**quote) for quote in values["evidence"]),
        "gaps": tuple(values["gaps"]),
        "tool_calls": ToolCalls(**values["tool_calls"]),
        "limits": {kind: Spent(**spent) for kind, spent in values["limits"].items()},
        "landing": landing and LandingReport(**{**landing, "usage": Usage(**landing["usage"])}),
        "usage": Usage(**values["usage"]),
        "warnings": tuple(values["warnings"]),
        "children": tuple(map(child, values["children"])),
        "models": asked_models(values),
        "changes": tuple(FileChange(**one) for one in values["changes"]),
        "exit_code": Exit(values.get("exit_code", printed["exit_code"])),
    }
    return Outcome(**restored)


def run_snapshot(values: Mapping[str, Any]) -> RunSnapshot:
    """Build a snapshot of a run."""
    restored = {
        **values,
        "total": _spending(values["total"]),
        "warnings": tuple(values["warnings"]),
        "children": tuple(map(child, values["children"])),
        "returned": tuple(values["returned"]),
        "models": asked_models(values),
    }
    return RunSnapshot(**restored)


def child(values: Mapping[str, Any]) -> Child:
    """Build the record of a child run."""
    inner = tuple(map(child, values["children"]))
    quotes = tuple(Evidence(**quote) for quote in values["evidence"])
    restored = {
        "usage": Usage(**values["usage"]),
        "evidence": quotes,
        "children": inner,
        "changes": tuple(FileChange(**one) for one in values.get("changes", ())),
    }
    return Child(**{**values, **restored})


def file_change(event: Mapping[str, Any]) -> FileChange | None:
    """Return the change of a file in a stored event; None for another event, and in a dry run."""
    if event.get("event") != "file_changed" or event["dry_run"]:
        return None
    return FileChange(
        event["path"],
        event.get("change", "created" if event["is_new"] else "changed"),
        event["added"],
        event["removed"],
        event.get("undoable", True),
    )


def asked_models(values: Mapping[str, Any]) -> tuple[AskedModel, ...]:
    """Build the records of the models that a run has asked, from its outcome or snapshot."""
    return tuple(AskedModel(**{**one, "usage": Usage(**one["usage"])}) for one in values["models"])


def _spending(values: Mapping[str, Any]) -> Spending:
    return Spending(Usage(**values["usage"]), values["cost_usd"])


def _turn(row: Row) -> StoredTurn:
    blocks = tuple(json.loads(row["blocks"]))
    return StoredTurn(
        number=row["number"],
        at=row["at"],
        seconds=row["seconds"],
        choice=row["choice"],
        landing_instruction=row["words"],
        landing=row["landing"],
        stop=row["stop"],
        reason=row["reason"],
        blocks=blocks,
        usage=Usage(
            row["input_tokens"],
            row["cache_read_input_tokens"],
            row["cache_creation_input_tokens"],
            row["output_tokens"],
            searches(blocks),
        ),
        cost_usd=row["cost_usd"],
        more_room_helps=row["more_room_helps"],
    )


def _call(row: Row) -> StoredCall:
    arguments = None if row["arguments"] is None else json.loads(row["arguments"])
    return StoredCall(
        number=row["number"],
        turn=row["turn"],
        at=row["at"],
        seconds=row["seconds"],
        call=ToolCall(row["call_id"], row["name"], arguments),
        whole=row["body"],
        characters=row["characters"],
        is_error=row["is_error"],
        note=row["note"],
        repeated=row["repeated"],
    )


def _message(row: Row) -> StoredMessage:
    message = Message(row["role"], tuple(json.loads(row["blocks"])), row["words"])
    return StoredMessage(row["part"], row["place"], row["copied"], message)
