"""The commands `specialists list` and `check`, and `specialists` as a separate process."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.specialists_command import BAD, GOOD, call, program

ODD = "---\nname: odd\ndescription: d\nquux: 1\n---\nBody\n"


def test_list_shows_files_and_problems(project: Path) -> None:
    """Every file has a row, even if it cannot be run, and its problems are listed below the table."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("list")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split() == ["NAME", "STATUS", "CALLS", "MODEL", "DESCRIPTION"]
    assert ["finder", "ok", "12", "Finds", "notes"] in [line.split() for line in lines]
    assert "specialists/bad.md:4:19: tool_calls_limit: must be an integer of at least 0, or none, got twelve" in lines


def test_list_json(project: Path) -> None:
    """The output is one object with the values of the files, and null for values that a file does not set."""
    (project / "specialists" / "bad.md").write_text(BAD)
    found = {one["name"]: one for one in json.loads(call("list", "--json").stdout)["specialists"]}
    assert found["finder"] == {
        "name": "finder",
        "description": "Finds notes",
        "path": str(project / "specialists" / "finder.md"),
        "dialect": "run-specialist",
        "tools": ["Read", "Grep"],
        "model": None,
        "tool_calls_limit": 12,
        "status": "ok",
        "problems": [],
        "unavailable": None,
    }
    assert (found["bad"]["status"], found["bad"]["tool_calls_limit"]) == ("error", None)
    assert found["bad"]["problems"][0] == {
        "path": str(project / "specialists" / "bad.md"),
        "line": 4,
        "column": 19,
        "key": "tool_calls_limit",
        "text": "must be an integer of at least 0, or none, got twelve",
        "level": "error",
    }


def test_the_list_names_the_dialect_of_files_of_other_programs(project: Path) -> None:
    """The column is there only if there are such files, and empty for those of this program."""
    assert "DIALECT" not in call("list").stdout
    path = project / ".codex" / "agents" / "other.toml"
    path.parent.mkdir(parents=True)
    path.write_text('description = "d"\ndeveloper_instructions = "Body"\n')
    rows = {line.split()[0]: line.split() for line in call("list").stdout.splitlines() if line}
    assert rows["NAME"][:3] == ["NAME", "STATUS", "DIALECT"]
    assert (rows["other"][:3], rows["finder"][:3]) == (["other", "ok", "codex"], ["finder", "ok", "12"])


def test_check_has_an_error_for_a_missing_skill(project: Path) -> None:
    """A skill that is named but not found makes the file unusable."""
    (project / "specialists" / "skilled.md").write_text(GOOD.replace("---\n", "---\nskills: [nope]\n", 1))
    result = call("check", "specialists/skilled.md")
    assert result.exit_code == 2
    assert "skilled.md:2:1: skills: no skill named nope" in result.stderr + result.stdout


def test_check_passes(project: Path) -> None:
    """Without a path, the project's files are checked and only the summary is printed."""
    result = call("check")
    assert (result.exit_code, result.stdout) == (0, "1 file: 1 ok\n")


def test_check_names_every_error_of_every_file(project: Path) -> None:
    """Every problem in every file has a line, and the exit code is 2."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("check")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "specialists/bad.md:4:19: tool_calls_limit: must be an integer of at least 0, or none, got twelve",
        "specialists/bad.md:5:13: cost_limit: must be an amount in USD of at least 0, or none, got $5",
        "2 files: 1 ok, 1 with errors",
    ]


def test_check_strict(project: Path) -> None:
    """`--strict` treats warnings as errors, in the listing and in the exit code."""
    (project / "specialists" / "odd.md").write_text(ODD)
    assert call("check").exit_code == 0
    result = call("check", "--strict", "--json")
    assert result.exit_code == 2
    assert {one["name"]: one["status"] for one in json.loads(result.stdout)["files"]} == {
        "finder": "ok",
        "odd": "error",
    }


def test_check_reports_a_missing_path(project: Path) -> None:
    """A path that does not exist is reported with one line on standard error."""
    result = call("check", "nope.md")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("no such file: nope.md\n")


def test_an_unknown_specialist_suggests_a_similar_name(project: Path) -> None:
    """The error suggests a similar name, on one line, with exit code 2."""
    result = call("show", "findr")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no specialist named findr; did you mean finder?" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_help_lists_commands_and_an_unknown_command_is_reported(project: Path) -> None:
    """`--help` lists the commands below headings, and an unknown command is reported without a traceback."""
    text = program("--help").stdout
    headings = ["Specialist files:", "Stored runs:", "Many questions:", "Several machines:", "Other programs:"]
    assert [line for line in text.splitlines() if line in headings] == headings
    wrong = program("chekc")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_help_imports_nothing_heavy() -> None:
    """`--help` imports no validation library, YAML parser or API client."""
    code = (
        "import sys; import run_specialist.cli.manage as m\n"
        "try: m.app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([n for n in ('anthropic', 'pydantic', 'yaml', 'frontmatter', 'sqlalchemy') if n in sys.modules])"
    )
    # Its own interpreter: a forked program begins with the imports of all others.
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_shells_complete_names(project: Path) -> None:
    """Shell completion offers the names of specialists after `show`."""
    words = {"_SPECIALISTS_COMPLETE": "complete_bash", "COMP_WORDS": "specialists show fi", "COMP_CWORD": "2"}
    done = program(env=os.environ | words)
    assert done.stdout.split() == ["finder"]
