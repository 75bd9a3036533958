"""The command `specialists runs --delete`."""

import json
from contextlib import closing

import pytest

from run_specialist.store.location import place
from run_specialist.store.writer import Writer
from tests.cli.history.commands import here, listed, on_terminal
from tests.cli.specialists_command import call
from tests.unit.store.finished_runs import write
from tests.unit.store.records import begun, opened


def test_delete_removes_the_selected_runs(three):
    """`--json` prints the deleted runs, which are no longer listed."""
    told = json.loads(call("runs", "--specialist", "looker", "--delete", "--yes", "--json").stdout)
    assert (told["deleted"], [run["run_id"] for run in told["runs"]]) == (["run_c", "run_a"], ["run_c", "run_a"])
    assert listed() == ["run_b"]
    result = call("runs", "last", "--delete", "-y")
    assert result.stdout.splitlines()[1].startswith("run_b  reader")
    assert "1 run deleted" in result.stderr
    assert listed() == []
    result = call("runs", "--all", "--delete", "-y")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 runs deleted" in result.stderr


@pytest.mark.exhaustive
def test_delete_asks_for_confirmation_on_a_terminal(three):
    """Any answer other than yes deletes nothing."""
    for typed in (b"n\n", b"\n"):
        shown, code = on_terminal("runs", "--delete", "run_a", typed=typed)
        assert (code, "Delete 1 run permanently? [y/N]" in shown, "nothing was deleted" in shown) == (0, True, True)
    assert len(listed()) == 3
    shown, code = on_terminal("runs", "--delete", "run_a", typed=b"y\n")
    assert (code, "1 run deleted" in shown) == (0, True)
    assert listed() == ["run_c", "run_b"]


def test_delete_keeps_running_runs(three):
    """A running run is skipped in a selection; given by its id, it is refused and nothing is deleted."""
    with closing(Writer(place(None))) as writer:
        _, *rest = begun("alive")
        write(writer, alive=[opened("alive", frozen=here()), *rest])
        refused = call("runs", "--delete", "-y", "run_a", "alive")
        assert refused.exit_code == 2
        assert "alive is still running" in refused.stderr
        assert len(listed()) == 4
        result = call("runs", "--delete", "-y", "--all")
        assert "1 run still running: not deleted" in result.stderr
        assert listed() == ["alive"]


def test_delete_refuses_an_ambiguous_prefix(three):
    """A prefix of several run ids is refused, and nothing is deleted."""
    before = listed()
    said = call("runs", "--delete", "--yes", "run")
    assert (said.exit_code, "run ids start with run" in said.stderr) == (2, True)
    assert listed() == before
