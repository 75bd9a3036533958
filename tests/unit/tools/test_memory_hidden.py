"""Notes of specialists are closed for the file tools by their folder unless `paths` names it."""

import pytest

from run_specialist.errors import ToolError

NOTES = ".run-specialist/memory/finder/MEMORY.md"
LOCAL = ".run-specialist/memory-local/finder/topics/MEMORY.md"
OTHERS = ["memory/x.md", ".run-specialist/other.md", "x/.run-specialist.md", "notes/.run-specialist/x/memory/a.md"]


def test_notes_are_no_sources(call, write):
    """No file tool finds what a specialist has noted, and reading it is refused with the reason and the remedy."""
    write(dict.fromkeys((NOTES, LOCAL, f"sub/{NOTES}", *OTHERS), "needle"))
    assert sorted(call("grep", pattern="needle").splitlines()) == sorted(f"{path}:1: needle" for path in OTHERS)
    assert f"best of {len(OTHERS)}" in call("search", query="needle", limit=9)
    for path in (NOTES, LOCAL, f"sub/{NOTES}"):
        with pytest.raises(ToolError, match="is closed: it holds notes of specialists; `paths` in"):
            call("read", path=path)


def test_paths_open_notes_by_name(call, write):
    """An entry of `paths` that names the folder makes it visible; one that merely contains it does not."""
    write(dict.fromkeys((NOTES, "x.md"), "needle"))
    assert call("grep", paths=(".run-specialist/memory/",), pattern="needle") == f"{NOTES}:1: needle"
    assert call("grep", paths=(".",), pattern="needle") == "x.md:1: needle"
    assert "needle" not in call("grep", paths=(".run-specialist/",), pattern="needle").replace("'needle'", "")
