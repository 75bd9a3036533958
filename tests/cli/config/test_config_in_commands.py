"""The commands use the keys of config files: `model`, `quiet`, `strict`, `dir`, `store`, `on_lost`."""

import json

from run_specialist.api.runner import Runner
from run_specialist.store.reader import Store
from tests.cli.config.question import QUESTION
from tests.cli.specialists_command import call as manage
from tests.wire.chat.replies import answers


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
