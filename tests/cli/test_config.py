"""Config files reach the runs and the commands, below every option, and `specialists config` shows them."""

import inspect
import json
import re
import subprocess
import sys

import pytest
from typer.main import get_command

from run_specialist.api.runner import Runner
from run_specialist.budget.budget import Kind
from run_specialist.cli.ask import app, run
from run_specialist.cli.from_config import registry_in
from run_specialist.config.config_keys import KEYS, ONLY_OPTIONS
from run_specialist.specialist.resolve import resolve
from run_specialist.store.reader import Store
from tests.cli.specialists_command import call as manage
from tests.contracts import tables
from tests.contracts.shapes import faults
from tests.wire.chat.replies import answers

QUESTION = ("what", "do", "owls", "eat?")


@pytest.fixture
def project_file(notes):
    """Return a function that writes the table of the project."""

    def write(*lines):
        (notes / "pyproject.toml").write_text("\n".join(["[tool.run-specialist]", *lines, ""]))

    return write


@pytest.fixture
def user_file(notes):
    """Return a function that writes the user's file."""

    def write(*lines):
        path = notes.parent / "home/.config/run-specialist/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
        return path

    return write


@pytest.fixture
def prepared(call, monkeypatch):
    """Return a function that asks offline with options, and returns the prepared run."""
    runs, prepare = [], Runner.prepare

    async def recorded(*arguments, **options):
        runs.append(await prepare(*arguments, **options))
        return runs[-1]

    def ask(*options):
        monkeypatch.setattr(Runner, "prepare", recorded)
        result = call("finder", *QUESTION, *(options or ("--model", "offline")))
        assert result.exit_code == 0, result.output
        return runs[-1]._job

    return ask


def limits(job):
    """Return the limits of a job that are set."""
    return {one.kind: one.limit for one in job.budget.limits if one.limit is not None}


def test_every_option_is_a_key_or_known_as_none():
    """A new option of the command must become a key, or be listed among those that are not."""
    options = {name.rstrip("_") for name in inspect.signature(run).parameters} - {"name", "query", "version"}
    assert options - set(KEYS) <= ONLY_OPTIONS
    assert set(KEYS) <= options


def test_the_order_of_precedence(write, prepared, project_file, user_file):
    """Option, then the specialist's file, then the project, then the user, then the default."""
    write("finder", "time_limit: 50")
    user_file("time_limit = 10", "turns_limit = 11", "tool_calls_limit = 12", "total-tokens-limit = 13000")
    project_file("time_limit = 20", "turns_limit = 21", "tool_calls_limit = 22")
    found = limits(prepared("--model", "offline", "--turns-limit", "31"))
    assert found == {Kind.TIME: 50, Kind.TURNS: 31, Kind.TOOL_CALLS: 22, Kind.TOKENS: 13_000}
    assert prepared().landing == "auto"
    project_file("landing = 'stop'", "time_limit = 'none'", "tool_calls_limit = 'none'")
    job = prepared()
    assert (job.landing, limits(job)) == ("stop", {Kind.TIME: 50, Kind.TURNS: 11, Kind.TOKENS: 13_000})


def test_a_preset_of_a_config_file_is_the_weakest(write, prepared, project_file, user_file):
    """It holds below the keys of both files, and not beside a preset of the specialist or of the call."""
    write("finder")
    user_file("preset = 'openai-loop'", "tool_chars_limit = 500")
    project_file("preset = 'soft-warning'")
    assert limits(prepared()) == {Kind.TOOL_CALLS: 30, Kind.CHARACTERS: 500}
    user_file("")
    assert limits(prepared())[Kind.CHARACTERS] == 100_000
    assert Kind.CHARACTERS not in limits(prepared("--model", "offline", "--preset", "finalize"))
    write("finder", "preset: finalize")
    job = prepared()
    assert (Kind.CHARACTERS in limits(job), job.landing) == (False, "finalize")


def test_however_a_specialist_is_found_it_has_the_defaults(write, project_file, notes):
    """By name, by path, and as a specialist that another one asks."""
    write("finder")
    write("lead", "agents: finder")
    project_file("tool_calls_limit = 3")
    registry = registry_in(notes, None, meant=False)
    lead = registry.find("lead")
    for file in (lead, registry.find("specialists/finder.md"), registry.find("finder", lead)):
        assert resolve(file, {}).settings.tool_calls_limit == 3


def test_the_model_of_the_files(write, call, project_file, user_file, monkeypatch):
    """After the option, the specialist's file and the environment; for `inherit`, too."""
    write("finder", "model: inherit")
    told = "no credentials for {}:"

    def model(*options):
        result = call("finder", *QUESTION, *options)
        return result.stderr if result.exit_code else "answered"

    user_file("model = 'opus'")
    assert told.format("opus") in model()
    project_file("model = 'haiku'")
    assert told.format("haiku") in model()
    monkeypatch.setenv("SPECIALIST_MODEL", "sonnet")
    assert told.format("sonnet") in model()
    write("finder", "model: fable")
    assert told.format("fable") in model()
    assert model("--model", "offline") == "answered"


def test_a_model_on_another_server_needs_trust(write, call, chat, project_file, monkeypatch):
    """Without trust nothing is sent; another model of the command line needs none; --trust is remembered."""
    write("finder")
    project_file("model = 'openai:gpt-5'")
    simulator = chat([answers("mice"), answers("mice")])
    refused = call("finder", *QUESTION)
    assert (refused.exit_code, refused.stdout, simulator.requests) == (2, "", [])
    assert "pyproject.toml:2: model: would send the questions and the tool results to a server" in refused.stderr
    assert "not trusted: the model of the project would send" in manage("config").stdout
    assert call("finder", *QUESTION, "--model", "offline").exit_code == 0
    assert call("finder", *QUESTION, "--trust").stdout == "mice\n"
    assert call("finder", *QUESTION).stdout == "mice\n"
    assert "\ntrusted: the model of the project may send" in manage("config").stdout


def test_an_mcp_server_needs_the_same_trust(write, project_file):
    """The server does not start with a model that its user has not allowed."""
    write("finder")
    project_file("model = 'openai:gpt-5'")
    result = manage("mcp")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pyproject.toml:2: model: would send" in result.stderr


def test_quiet_can_be_set_and_unset(write, call, user_file):
    """The user's file makes runs quiet, and --no-quiet the single one not."""
    write("finder")
    user_file("quiet = true")
    assert call("finder", *QUESTION, "--model", "offline").stderr == ""
    assert "answered offline" in call("finder", *QUESTION, "--model", "offline", "--no-quiet").stderr


def test_strict_can_be_set_and_unset(write, call, project_file):
    """The project's file makes warnings errors, in `check` and in runs, and --no-strict does not."""
    write("finder", "tool_calls_limit:")
    project_file("strict = true")
    assert call("finder", *QUESTION, "--model", "offline").exit_code == 2
    assert call("finder", *QUESTION, "--model", "offline", "--no-strict").exit_code == 0
    assert (manage("check").exit_code, manage("check", "--no-strict").exit_code) == (2, 0)


def test_config_shows_numbers_as_in_a_file():
    """A default such as the patience is shown as a file would have it."""
    assert re.search(r"^patience +120 +default$", manage("config").stdout, re.MULTILINE)


def test_the_folder_of_specialists(write, call, project_file, notes):
    """`dir` is searched first by every command that looks for specialists, and --dir replaces it."""
    (notes / "team").mkdir()
    write("asker").rename(notes / "team" / "asker.md")
    project_file("dir = 'team'")
    assert call("asker", *QUESTION, "--model", "offline").exit_code == 0
    assert "asker" in manage("list").stdout
    assert manage("show", "asker").exit_code == 0
    assert "1 file" in manage("check").stdout
    assert manage("show", "asker", "--dir", "notes").exit_code == 2


def test_show_finds_delegates_in_the_folder_of_the_config_file(write, project_file, notes):
    """What a run gets is computed with `dir`, too: a specialist there can be delegated to."""
    (notes / "team").mkdir()
    write("helper").rename(notes / "team" / "helper.md")
    write("boss", "agents: [helper]")

    def offered():
        return json.loads(manage("show", "boss", "--json").stdout)["effective"]["tools"]["offered"]

    assert "delegate" not in offered()
    project_file("dir = 'team'")
    assert "delegate" in offered()


def test_the_store_and_its_loss(write, call, user_file, notes, monkeypatch, tmp_path):
    """Every command uses the store of the user's file, and the environment overrides it."""
    write("finder")
    user_file(f"store = '{tmp_path}/mine.db'", "on_lost = 'abort'")
    monkeypatch.delenv("SPECIALIST_STORE")
    seen, init = [], Runner.__init__

    def recorded(self, **options):
        seen.append(options["on_lost"])
        init(self, **options)

    monkeypatch.setattr(Runner, "__init__", recorded)
    assert call("finder", *QUESTION, "--model", "offline").exit_code == 0
    assert call("finder", *QUESTION, "--model", "offline", "--on-lost", "go-on").exit_code == 0
    assert seen == ["abort", "go_on"]
    with Store(f"sqlite:///{tmp_path}/mine.db") as opened:
        assert len(opened.runs()) == 2
    assert len(json.loads(manage("runs", "--json").stdout)["runs"]) == 2
    assert manage("transcript", "last").exit_code == 0
    monkeypatch.setenv("SPECIALIST_STORE", f"{tmp_path}/other.db")
    assert json.loads(manage("runs", "--json").stdout)["runs"] == []
    monkeypatch.delenv("SPECIALIST_STORE")
    assert json.loads(manage("runs", "--json", "--store", f"{tmp_path}/other.db").stdout)["runs"] == []


@pytest.mark.parametrize("words", [("list",), ("show", "finder"), ("check",), ("config",), ("mcp",)])
def test_a_broken_file_ends_each_command_with_2(write, call, project_file, words):
    """One line for each problem, with its place; SPECIALIST_CONFIG=none is the way out."""
    write("finder")
    project_file("modle = 'haiku'", "strict = 3")
    result = manage(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.partition(": ")[2].splitlines() == [
        "pyproject.toml:2: modle: unknown key; did you mean model?",
        "pyproject.toml:3: strict: must be true or false, got 3",
        "or set SPECIALIST_CONFIG=none to read no config file",
    ]
    assert call("finder", *QUESTION, "--model", "offline").exit_code == 2
    assert call("finder", *QUESTION, "--model", "offline", env={"SPECIALIST_CONFIG": "none"}).exit_code == 0


def test_config_shows_each_key_with_its_source(write, project_file, user_file, monkeypatch, tmp_path):
    """The table names file and line, the variable or the default, and the places that were tried."""
    own = user_file("store = '/a/runs.db'", "model = 'opus'")
    project_file("", "model = 'haiku'", "time_limit = '10m'")
    monkeypatch.setenv("SPECIALIST_STORE", "postgresql://me:hush@host/runs")
    shown = manage("config").stdout
    rows = {line.split()[0]: line.split()[1:] for line in shown.split("\n\n", maxsplit=1)[0].splitlines()[1:]}
    assert list(rows) == list(KEYS)
    assert rows["model"] == ["haiku", "pyproject.toml:3"]
    assert rows["time_limit"] == ["10m", "pyproject.toml:4"]
    assert rows["tool_calls_limit"] == ["30", "default"]
    assert rows["quiet"] == ["false", "default"]
    assert rows["store"] == ["postgresql://me:***@host/runs", "SPECIALIST_STORE"]
    assert "pyproject.toml: read\n~/.config/run-specialist/config.toml: read" in shown
    told = json.loads(manage("config", "--json").stdout)
    assert list(faults(told, tables.PRINTED["specialists config"])) == []
    assert set(told["settings"]) == set(KEYS)
    own.unlink()
    assert "~/.config/run-specialist/config.toml: does not exist" in manage("config").stdout
    monkeypatch.setenv("SPECIALIST_CONFIG", "none")
    assert "No config file is read: SPECIALIST_CONFIG is none." in manage("config").stdout


def test_config_of_another_project(project_file, notes, monkeypatch, tmp_path):
    """`--root` names the project, as for the other commands."""
    project_file("model = 'haiku'")
    monkeypatch.chdir(tmp_path)
    assert "pyproject.toml:2" not in manage("config").stdout
    assert "pyproject.toml:2" in manage("config", "--root", str(notes)).stdout
    assert manage("config", "--root", "nowhere").exit_code == 2


def test_the_text_of_a_config_file_cannot_control_the_terminal(project_file):
    """Names and values are escaped in errors."""
    project_file('"a\\u001b]0;owned\\u0007" = 1', 'model = "b\\u001bc"', 'landing = "\\u001b[2J"')
    told = manage("config").stderr
    assert ("\x1b" in told, told.count("pyproject.toml:")) == (False, 3)


def test_show_names_the_config_file(write, project_file):
    """`specialists show` has the values of the config files with their places."""
    write("finder", "turns_limit: 4")
    project_file("turns_limit = 9", "time_limit = '10m'", "preset = 'soft-warning'")
    lines = [line.split() for line in manage("show", "finder").stdout.splitlines()]
    assert ["time_limit", "pyproject.toml:3", "600"] in lines
    assert ["tool_chars_limit", "preset", "soft-warning,", "pyproject.toml:4", "100000"] in lines
    assert ["turns_limit", "line", "4", "4"] in lines
    settings = json.loads(manage("show", "finder", "--json").stdout)["settings"]
    assert settings["time_limit"]["source"] == "project"
    assert settings["time_limit"]["path"].endswith("/pyproject.toml")


def test_an_ignored_file_is_a_warning(write, call, notes):
    """A run says why the project's file does not apply, and continues."""
    write("finder")
    (notes / "pyproject.toml").symlink_to("/etc/passwd")
    result = call("finder", *QUESTION, "--model", "offline")
    assert (result.exit_code, "warning: pyproject.toml: ignored, it leads outside the project" in result.stderr) == (
        0,
        True,
    )
    assert "pyproject.toml: ignored, it leads outside the project" in manage("config").stdout


def test_without_a_table_nothing_is_parsed(write, notes):
    """A start without config files imports neither the TOML parser nor the folders of the system."""
    write("finder")
    (notes / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    code = (
        "import sys; sys.argv = ['run-specialist', 'finder', 'What?', '--store', 'none', '-q', '--model', 'offline']\n"
        "from run_specialist.cli import ask\ntry:\n    ask.main()\nexcept SystemExit:\n    print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "run_specialist.config.config" in modules
    assert not {"tomllib", "platformdirs", "run_specialist.config.project_model"} & set(modules)


def test_completion_ignores_a_broken_file(user_file, capsys):
    """While the shell completes a word, no config file is read and nothing is printed."""
    user_file("quiet = 3")
    context = get_command(app).make_context("run-specialist", ["finder", "--qui"], resilient_parsing=True)
    assert (context.params["quiet"], capsys.readouterr()) == (False, ("", ""))
