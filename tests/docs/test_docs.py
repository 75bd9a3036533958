"""The documents match the code: help texts, keys, events, examples, links."""

import ast
import importlib.util
import json
import re
import shlex
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from run_specialist.api import config_files
from run_specialist.api.config_files import KEYS, TABLE
from run_specialist.api.runner import Runner
from run_specialist.budget import PRESETS
from run_specialist.cli import ask, manage
from run_specialist.cli.flags import check_key
from run_specialist.cli.tables import FLAGS
from run_specialist.loop.observing import CONTENT, PROVIDER_VARIABLE
from run_specialist.providers import admission
from run_specialist.providers.choose import CREDENTIALS
from run_specialist.providers.errors import CHAT, MESSAGES
from run_specialist.providers.local import CONTEXT_VARIABLE
from run_specialist.providers.local_servers import SERVERS
from run_specialist.record import events
from run_specialist.record.outcome import ErrorKind, Exit, Outcome
from run_specialist.spawning import availability
from run_specialist.spawning.spawner import LIMITS
from run_specialist.specialist import project as ownership
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import load, load_text
from run_specialist.specialist.tool_names import BUILT_IN, resolve_tools
from run_specialist.store import location
from tests.docs.markdown import DOCUMENTS, FILES, JSON, README, ROOT, anchors, blocks, named, page, table
from tests.docs.markdown import LIMITS as LIMITS_PAGE
from tests.scripted_provider import ScriptedProvider, calls

NOTES = sorted((ROOT / "thoughts").rglob("*.md"))


def test_the_readme_starts_with_two_commands_and_lists_the_built_in_specialists():
    """`.ci/run` runs the tests with the second command; each built-in specialist is named, and loads well."""
    first = blocks(README, "console")[0].splitlines()
    assert first == [
        'uv run run-specialist thoughts-analyzer "Why does the sub-agent loop land softly instead of cutting off?"',
        "uv run --group test pytest",
    ]
    assert f"{first[1]} --exhaustive" in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    paths = {path.stem: path for path in (ROOT / "specialists").glob("*.md")}
    listed = " ".join(README.split()).split("The package includes ", 1)[1].split(". ", 1)[0]
    assert set(re.findall(r"`([a-z-]+)`", listed)) == set(paths)
    assert [problem for path in paths.values() for problem in load(path).problems] == []


def test_every_limit_and_preset_is_documented():
    """A limit with its flag and a valid value; each preset with what it sets, and when to use it."""
    rows = [(row[0].strip("`"), *row[1].strip("`").split(), *row[2:]) for row in table(LIMITS_PAGE, "## Limits")]
    assert [(key, flag) for key, flag, *_ in rows] == [(key, FLAGS[kind]) for key, kind in LIMITS.items()]
    assert all(check_key(key, value) == value for key, _, value, *_ in rows)
    assert all(len(row) == 5 and all(row) for row in rows)
    head = ["budget_notice", "countdown", "landing"]
    told = {}
    for name, *cells, others in table(LIMITS_PAGE, "## Presets"):
        more = yaml.safe_load(f"{{{others.strip('`')}}}")
        told[name.strip("`")] = {
            key: yaml.safe_load(cell.strip("`")) for key, cell in zip(head, cells, strict=True)
        } | more
    assert told == PRESETS
    when = dict(re.findall(r"^\*\*([a-z-]+)\*\*(.*?)\n\n", LIMITS_PAGE, re.MULTILINE | re.DOTALL))
    assert [name for name in PRESETS if "Choose it " not in " ".join(when.get(name, "").split())] == []


def test_the_tables_of_the_json_page_match_the_code():
    """Events with their fields, the fields of the outcome, the kinds of failure in their order, and exit codes."""
    known = {one.event: [field.name for field in fields(one)] for one in events.Event.__subclasses__()}
    assert {row[0].strip("`"): row[2].split(", ") for row in table(JSON, "## Events")} == known
    told = [name for row in table(JSON, "## The outcome") for name in named(row[0])]
    assert told == [field.name for field in fields(Outcome) if field.name not in ("error", "exit_code")]
    assert [row[0].strip("`") for row in table(JSON, "## Kinds of failure")] == [*get_args(ErrorKind)]
    assert {int(row[0]) for row in table(JSON, "## Exit codes")} == {int(code) for code in Exit}


EXAMPLES = {
    re.search(r"^name: (.*)$", text, re.MULTILINE)[1]: text
    for document in DOCUMENTS
    for text in blocks(document.read_text(encoding="utf-8"), "markdown")
}
"""The example specialists in the documents, by name."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_files_load_without_a_problem(name):
    """Example files in the docs pass `check --strict`."""
    assert len(EXAMPLES) >= 9
    file = load_text(EXAMPLES[name], Path(f"{name}.md"))
    assert (file.status, file.problems) == ("ok", ())


@pytest.mark.parametrize(("misfits", "status"), [(0, "answered"), (1, "answered"), (2, "partial")])
async def test_the_documented_structured_answer_fits_its_schema(tmp_path, misfits, status):
    """The answer in docs/limits.md fits its schema.

    It is accepted, also after one invalid answer, but not after two.
    """
    (said,) = blocks(LIMITS_PAGE, "json")
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


def test_the_readme_session_shows_a_landing_and_the_notes_name_no_local_paths():
    """Two silent calls, then 3 to 0 remaining, then the landing; at least twelve notes, each with a heading."""
    session = README.split("<!-- session", 1)[1].split("<!-- /session", 1)[0]
    command = shlex.split(session.split("$ ", 1)[1].splitlines()[0])
    assert command[-2:] == ["--tool-calls-limit", "6"]
    calls = re.findall(r"^ +([1-6]) +\w+ .*?(?:(\d) remaining)?$", session, re.MULTILINE)
    assert calls == [("1", ""), ("2", ""), ("3", "3"), ("4", "2"), ("5", "1"), ("6", "0")]
    assert "landed · 6 of 6 tool calls" in session
    assert "offline, without a language model" in " ".join(session.replace("\n", "").split())
    assert len(NOTES) >= 12
    assert ROOT / "thoughts/shared/notes/2026-04-03/qa-brainstorm-event-loop-mailbox.md" in NOTES
    for note in [*NOTES, *DOCUMENTS]:
        text = note.read_text(encoding="utf-8")
        assert re.search(r"^# \w", text, re.MULTILINE), note
        assert not re.search(r"(?<![\w.])/(?:work|root|home|tmp)/", text), note


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_use_existing_flags(document):
    """Every command in a console block uses subcommands and flags that exist; those of the README, existing names."""
    for line in "\n".join(blocks(document.read_text(encoding="utf-8"), "console")).replace("\\\n", " ").splitlines():
        command = line.removeprefix("$ ").removeprefix("uv run ").split(" < ")[0]
        if not command.startswith(("run-specialist ", "specialists ")) or "·" in command:
            continue  # another program, or the output of a recorded session
        words = shlex.split(command, comments=True)
        app = ask.app if words[0] == "run-specialist" else manage.app
        group = words[1:3] if words[1] == "fleet" else words[1:2]
        result = CliRunner().invoke(app, [*group, "--help-all"] if app is manage.app else ["--help-all"])
        assert result.exit_code == 0, line
        flags = [word.partition("=")[0] for word in words if re.match(r"--[a-z][\w-]*(=|$)", word)]
        assert [flag for flag in flags if not re.search(rf"{flag}\b", result.stdout)] == [], line
        if app is ask.app and document.name == "README.md":
            assert (ROOT / "specialists" / f"{words[1]}.md").is_file()


def test_the_python_example_of_the_readme_runs(monkeypatch, capsys):
    """The Python example of the README answers from this repository, offline."""
    monkeypatch.chdir(ROOT)
    (example,) = (text for text in blocks(README, "python") if "run_sync" in text)
    exec(example, {})  # noqa: S102 - an example from this repository
    assert re.match(r"(answered|landed) \d+ ", capsys.readouterr().out)


def test_every_page_is_linked_short_and_names_existing_files():
    """Each module named there and in the notes exists, as each quoted line; docs/README.md links all."""
    source = ROOT / "src/run_specialist"
    named = re.findall(r"`([a-z_/]+\.py|[a-z]+/)`", page("how-it-works"))
    assert len(named) > 15
    assert [name for name in named if not ((source / name).exists() or (ROOT / name).exists())] == []
    told = [path for note in NOTES for path in re.findall(r"`(src/[\w/]+\.py)`", note.read_text(encoding="utf-8"))]
    assert [path for path in told if not (ROOT / path).is_file()] == []
    lines = {line.strip() for path in source.rglob("*.py") for line in path.read_text("utf-8").splitlines()}
    quoted = [line.strip() for text in blocks(page("extending"), "python") for line in text.splitlines()]
    assert len(quoted) > 8
    assert [line for line in quoted if line and line not in lines] == []
    links = set(re.findall(r"\]\(([^)#:\s]+\.md)", page("README")))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} <= links
    assert {f"../bench/{path.name}" for path in (ROOT / "bench").glob("*.md")} <= links
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    assert len(pages) <= 20
    assert sum(len(text.split()) for text in pages) <= 35_000
    assert 8 < len(table(page("words"), "# Words")) <= 12
    assert len(README.splitlines()) <= 150
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_names_an_existing_place(document):
    """Every relative link in the docs names an existing file, and a heading of it."""
    text = document.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        target = document.parent / path if path else document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{path}#{anchor}"


def test_every_thread_in_why_has_its_scenarios_and_every_scenario_its_thread():
    """Each entry of docs/why.md links one thread, and names the tests of tests/field that answer it."""
    told = {}
    for entry in page("why").split("\n- ")[1:]:
        ((thread, link),) = re.findall(r"\[([\w/-]+#\d+)\]\(([^)]+)\)", entry)
        assert link == f"https://github.com/{thread.replace('#', '/issues/')}"
        told |= dict.fromkeys(re.findall(r"`(test_\w+)`", entry), thread)
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests/field").glob("test_*.py")]
    tests = [one for module in modules for one in module.body if getattr(one, "name", "").startswith("test_")]
    assert told == {one.name: ast.get_docstring(one).split(": ")[0] for one in tests}
    assert len(set(told.values())) == 15


SPEC = importlib.util.spec_from_file_location("make_reference", ROOT / "docs/make_reference.py")
GENERATOR = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GENERATOR)
PAGE = page("reference")


def test_the_reference_is_current_and_complete():
    """Each option of a command is named, each key has a text, the guide leads with eight; a modeline may stay."""
    assert GENERATOR.page() == PAGE, "run: uv run python docs/make_reference.py"
    shared = PAGE.split("\n## Commands\n")[0]
    for name, command in GENERATOR.commands():
        (below,) = re.findall(rf"^### {name}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
        names = [parameter.opts[0] for parameter in command.params if parameter.param_type_name == "option"]
        missing = [one for one in names if not re.search(rf"`{one}\b", below)]
        if "All shared options but" in below:
            missing = [one for one in missing if f"`{one}" not in shared]
        assert set(missing) <= {"--help", "--install-completion", "--show-completion"}, name
    (section,) = re.findall(r"^## Keys of a specialist file\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    rows = dict(re.findall(r"^- `(\w+)`: (.*)$", section, re.MULTILINE))
    assert set(rows) == set(Specialist.model_fields) - {"path", "prompt"}
    assert all(re.fullmatch(r"\S.*\.( \[.*\])?", text) for text in rows.values())
    first = [row[0].strip("`") for row in table(FILES, "# Write a specialist")]
    assert len(first) == 8
    assert set(first) <= set(rows)
    file = load_text(f"---\n{MODELINE}description: d\n---\nYou find dates.\n", Path("release-dater.md"))
    assert (file.problems, file.tool_calls_limit) == ((), yaml.safe_load(MODELINE)["tool_calls_limit"])


(MODELINE,) = (text for text in blocks(FILES, "yaml") if "$schema=" in text)


DEFINED = set(
    re.findall(
        r"^\| ([SXGCEFPRTW]\d*\.\d+) \|", (ROOT / "tests/behaviours.md").read_text(encoding="utf-8"), re.MULTILINE
    )
)


def ids_of(name):
    """Return the ids in the name of a test, such as S0.3, X.1 and G.2 in `test_s0_3_x_1_g2_counts_down`."""
    found = re.findall(r"(?:(?<=_)|^)(?:(s\d|x)_|([gcefprtw])_?)(\d+)(?=_)", name)
    return {f"{(group or other).upper()}.{number}" for group, other, number in found}


def used():
    """Return the ids in the names of all tests, each with one place that uses it."""
    return {
        found: path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
        for found in ids_of(name.removeprefix("test_"))
    }


def test_every_defined_behaviour_has_a_test():
    """Every behaviour of tests/behaviours.md has a test, and every id in a test's name, such as `x_14`, is defined."""
    assert len(DEFINED) > 50
    assert DEFINED - set(used()) == set()
    assert {found: place for found, place in used().items() if found not in DEFINED} == {}


ROWS = table(FILES, "## Tools")


def names(cell):
    """Return the names in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def test_every_tool_has_a_row_with_its_other_names():
    """Those that no file names, because each run has them or may need them, have none; each name means its tool."""
    told = [name for row in ROWS for name in names(row[0])]
    assert sorted(told) == sorted({*BUILT_IN} - {"respond", "get_tool_response"})
    for row in ROWS:
        for name in names(row[3]):
            assert {*resolve_tools([name], (), BUILT_IN).names} <= {*names(row[0])}, name
            assert resolve_tools([name], (), BUILT_IN).names, name


CONFIGURATION_PAGE = page("configuration")
SOURCE = ROOT / "src/run_specialist"

ENDPOINTS = [MESSAGES, CHAT, *(server.endpoint for server in SERVERS.values())]
MEANINGS = {
    "project.py: VARIABLE": [ownership.VARIABLE],
    "location.py: VARIABLE": [location.VARIABLE],
    "config_files.py: VARIABLE": [config_files.VARIABLE],
    "config_files.py: variable": [key.variable for key in KEYS.values() if key.variable],
    "config_files.py: key.variable": [key.variable for key in KEYS.values() if key.variable],
    "availability.py: VARIABLE": [availability.VARIABLE],
    "errors.py: variable": [admission.VARIABLE, CONTEXT_VARIABLE],
    "manage.py: name": ["VISUAL", "EDITOR"],
    # Git gets these unchanged; they are no settings.
    "git.py: name": [],
    # Only their names are written.
    "install.py: one": [*CREDENTIALS[:1], MESSAGES.url, CHAT.key, CHAT.url],
    "choose.py: name": [*CREDENTIALS, MESSAGES.url, CHAT.key, CHAT.url],
    "models.py: CHAT.url": [CHAT.url],
    "local_servers.py: self.endpoint.url": [one.url for one in ENDPOINTS],
    "local_servers.py: self.endpoint.key": [one.key for one in ENDPOINTS],
    "trust.py: server.endpoint.url": [one.url for one in ENDPOINTS],
    "observing.py: CONTENT": [CONTENT],
    "observing.py: PROVIDER_VARIABLE": [PROVIDER_VARIABLE],
}
"""The names behind each expression with which the code reads a variable that it does not write out."""


def reads(path):
    """Yield each name, or expression for a name, with which a module reads an environment variable."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if re.search(r"os\.(environ|getenv)|envvar=", text) else ():
        if isinstance(node, ast.keyword) and node.arg == "envvar":
            yield node.value
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            yield node.slice
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called in {"os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.getenv"}:
            yield node.args[0]


@cache
def variables():
    """Return the names of all environment variables that the code reads."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        for one in reads(path):
            names |= {one.value} if isinstance(one, ast.Constant) else set(MEANINGS[f"{path.name}: {ast.unparse(one)}"])
    return names


def test_every_environment_variable_is_documented():
    """The first table has exactly the variables that the code reads, each with its meaning; none is read otherwise."""
    rows = table(CONFIGURATION_PAGE, "### Read by this program")
    documented = [name for row in rows for name in named(row[0])]
    assert sorted(documented) == sorted(variables())
    assert all(row[1] for row in rows)
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"from os import .*\b(environ|getenv)\b", text), path
        assert set(re.findall(r"\bSPECIALIST_[A-Z_]+\b", text)) <= variables(), path


def test_the_examples_are_valid(tmp_path, monkeypatch):
    """Both example files are read without a problem, each in its place."""
    monkeypatch.setenv("HOME", str(tmp_path))
    project, user = blocks(CONFIGURATION_PAGE, "toml")
    assert set(tomllib.loads(project)) == {TABLE[0]}
    (tmp_path / "agents").mkdir()
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    (tmp_path / "config.toml").write_text(user, encoding="utf-8")
    read = [
        config_files._read(tmp_path / "pyproject.toml", "project", tmp_path),
        config_files._read(tmp_path / "config.toml", "user"),
    ]
    assert [(one.state, one.problems) for one in read] == [("read", ())] * 2
    assert all(one.values for one in read)


@pytest.mark.parametrize("line", blocks(CONFIGURATION_PAGE, "text")[0].splitlines())
def test_the_example_errors_are_those_of_the_code(line, tmp_path, monkeypatch):
    """A file with the mistake on that line has that error."""
    monkeypatch.chdir(tmp_path)
    number, key = int(line.split(":")[1]), line.split(": ")[1]
    value = line.rpartition("got ")[2] if "got " in line else "1"
    head = "[tool.run-specialist]\n" + "\n" * (number - 2)
    Path("pyproject.toml").write_text(f"{head}{key} = {value}\n", encoding="utf-8")
    read = config_files._read(tmp_path / "pyproject.toml", "project", tmp_path)
    assert read.problems == (line,)
