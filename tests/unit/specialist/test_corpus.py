"""Real agent files and malformed variants of them load as their manifest expects."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from run_specialist.specialist.loader import SpecialistFile, load

SHARED = Path(os.environ.get("RUN_SPECIALIST_SHARED") or Path(__file__).resolve().parents[4] / "shared")
AGENTS = SHARED / "agents"
MANIFEST = AGENTS / "manifest.json"

if not MANIFEST.is_file():
    pytest.skip(f"no corpus at {AGENTS}; RUN_SPECIALIST_SHARED names another place", allow_module_level=True)

ENTRIES = json.loads(MANIFEST.read_text("utf-8"))["files"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_file_loads_as_expected(entry: dict[str, Any]) -> None:
    """Name, description, tools, model, limit and status match the manifest, and each problem lies within the file."""
    file = load(AGENTS / entry["file"])
    expected = entry["expected"]
    assert file.name == expected["name"]
    assert _description_fits(file, expected)
    assert (None if file.tools is None else list(file.tools)) == expected["tools"]
    assert file.model == expected["model"]
    assert file.tool_calls_limit == expected["tool_calls_limit"]
    assert (file.status == "error") == (expected["status"] == "error")
    lines = len(file.path.read_bytes().splitlines()) + 1
    assert all(1 <= problem.line <= lines for problem in file.problems)
    if file.status == "error":
        assert expected["error_key"] in {problem.key for problem in file.problems if problem.level == "error"}


def _description_fits(file: SpecialistFile, expected: dict[str, Any]) -> bool:
    if expected["description_60"] is None:
        return bool(file.description.strip())
    return (file.description[:60], len(file.description)) == (expected["description_60"], expected["description_chars"])
