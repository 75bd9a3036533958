"""Parent and child runs in the commands for stored runs."""

import json

import pytest
from typer.testing import CliRunner

from run_specialist.cli.manage import app
from tests.cli.history.commands import NOON, keep, run_of


@pytest.fixture
def tree(store):
    """Store a run with two children, one of which has a child, and a newer run without any."""
    keep(
        top=run_of("top", NOON),
        first=run_of("first", NOON + 1, parent_id="top", specialist="owls", question="Why?"),
        deep=run_of("deep", NOON + 2, parent_id="first", specialist="mice", question="Who?"),
        second=run_of("second", NOON + 3, parent_id="top", specialist="owls", question="When?"),
        alone=run_of("alone", NOON + 9),
    )
    return store


def printed(*arguments):
    """Return what a command prints to standard output."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def ids(*arguments):
    """Return the first column of a listing, with its indentation."""
    return [line.split("  owls")[0].split("  mice")[0].split("  looker")[0].rstrip() for line in listing(*arguments)]


def listing(*arguments):
    """Return the lines of a listing without the header."""
    return printed("runs", *arguments).splitlines()[1:]


def test_child_runs_are_indented_below_their_parent(tree):
    """The newest run comes first; child runs follow their parent, oldest first, indented by two spaces."""
    assert ids() == ["alone", "top", "  first", "    deep", "  second"]
    assert "(of " not in printed("runs")


def test_a_child_listed_without_its_parent_shows_the_parent_id(tree):
    """A child run without its parent is listed at its own place in time, with the id of the parent."""
    assert ids("--specialist", "owls") == ["second", "first"]
    assert [line.split("  ")[-1] for line in listing("--specialist", "owls")] == ["(of top) When?", "(of top) Why?"]
    assert ids("top", "deep") == ["deep", "top"]


def test_a_transcript_names_parent_and_children(tree):
    """A transcript lists the parent and the children below its heading, and as fields in JSON."""
    assert printed("transcript", "first").splitlines()[1:3] == ["asked by top", "asked deep  looker  answered"]
    told = json.loads(printed("transcript", "top", "--json"))
    assert (told["parent_id"], [one["run_id"] for one in told["children"]]) == (None, ["first", "second"])
    assert told["children"][0] == {"run_id": "first", "specialist": "looker", "status": "answered"}
    assert "asked" not in printed("transcript", "alone")
