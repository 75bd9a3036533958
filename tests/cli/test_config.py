"""Config files: the keys that the commands use, their precedence, where each is shown from, and broken files."""

import inspect
import json
import subprocess
import sys

import pytest

from run_specialist.api.config_files import KEYS, ONLY_OPTIONS
from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.cli.ask import run
from run_specialist.store.reader import Store
from tests.cli.conftest import limits_of
from tests.cli.specialists_command import call as manage
from tests.contracts.tables import PRINTED, faults
from tests.wire.chat.replies import answers

QUESTION = ("what", "do", "owls", "eat?")


@pytest.mark.exhaustive
def test_a_model_on_another_server_needs_trust(write, call, chat, project_file, monkeypatch):
    """Without trust nothing is sent, nor an MCP server started; another model needs none; --trust is remembered."""
    write("finder")
    project_file("model = 'openai:gpt-5'")
    simulator = chat([answers("mice"), answers("mice")])
    refused = call("finder", *QUESTION)
    assert (refused.exit_code, refused.stdout, simulator.requests) == (2, "", [])
    assert "pyproject.toml:2: model: would send the questions and the tool results to a server" in refused.stderr
    server = manage("mcp")
    assert (server.exit_code, server.stdout, "pyproject.toml:2: model: would send" in server.stderr) == (2, "", True)
    assert "not trusted: the model of the project would send" in manage("config").stdout
    assert call("finder", *QUESTION, "--model", "offline").exit_code == 0
    assert call("finder", *QUESTION, "--trust").stdout == "mice\n"
    assert call("finder", *QUESTION).stdout == "mice\n"
    assert "\ntrusted: the model of the project may send" in manage("config").stdout


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


def test_every_option_is_a_key_or_known_as_none():
    """A new option of the command must become a key, or be listed among those that are not."""
    options = {name.rstrip("_") for name in inspect.signature(run).parameters} - {"name", "query", "version"}
    assert options - set(KEYS) <= ONLY_OPTIONS
    assert set(KEYS) - {"default_specialist"} <= options


def test_the_order_of_precedence(write, prepared, project_file, user_file, call, monkeypatch):
    """Option, specialist's file, project, user, preset, default; limits only go down; a model may be a variable."""
    write("finder", "time_limit: 5")
    user_file("time_limit = 10", "turns_limit = 11", "tool_calls_limit = 12", "total-tokens-limit = 13000")
    project_file("time_limit = 8", "turns_limit = 9", "tool_calls_limit = 7")
    found = limits_of(prepared("--turns-limit", "31"))
    assert found == {Kind.TIME: 5, Kind.TURNS: 31, Kind.TOOL_CALLS: 7, Kind.TOKENS: 13_000}
    assert prepared().settings.landing == "auto"
    project_file("landing = 'stop'", "time_limit = 'none'", "tool_calls_limit = 'none'", "tool-chars-limit = 99")
    write("finder", "time_limit: 50")
    found = {Kind.TIME: 10, Kind.TURNS: 11, Kind.TOOL_CALLS: 12, Kind.TOKENS: 13_000, Kind.CHARACTERS: 99}
    job = prepared()
    assert (job.settings.landing, limits_of(job)) == ("stop", found)
    write("finder")
    user_file("preset = 'openai-loop'", "tool_chars_limit = 500")
    project_file("preset = 'soft-warning'")
    assert limits_of(prepared()) == {Kind.TOOL_CALLS: 30, Kind.CHARACTERS: 500}
    user_file("")
    assert limits_of(prepared())[Kind.CHARACTERS] == 100_000
    assert Kind.CHARACTERS not in limits_of(prepared("--preset", "finalize"))
    write("finder", "preset: finalize")
    job = prepared()
    assert (Kind.CHARACTERS in limits_of(job), job.settings.landing) == (False, "finalize")
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


def test_config_shows_each_key_with_its_source(write, project_file, user_file, monkeypatch, tmp_path):
    """The table names file and line, the variable or the default, and the places tried; `show` has the places too."""
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
    assert list(faults(told, PRINTED["specialists config"])) == []
    assert set(told["settings"]) == set(KEYS)
    own.unlink()
    assert "~/.config/run-specialist/config.toml: does not exist" in manage("config").stdout
    monkeypatch.setenv("SPECIALIST_CONFIG", "none")
    assert "No config file is read: SPECIALIST_CONFIG is none." in manage("config").stdout
    monkeypatch.delenv("SPECIALIST_CONFIG")
    write("finder", "turns_limit: 4")
    project_file("turns_limit = 9", "time_limit = '10m'", "preset = 'soft-warning'")
    lines = [line.split() for line in manage("show", "finder").stdout.splitlines()]
    assert ["time_limit", "pyproject.toml:3", "600"] in lines
    assert ["tool_chars_limit", "preset", "soft-warning,", "pyproject.toml:4", "100000"] in lines
    assert ["turns_limit", "line", "4", "4"] in lines
    setting = json.loads(manage("show", "finder", "--json").stdout)["settings"]["time_limit"]
    assert (setting["source"], setting["path"].endswith("/pyproject.toml")) == ("project", True)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("words", [("list",), ("show", "finder"), ("check",), ("config",), ("mcp",), ("map", "x", "y")])
def test_a_broken_file_ends_each_command_with_2(write, call, store, project_file, user_file, words):
    """One line for each problem, with its place, escaped; SPECIALIST_CONFIG=none is the way out."""
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
    project_file('"a\\u001b]0;owned\\u0007" = 1', 'model = "b\\u001bc"', 'landing = "\\u001b[2J"')
    told = manage(*words).stderr
    assert ("\x1b" in told, told.count("pyproject.toml:")) == (False, 3)
    project_file("model" + ".a" * 1000 + " = 1")
    told = "invalid TOML: a key has more than 50 parts\n"
    assert f"pyproject.toml:2: {told}" in manage(*words).stderr
    user_file("model" + ".a" * 1000 + " = 1")
    for each in (words, ("runs",)):
        result = manage(*each)
        assert (result.exit_code, f"config.toml:1: {told}" in result.stderr) == (2, True)


@pytest.mark.exhaustive
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
    assert "run_specialist.api.config_files" in modules
    assert not {"tomllib", "platformdirs"} & set(modules)


def test_an_ignored_file_is_a_warning(write, call, notes):
    """A run says why the project's file does not apply, and continues."""
    write("finder")
    (notes / "pyproject.toml").symlink_to("/etc/passwd")
    told = "pyproject.toml: ignored, cannot be read: it leads outside the project"
    result = call("finder", *QUESTION, "--model", "offline")
    assert (result.exit_code, f"warning: {told}" in result.stderr) == (0, True)
    assert told in manage("config").stdout
