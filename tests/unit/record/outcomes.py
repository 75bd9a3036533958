"""Outcomes to render."""

from typing import Any

from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Outcome, ToolCalls


def outcome(**fields: Any) -> Outcome:
    """Return an outcome that landed after three of nine calls."""
    values: dict[str, Any] = {
        "run_id": "run-1",
        "specialist": "owls",
        "model": "haiku",
        "status": "landed",
        "answer": "So.",
        "evidence": (),
        "gaps": (),
        "output": None,
        "tool_calls": ToolCalls(3, 9, 0, 0),
        "limits": {},
        "landing": None,
        "usage": Usage(),
        "cost_usd": None,
        "duration_s": 1.0,
        "warnings": (),
    }
    return Outcome(**(values | fields))
