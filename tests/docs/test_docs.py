"""The documents match the code: help texts, keys, events, examples, links."""

import json
import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from run_specialist.api.runner import Runner
from run_specialist.cli import ask, fleet_command, manage
from run_specialist.cli.flags import takes
from run_specialist.cli.summary import FLAGS
from run_specialist.loop.compaction.summarizer import SHARE_OF_TARGET, SUMMARY_LIMIT
from run_specialist.providers.scripted import ScriptedProvider, calls
from run_specialist.record import events
from run_specialist.record.outcome import ErrorKind, Exit, Outcome
from run_specialist.spawning.spawner import LIMITS
from run_specialist.specialist.editor_schema import json_schema
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import load, load_text
from run_specialist.specialist.presets import PRESETS
from tests.docs.markdown import COMMAND_LINE, FILES, README, ROOT, STRUCTURED, blocks, named, table
from tests.docs.markdown import LIMITS as LIMITS_PAGE

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTES = sorted((ROOT / "thoughts").rglob("*.md"))


def test_the_readme_starts_with_two_commands_and_ci_runs_the_second():
    """The README starts with the two commands for newcomers, and `.ci/run` runs the tests with the second one.

    It adds the flag for all tests.
    """
    first = blocks(README, "console")[0].splitlines()
    assert first == [
        'uv run run-specialist thoughts-analyzer "Why does the sub-agent loop land softly instead of cutting off?"',
        "uv run --group test pytest",
    ]
    assert f"{first[1]} --exhaustive" in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()


COMMANDS = [f"specialists {one.name or one.callback.__name__}" for one in manage.app.registered_commands]


@pytest.mark.parametrize("command", ["run-specialist", "specialists", *COMMANDS])
def test_the_docs_contain_the_exact_help_texts(command):
    """docs/command-line.md contains the exact output of `--help`, that of each command below its name."""
    name, *words = command.split()
    app = ask.app if name == "run-specialist" else manage.app
    wide = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    printed = CliRunner().invoke(app, [*words, "--help"], prog_name=name, env=wide).stdout
    below = re.split(rf"^##+ {command}$", COMMAND_LINE, flags=re.MULTILINE)[1]
    assert blocks(below, "text")[0].strip() == printed.strip()


def test_the_docs_contain_the_exact_help_texts_of_the_fleet_commands():
    """Below `specialists fleet` are its help text and those of its commands."""
    below = blocks(re.split("^##+ specialists fleet$", COMMAND_LINE, flags=re.MULTILINE)[1], "text")
    for words in [[], *([one.name or one.callback.__name__] for one in fleet_command.app.registered_commands)]:
        wide = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
        printed = CliRunner().invoke(manage.app, ["fleet", *words, "--help"], prog_name="specialists", env=wide).stdout
        assert printed.strip() in [one.strip() for one in below]


def test_every_key_of_the_front_matter_is_documented():
    """The table of keys matches the schema, and each key has a default and a meaning."""
    rows = {row[0].strip("`"): row for row in table(FILES, "## Keys")}
    assert set(rows) == set(json_schema()["properties"])
    assert all(len(row) == 3 and all(row) for row in rows.values())


def test_documented_defaults_equal_those_of_the_code():
    """Numbers and literals given as defaults in the table of keys are those of the code."""
    rows = {row[0].strip("`"): row[1] for row in table(FILES, "## Keys")}
    said = {key: yaml.safe_load(word) for key, word in rows.items() if re.fullmatch(r"\d+|true|false|auto", word)}
    assert len(said) >= 6
    assert said == {key: Specialist.model_fields[key].default for key in said}
    assert rows["summary_limit"] == f"{SUMMARY_LIMIT}, or less"
    assert SHARE_OF_TARGET == 2, "the docs speak of half the target"


def test_every_limit_is_documented():
    """Every limit is documented: what it counts and what is reserved for the landing.

    docs/limits.md has its flag with a valid value.
    """
    assert [row[0].strip("`") for row in table(FILES, "## Limits")] == list(LIMITS)
    told = [(row[0].strip("`"), *row[1].strip("`").split()) for row in table(LIMITS_PAGE, "## Limits")]
    flags = [row for row in told if row[0].endswith("_limit")]
    assert [(key, flag) for key, flag, _ in flags] == [(key, FLAGS[kind]) for key, kind in LIMITS.items()]
    assert all(takes(key)(value) == value for key, _, value in flags)


def test_the_presets_are_documented_with_their_settings():
    """Each cell of the presets' table is what the preset sets, and a paragraph says when to choose it."""
    head = ["budget_notice", "countdown", "landing"]
    told = {}
    for name, *cells, others in table(FILES, "## Presets"):
        more = yaml.safe_load(f"{{{others.strip('`')}}}")
        told[name.strip("`")] = {
            key: yaml.safe_load(cell.strip("`")) for key, cell in zip(head, cells, strict=True)
        } | more
    assert told == PRESETS
    when = dict(re.findall(r"^\*\*([a-z-]+)\*\*(.*?)\n\n", FILES, re.MULTILINE | re.DOTALL))
    assert [name for name in PRESETS if "Choose it " not in when.get(name, "")] == []
    page = LIMITS_PAGE.split("| `--preset` |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == list(PRESETS)


def test_every_event_is_documented_with_its_fields():
    """The table of events matches the code, with every name and field."""
    known = {one.event: [field.name for field in fields(one)] for one in events.Event.__subclasses__()}
    assert {row[0].strip("`"): row[2].split(", ") for row in table(COMMAND_LINE, "### Events")} == known


def test_every_field_of_the_outcome_is_documented():
    """The table of the outcome has exactly the fields that `--json` prints."""
    told = [name for row in table(COMMAND_LINE, "### The outcome") for name in named(row[0])]
    assert told == [field.name for field in fields(Outcome) if field.name not in ("error", "exit_code")]


def test_every_kind_of_failure_is_documented():
    """The table of the kinds of failure has each value of `error_kind`, in the order of the code."""
    assert [row[0].strip("`") for row in table(COMMAND_LINE, "### Kinds of failure")] == [*get_args(ErrorKind)]


def test_exit_codes_are_documented():
    """The documented exit codes are exactly those of the code."""
    assert {int(row[0]) for row in table(COMMAND_LINE, "### Exit codes")} == {int(code) for code in Exit}


EXAMPLES = {
    re.search(r"^name: (.*)$", text, re.MULTILINE)[1]: text for text in blocks(README + FILES + STRUCTURED, "markdown")
}
"""The example specialists in the documents, by name."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_files_load_without_a_problem(name):
    """Example files in the docs pass `check --strict`."""
    file = load_text(EXAMPLES[name], Path(f"{name}.md"))
    assert (file.status, file.problems) == ("ok", ())


@pytest.mark.anyio
@pytest.mark.parametrize(("misfits", "status"), [(0, "answered"), (1, "answered"), (2, "partial")])
async def test_the_documented_structured_answer_fits_its_schema(tmp_path, misfits, status):
    """The answer in docs/structured-answers.md fits its schema.

    It is accepted, also after one invalid answer, but not after two.
    """
    (said,) = blocks(STRUCTURED, "json")
    whole = json.loads(said)
    answers = [calls(("respond", {"answer": {**whole, "verdict": "perhaps"}}))] * misfits
    answers += [calls(("respond", {"answer": whole}))] if misfits < 2 else []
    (tmp_path / "claim-judge.md").write_text(EXAMPLES["claim-judge"], encoding="utf-8")
    provider = ScriptedProvider(answers)
    runner = Runner(root=ROOT, dir=tmp_path, strict=True, provider=provider)
    outcome = await runner.run("claim-judge", "Exit code 0 means that no limit was hit.")
    provider.assert_used_up()
    assert (outcome.status, outcome.output) == (status, whole if status == "answered" else None)
    if status == "answered":
        assert outcome.answer == said.strip()


def test_the_readme_lists_the_built_in_specialists():
    """The README names each specialist of the package and no other, and each file loads without a problem."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    paths = {Path(name).stem: ROOT / name for name in packed}
    listed = README.split("The package includes ", 1)[1].split(".\n", 1)[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) == set(paths)
    assert [problem for path in paths.values() for problem in load(path).problems] == []


def test_the_readme_session_shows_countdown_and_landing():
    """The README's session has two silent calls, then 3 to 0 remaining, then the landing.

    It was recorded with a limit of 6.
    """
    session = README.split("<!-- session", 1)[1].split("<!-- /session", 1)[0]
    command = shlex.split(session.split("$ ", 1)[1].splitlines()[0])
    assert command[-2:] == ["--tool-calls-limit", "6"]
    calls = re.findall(r"^ +([1-6]) +\w+ .*?(?:(\d) remaining)?$", session, re.MULTILINE)
    assert calls == [("1", ""), ("2", ""), ("3", "3"), ("4", "2"), ("5", "1"), ("6", "0")]
    assert "landed · 6 of 6 tool calls" in session
    assert "offline, without a language model" in " ".join(session.replace("\n", "").split())


def test_the_readme_commands_use_existing_flags():
    """Every command in the README uses subcommands, flags and specialists that exist."""
    for line in "\n".join(blocks(README, "console")).splitlines():
        command = line.removeprefix("$ ").removeprefix("uv run ").split(" < ")[0]
        if not command.startswith(("run-specialist ", "specialists ")):
            continue
        words = shlex.split(command, comments=True)
        app = ask.app if words[0] == "run-specialist" else manage.app
        told = CliRunner().invoke(app, [*words[1:2], "--help"] if app is manage.app else ["--help"]).stdout
        assert [word for word in words if word.startswith("--") and word not in told] == []
        if app is ask.app:
            assert (ROOT / "specialists" / f"{words[1]}.md").is_file()


def test_the_python_example_of_the_readme_runs(monkeypatch, capsys):
    """The Python example of the README answers from this repository, offline."""
    monkeypatch.chdir(ROOT)
    (example,) = (text for text in blocks(README, "python") if "run_sync" in text)
    exec(example, {})  # noqa: S102 - an example from this repository
    assert re.match(r"(answered|landed) \d+ ", capsys.readouterr().out)


def test_the_readme_loop_is_the_one_tested_over_the_wire():
    """The loop in the README is that of the page whose examples are compared with the tests' agent."""
    (loop,) = (text for text in blocks(README, "python") if "delegate.result" in text)
    assert loop in blocks((ROOT / "docs/delegate.md").read_text(encoding="utf-8"), "python")


def test_every_file_named_in_how_it_works_exists():
    """Every module named in backticks on the page, and in the notes, exists at the given path."""
    source = ROOT / "src/run_specialist"
    named = re.findall(r"`([a-z_/]+\.py|[a-z]+/)`", (ROOT / "docs/how-it-works.md").read_text(encoding="utf-8"))
    assert len(named) > 15
    assert [name for name in named if not ((source / name).exists() or (ROOT / name).exists())] == []
    told = [path for note in NOTES for path in re.findall(r"`(src/[\w/]+\.py)`", note.read_text(encoding="utf-8"))]
    assert [path for path in told if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_names_an_existing_file(document):
    """Every relative link in the docs names an existing file."""
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_changelog_knows_the_version():
    """The changelog has an entry for the version in pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_notes_exist_and_contain_no_local_paths():
    """There are at least twelve notes, including the brainstorm.

    Each has a heading and contains no path of somebody's machine.
    """
    assert len(NOTES) >= 12
    assert ROOT / "thoughts/shared/notes/2026-04-03/qa-brainstorm-event-loop-mailbox.md" in NOTES
    for note in [*NOTES, *DOCUMENTS]:
        text = note.read_text(encoding="utf-8")
        assert re.search(r"^# \w", text, re.MULTILINE), note
        assert not re.search(r"(?<![\w.])/(?:work|root|home|tmp)/", text), note
