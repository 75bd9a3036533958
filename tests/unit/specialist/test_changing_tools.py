"""The tools that change files: their names in other programs, and the key `writable` that they require."""

from pathlib import Path

import pytest

from run_specialist.specialist.loader import load_text
from run_specialist.specialist.tool_names import names_tool

HEAD = "---\nname: x\ndescription: x\n"


def problems(*lines):
    """Return the warnings and errors of a file with these keys."""
    file = load_text("\n".join([HEAD + "\n".join(lines), "---", "x", ""]), Path("x.md"))
    return [problem.text for problem in file.problems if problem.level != "notice"]


def test_without_writable_a_warning_says_what_to_add():
    """With it the file has no problem."""
    lacking = "not available here: Edit, Write; `Edit` requires the key `writable`"
    assert problems("tools: Read, Edit, Write") == [lacking]
    assert problems("tools: Edit") == [
        "not available here: Edit; `Edit` requires the key `writable`; no tool is left, so the specialist cannot be run"
    ]
    assert problems("tools: Read, Edit, Write", "writable: docs/") == []


@pytest.mark.parametrize("value", ["../x", "/etc", "~/x", "a/../../b"])
def test_writable_paths_stay_below_the_root(value):
    """As with `paths`, a path that leads out is an error."""
    assert problems("tools: Read", f"writable: [{value}]")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *[(one, "edit") for one in ("Edit", "MultiEdit", "replace", "edit/editFiles", "editFiles", "str_replace")],
        *[(one, "write") for one in ("Write", "write_file", "create_file", "edit/createFile", "Write(docs/**)")],
    ],
)
def test_names_of_other_programs_ask_for_a_tool_that_changes_files(written, name):
    """Claude Code, Gemini CLI, opencode and Copilot; a pattern does not ask."""
    assert names_tool([written], name)
    assert not names_tool(["*", "e*", "w*", "edit*"], name)


def test_restrictions_of_other_programs_have_no_effect_on_what_is_writable():
    """A file that is read-only elsewhere gets a warning once it can change files here."""
    assert problems("tools: Read", "readonly: true") == []
    assert problems("tools: Edit", "writable: docs", "readonly: true") == [
        "restricts agents in other programs but has no effect here"
    ]
