"""The command `specialists replay`: exit codes, output, cassette files, and what it refuses."""

import json
import socket
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.loop.run import Run
from run_specialist.record.journal import Received
from run_specialist.tools import files
from tests.cli.specialists_command import call
from tests.journals import Notebook, keep


@pytest.fixture
def recorded(ask, write, store):
    """A project with a stored run."""
    write("finder", "tool_calls_limit: 3", "paths: notes")
    assert ask()[0] == 0
    return write


def test_c1_an_equal_replay_ends_with_one_line(recorded, monkeypatch):
    """Exit code 0, without a connection or a key, and nothing is stored."""

    def refuse(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    done = call("replay", "last")
    run_id = json.loads(call("runs", "--json").stdout)["runs"][0]["run_id"]
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{run_id} replays the same: 3 requests, 2 tool calls, answered\n"
    assert call("replay", run_id[:18]).exit_code == 0
    assert len(json.loads(call("runs", "--json").stdout)["runs"]) == 1


def test_c2_a_difference_has_exit_code_1(recorded):
    """The block says where, what and what to do; `--json` has the same as values."""
    recorded("finder", "tool_calls_limit: 3", "paths: notes", body="You find all notes.")
    done = call("replay", "last")
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert lines[0].endswith(" differs at request 1 of 3: system prompt")
    assert lines[1:3] == ["--- stored", "+++ now"]
    assert {"-You find notes.", "+You find all notes."} < {*lines}
    assert lines[-2] == "finder.md has changed since the run."
    assert "\x1b" not in done.stdout
    values = json.loads(call("replay", "last", "--json").stdout)
    assert (values["same"], values["requests"]) == (False, 1)
    assert (values["difference"]["request"], values["difference"]["part"]) == (1, "system prompt")


def test_c2_a_changed_description_of_a_tool_is_found(recorded, monkeypatch):
    """As after a change of this program; the file is unchanged, and this is said."""

    def changed(*arguments):
        made = files.file_tools
        return [replace(one, description="Other.") if one.name == "grep" else one for one in made(*arguments)]

    monkeypatch.setattr("run_specialist.spawning.spawner.file_tools", changed)
    done = call("replay", "last")
    assert done.stdout.splitlines()[0].endswith(" differs at request 1 of 3: definition of the tool grep")
    assert '+  "description": "Other.",' in done.stdout
    assert "finder.md is unchanged, so a tool, a config file or this program differs." in done.stdout


def test_c4_a_run_is_saved_and_replayed_without_its_store(recorded, notes, store):
    """The same bytes each time; a file is overwritten only on request, and not by a run that differs."""
    for name in ("one.json", "two.json"):
        assert call("replay", "last", "--save", name).stdout.endswith(f"; saved to {name}\n")
    text = (notes / "one.json").read_text()
    assert text == (notes / "two.json").read_text()
    refused = call("replay", "last", "--save", "one.json")
    assert (refused.exit_code, "use --force to overwrite it" in refused.stderr) == (2, True)
    store.unlink()
    assert call("replay", "one.json").stdout.startswith("one.json replays the same: 3 requests")
    recorded("finder", "tool_calls_limit: 4", "paths: notes")
    done = call("replay", "one.json", "--save", "two.json", "--force")
    assert done.exit_code == 1
    assert "nothing was saved to two.json" in done.stderr
    assert (notes / "two.json").read_text() == text
    assert call("replay", "one.json", "--save", "three.json").exit_code == 1
    assert not (notes / "three.json").exists()


@pytest.mark.anyio
async def test_c3_a_run_whose_process_was_killed_is_refused(write, store):
    """Its reason and what to do, in one line."""
    write("finder", "tool_calls_limit: 3")
    notebook = Notebook()
    async with Runner(model="offline", store="none") as runner:
        job = (await runner.prepare("finder", "What do owls eat?")).job
    await Run(job, journal=notebook).outcome()
    await keep(f"sqlite:///{store}", notebook.until(Received, 1))
    done = call("replay", "last", "--all-projects")
    assert done.exit_code == 2
    assert "cannot be replayed: it has not ended (interrupted); resume it with `specialists resume" in done.stderr


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.json"], "none.json: No such file or directory"),
        (["2031"], "there is no run 2031"),
        (["last", "--root", "none"], "--root: none is not a folder"),
        (["last", "--save", "none/one.json"], "--save: none/one.json cannot be written: No such file or directory"),
        (["last", "--save", "notes", "--force"], "--save: notes cannot be written: Is a directory"),
    ],
)
def test_c4_wrong_arguments_are_one_line(recorded, arguments, reason):
    """Exit code 2 and a reason."""
    done = call("replay", *arguments)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert reason in done.stderr


def test_c1_a_deleted_or_broken_specialist_is_reported(recorded, notes):
    """By its name and by its line."""
    path = notes / "specialists/finder.md"
    path.write_text(path.read_text().replace("tool_calls_limit: 3", "tool_calls_limit: x"))
    done = call("replay", "last")
    assert (done.exit_code, "tool_calls_limit" in done.stderr) == (2, True)
    path.unlink()
    done = call("replay", "last")
    assert (done.exit_code, "no specialist named finder" in done.stderr) == (2, True)
