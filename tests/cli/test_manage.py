"""The command `specialists`, called in this process and as a program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from run_specialist.cli.manage import app

GOOD = "---\nname: finder\ndescription: Finds notes\ntools: Read, Grep\ntool_calls_limit: 12\n---\nYou find notes.\n"
BAD = "---\nname: bad\ndescription: d\ntool_calls_limit: twelve\ncost_limit: $5\n---\nBody\n"
ODD = "---\nname: odd\ndescription: d\nquux: 1\n---\nBody\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one good specialist, entered, and a home with none."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "specialists").mkdir()
    (root / "specialists" / "finder.md").write_text(GOOD)
    monkeypatch.chdir(root)
    return root


def call(*arguments: str, **options: Any) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False, **options)


MAIN = "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"


def program(*arguments: str, code: str = MAIN, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a program of its own."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    given = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "timeout": 60,
        "check": False,
    } | options
    return subprocess.run(command, **given)  # noqa: PLW1510 - our own program


def test_list_shows_files_and_problems(project: Path) -> None:
    """Every file has a line, also one that cannot be run, and its problems stand below."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("list")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split() == ["NAME", "STATUS", "CALLS", "MODEL", "DESCRIPTION"]
    assert ["finder", "ok", "12", "Finds", "notes"] in [line.split() for line in lines]
    assert "specialists/bad.md:4:19: tool_calls_limit: wanted a whole number from 0 up, or none, found twelve" in lines


def test_list_is_whole_in_a_pipe(project: Path) -> None:
    """Nothing is cut where no terminal is: a description of any length stands on one line."""
    words = " ".join(["word"] * 100)
    (project / "specialists" / "long.md").write_text(f"---\nname: long\ndescription: {words}\n---\nBody\n")
    assert any(line.endswith(words) for line in call("list").stdout.splitlines())


def test_list_json(project: Path) -> None:
    """One object, with the values as the files give them and null for what they do not."""
    (project / "specialists" / "bad.md").write_text(BAD)
    found = {one["name"]: one for one in json.loads(call("list", "--json").stdout)["specialists"]}
    assert found["finder"] == {
        "name": "finder",
        "description": "Finds notes",
        "path": str(project / "specialists" / "finder.md"),
        "tools": ["Read", "Grep"],
        "model": None,
        "tool_calls_limit": 12,
        "status": "ok",
        "problems": [],
    }
    assert (found["bad"]["status"], found["bad"]["tool_calls_limit"]) == ("error", None)
    assert found["bad"]["problems"][0] == {
        "path": str(project / "specialists" / "bad.md"),
        "line": 4,
        "column": 19,
        "key": "tool_calls_limit",
        "text": "wanted a whole number from 0 up, or none, found twelve",
        "level": "error",
    }


def test_given_folder_comes_first(project: Path, tmp_path: Path) -> None:
    """`--dir` hides a project's file of the same name, which is reported."""
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "finder.md").write_text(GOOD)
    result = json.loads(call("list", "--json", "--dir", str(tmp_path / "near")).stdout)["specialists"]
    assert [one["status"] for one in result if one["name"] == "finder"] == ["ok", "warning"]
    assert result[0]["path"].startswith(str(tmp_path / "near"))


def test_check_passes(project: Path) -> None:
    """Without a path the project's files are checked, and nothing but the sum is said."""
    result = call("check")
    assert (result.exit_code, result.stdout) == (0, "1 file: 1 ok\n")


def test_check_names_every_error_of_every_file(project: Path) -> None:
    """One line for each problem, all files, exit code 2."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("check")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "specialists/bad.md:4:19: tool_calls_limit: wanted a whole number from 0 up, or none, found twelve",
        "specialists/bad.md:5:13: cost_limit: wanted an amount in USD from 0 up, or none, found $5",
        "2 files: 1 ok, 1 error",
    ]


def test_check_takes_files_and_folders(project: Path, tmp_path: Path) -> None:
    """Paths may be files of any suffix, and folders with what is below them."""
    (tmp_path / "more" / "deep").mkdir(parents=True)
    (tmp_path / "more" / "deep" / "odd.md").write_text(ODD)
    (tmp_path / "prompt.txt").write_text(GOOD)
    result = call("check", "--json", str(tmp_path / "more"), str(tmp_path / "prompt.txt"))
    assert [one["name"] for one in json.loads(result.stdout)["files"]] == ["odd", "finder"]
    assert result.exit_code == 0


def test_check_strict(project: Path) -> None:
    """`--strict` takes warnings for errors, in the listing and in the exit code."""
    (project / "specialists" / "odd.md").write_text(ODD)
    assert call("check").exit_code == 0
    result = call("check", "--strict", "--json")
    assert result.exit_code == 2
    assert {one["name"]: one["status"] for one in json.loads(result.stdout)["files"]} == {
        "finder": "ok",
        "odd": "error",
    }


def test_check_of_a_path_that_is_not_there(project: Path) -> None:
    """A wrong path is one clear line on standard error."""
    result = call("check", "nope.md")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("no such file: nope.md\n")


def test_new_passes_a_strict_check_and_is_found(project: Path) -> None:
    """What `new` writes is at once fit to run, holds what was said, and has a prompt."""
    result = call(
        "new", "note-finder", "--description", "Finds notes: all #1", "--tools", "read, grep", "--model", "haiku"
    )
    assert (result.exit_code, result.stdout) == (0, "specialists/note-finder.md\n")
    assert call("check", "--strict", "specialists/note-finder.md").exit_code == 0
    shown = json.loads(call("show", "note-finder", "--json").stdout)
    assert (shown["description"], shown["tools"], shown["model"]) == ("Finds notes: all #1", ["read", "grep"], "haiku")
    assert shown["tool_calls_limit"] == 30
    assert "Finds notes: all #1." in shown["prompt"]


def test_new_keeps_what_is_there(project: Path) -> None:
    """A file is written over only with `--force`."""
    refused = call("new", "finder", "--description", "d")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert (project / "specialists" / "finder.md").read_text() == GOOD
    assert call("new", "finder", "--description", "d", "--force").exit_code == 0
    assert (project / "specialists" / "finder.md").read_text() != GOOD


@pytest.mark.parametrize("name", ["../up", "Upper", "a b", "", "a--b", "-a", "x" * 65, "a\nb", "ä"])
def test_new_refuses_bad_names(project: Path, name: str) -> None:
    """Only names that are good on every disk and in every shell are taken."""
    result = call("new", "--description", "d", "--", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no good name" in result.stderr
    assert [path.name for path in (project / "specialists").iterdir()] == ["finder.md"]


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--tool-calls-limit", "twelve", "wanted a whole number from 0 up, or none, found"),
        ("--tool-calls-limit", "-1", "wanted a whole number from 0 up, or none, found"),
        ("--tools", "Bash", "tools: not available here: Bash"),
        ("--paths", "../x", "paths: wanted folders or globs under the root"),
        ("--description", " ", "description: "),
    ],
)
def test_new_refuses_what_a_strict_check_would(project: Path, flag: str, value: str, said: str) -> None:
    """A value that would not pass is refused before anything is written."""
    flags = {"--description": "d"} | {flag: value}
    result = call("new", "fresh", *(part for pair in flags.items() for part in pair))
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (project / "specialists" / "fresh.md").exists()


def test_new_takes_none_and_another_folder(project: Path, tmp_path: Path) -> None:
    """`none` is no limit, and `--dir` is where to write; it is made where it is not there."""
    result = call("new", "free", "--description", "d", "--tool-calls-limit", "none", "--dir", str(tmp_path / "x" / "y"))
    assert result.exit_code == 0
    assert "tool_calls_limit: none" in (tmp_path / "x" / "y" / "free.md").read_text()


def test_new_asks_nobody_without_a_terminal(project: Path) -> None:
    """Where nobody can be asked, the missing flag is named."""
    result = call("new", "fresh")
    assert result.exit_code == 2
    assert "--description is needed" in result.stderr


def test_new_asks_on_a_terminal(project: Path) -> None:
    """On a terminal it asks for what is missing, and takes the offered number."""
    ours, theirs = os.openpty()
    os.write(ours, b"when asked\n\n")
    done = program("new", "asked", stdin=theirs)
    assert (done.returncode, done.stdout.strip()) == (0, "specialists/asked.md")
    assert "description: when asked\ntool_calls_limit: 30\n" in (project / "specialists" / "asked.md").read_text()


def shown(*arguments: str) -> dict[str, list[str]]:
    """Return the rows of `show`: by key, where it comes from and the value."""
    rows = [re.split(" {2,}", line.strip()) for line in call("show", *arguments).stdout.split("\n\n")[1].splitlines()]
    assert rows[0] == ["KEY", "FROM", "VALUE"]
    return {key: rest for key, *rest in rows[1:]}


def test_show_tells_values_and_where_they_come_from(project: Path) -> None:
    """Each setting stands with its line or `default`, those of the file first, then problems and prompt."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("tools:", "quux: 1\ntools:"))
    result, rows = call("show", "finder"), shown("finder")
    assert result.exit_code == 0
    assert result.stdout.startswith("finder  warning  specialists/finder.md\nFinds notes\n\n")
    assert rows["tool_calls_limit"] == ["line 6", "12"]
    assert rows["turns_limit"] == ["default", "none"]
    assert rows["paths"] == ["default", "all"]
    assert rows["tool_timeout"] == ["default", "60"]
    assert rows["countdown"] == ["default", "from: 0.5, style: remaining"]
    assert list(rows)[:3] == ["tools", "tool_calls_limit", "paths"]
    assert "specialists/finder.md:4:1: quux: unknown key" in result.stdout
    assert result.stdout.endswith("\nYou find notes.\n")


def test_show_tells_what_the_preset_of_the_file_sets(project: Path) -> None:
    """Below the file's own values those of its preset, and of a countdown the part that comes from elsewhere."""
    lines = "preset: soft-warning\ncountdown: {from: 3}\ntime_limit: 10m\ntools:"
    (project / "specialists" / "finder.md").write_text(GOOD.replace("tools:", lines))
    rows = shown("finder")
    assert rows["countdown"] == ["line 5", "from: 3, style: remaining, warn_at: 1 (preset soft-warning)"]
    assert rows["tool_chars_limit"] == ["preset soft-warning", "100000"]
    assert rows["budget_notice"] == ["preset soft-warning", "false"]
    assert (rows["preset"], rows["time_limit"]) == (["line 4", "soft-warning"], ["line 6", "600"])
    assert rows["parallel_tools_limit"] == ["default", "4"]
    sources = [row[0].split()[0] for row in rows.values()]
    assert sources == sorted(sources, key=["line", "preset", "default"].index)
    values = json.loads(call("show", "finder", "--json").stdout)["settings"]
    assert values["countdown"] == {
        "value": {"from": 3, "style": "remaining", "warn_at": 1},
        "source": "file",
        "line": 5,
    }
    assert values["budget_notice"] == {"value": False, "source": "preset", "line": 4}
    assert values["time_limit"] == {"value": 600, "source": "file", "line": 6}
    assert values["cost_limit"] == {"value": None, "source": "default", "line": None}


def test_show_tells_what_a_preset_of_the_call_would_make_of_it(project: Path) -> None:
    """Its values stand first, and the file's preset is gone."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("tools:", "preset: soft-warning\ntools:"))
    rows = shown("finder", "--preset", "finalize")
    assert rows["landing"] == ["--preset finalize", "finalize"]
    assert rows["countdown"] == ["--preset finalize", "none"]
    assert rows["preset"] == ["--preset finalize", "finalize"]
    assert rows["tool_chars_limit"] == ["default", "none"]
    assert rows["tool_calls_limit"] == ["line 6", "12"]
    values = json.loads(call("show", "finder", "--preset", "finalize", "--json").stdout)["settings"]
    assert values["summarize_at"] == {"value": 150_000, "source": "flag", "line": None}
    wrong = call("show", "finder", "--preset", "fast")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "'--preset': wanted soft-landing, soft-warning, finalize, budget-notice or openai-loop" in wrong.stderr


def test_show_of_a_file_that_cannot_be_run(project: Path) -> None:
    """Its problems are shown; there are no settings."""
    (project / "specialists" / "bad.md").write_text(BAD)
    result = call("show", "bad", "--json")
    shown = json.loads(result.stdout)
    assert (shown["status"], shown["settings"], shown["prompt"]) == ("error", {}, None)
    assert "specialists/bad.md:4:19: tool_calls_limit" in call("show", "specialists/bad.md").stdout


def test_show_lets_nothing_through_to_the_terminal(project: Path) -> None:
    """Escape sequences of a file are spelled out."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("notes", "no\x1b[31mtes"))
    assert "\x1b" not in call("show", "finder").stdout + call("list").stdout + call("check").stdout


def test_unknown_specialist(project: Path) -> None:
    """A near name is offered, in one line, with exit code 2."""
    result = call("show", "findr")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no specialist is called findr; did you mean finder?" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["list", "--dir", "nope"], ["check", "--root", "nope"], ["show", "finder", "--root", "nope"]]
)
def test_folders_that_are_not_there(project: Path, arguments: list[str]) -> None:
    """A folder that is named and not there is one clear line."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nope is no folder" in result.stderr


def test_schema_is_one() -> None:
    """The schema is printed as JSON, ready for an editor."""
    jsonschema.Draft202012Validator.check_schema(json.loads(call("schema").stdout))


def test_program_without_anything_reads_well(project: Path) -> None:
    """The program explains itself, and says what it does not know without a traceback."""
    assert "Commands:" in program("--help").stdout
    wrong = program("chekc")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_program_survives_a_closed_pipe(project: Path) -> None:
    """A reader that leaves early is no error."""
    for number in range(50):
        (project / "specialists" / f"s{number}.md").write_text(GOOD.replace("finder", f"s{number}") + "x" * 4000)
    command = f'{sys.executable} -c "from run_specialist.cli.manage import main; main()" list --json | true'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)  # noqa: S602
    assert (done.returncode, done.stderr) == (0, "")


def test_program_prints_in_any_encoding(project: Path) -> None:
    """A terminal without UTF-8 gets escapes, not a traceback."""
    (project / "specialists" / "finder.md").write_text(GOOD.replace("notes", "n\u014dtes"), "utf-8")
    done = program("list", env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "n\\u014dtes" in done.stdout


def test_help_imports_nothing_heavy() -> None:
    """`--help` does not pay for validation, YAML or a client."""
    code = (
        "import sys; import run_specialist.cli.manage as m\n"
        "try: m.app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([n for n in ('anthropic', 'pydantic', 'yaml', 'frontmatter', 'sqlalchemy') if n in sys.modules])"
    )
    done = program(code=code)
    assert done.stdout.splitlines()[-1] == "[]"


def test_shells_complete_names(project: Path) -> None:
    """A shell offers the names of specialists after `show`."""
    words = {"_SPECIALISTS_COMPLETE": "complete_bash", "COMP_WORDS": "specialists show fi", "COMP_CWORD": "2"}
    done = program(env=os.environ | words)
    assert done.stdout.split() == ["finder"]
