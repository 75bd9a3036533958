"""`--trust`: programs and modules named in a project's file are refused until the user allows them, once."""

import json
import sqlite3
from pathlib import Path

import pytest

from run_specialist.api.config_files import KEYS
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.origins import RULES
from run_specialist.store.rows import pack, unpack
from tests.cli.specialists_command import call as specialists
from tests.projects import project
from tests.secrets.canaries import values_with_secret
from tests.secrets.echo import EchoOfTools, serving


@pytest.fixture
def app_reach(notes):
    """A project with a package that has a unique name."""
    with project(notes) as made:
        yield made


@pytest.fixture
def app(app_reach, write):
    """A project with a module, and a specialist that names its function."""
    app_reach.write("PKG/tools.py", "def lookup(word: str) -> str:", "    return word")
    app_reach.finder = write("finder", f"python_tools: ['{app_reach.package}.tools:lookup']", "tool_calls_limit: 1")
    return app_reach


def manage(*arguments):
    """Run the command `specialists`; return exit code, stdout and stderr."""
    result = specialists(*arguments)
    return result.exit_code, result.stdout, result.stderr


def test_trust_is_remembered_until_the_module_changes(app, ask, tmp_path, monkeypatch):
    """An untrusted file is refused with one line; trust ends with a change, also for `resume`, and for a copy."""
    code, out, err = ask()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{app.finder}:4:1: python_tools: would import {app.package}.tools" in err
    assert "--trust" in err
    for flags in (["--trust"], []):
        code, out, err = ask(*flags)
        assert (code, err, "mice" in out) == (0, "", True)
    app.root.rename(tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    assert ask()[0] == 2, "the same file may import other files there"
    (tmp_path / "copy").rename(app.root)
    monkeypatch.chdir(app.root)
    assert ask()[0] == 0
    app.write("PKG/tools.py", "def lookup() -> str:", "    return ''")
    assert ask()[0] == 2
    store = str(tmp_path / "runs.db")
    assert ask("--trust", "--store", store)[0] == 0
    app.write("PKG/tools.py", "# changed", "def lookup(word: str) -> str:", "    return word")
    arguments = ["resume", "last", "And toads?", "--tool-calls-limit", "4", "--store", store, "--quiet"]
    code, out, err = manage(*arguments)
    assert (code, out) == (2, "")
    assert "python_tools: would import" in err
    assert manage(*arguments, "--trust")[0] == 0
    assert Path(store).is_file()


@pytest.mark.exhaustive
def test_trust_says_what_it_allows(app, call, write, project_file):
    """One line on standard error for each import, tool and model that was not allowed before; then none."""
    lines = (f"python_tools: ['{app.package}.tools:lookup']", "tools: read, edit", "writable: [notes]")
    finder = write("finder", *lines, "tool_calls_limit: 1")
    question = ("finder", "What do owls eat?", "--model", "offline", "--trust")
    first = call(*question)
    where = app.root / app.package / "tools.py"
    rest = "; remembered until it changes"
    told = [line.partition(": ")[2] for line in first.stderr.splitlines() if "--trust" in line]
    assert told == [
        f"{finder}:4:1: python_tools: --trust allows it to import {app.package}.tools ({where}){rest}",
        f"{finder}:5:1: tools: --trust allows it to change files: notes{rest}",
    ]
    again = call(*question)
    assert (first.exit_code, again.exit_code, "--trust" in again.stderr) == (0, 0, False)
    finder.write_text(finder.read_text() + "Changed.\n")
    told = manage(
        *("map", "finder", "--question", "What does {path} say?", "--files", "notes/*.md"),
        *("--trust", "--model", "offline", "--yes"),
    )[2]
    assert told.count("--trust allows it to") == 2
    project_file("model = 'openai:other'")
    told = call("finder", "What do owls eat?", "--trust").stderr
    assert "pyproject.toml:2: model: --trust allows it to send the questions and the tool results to a server" in told


@pytest.mark.exhaustive
def test_show_reports_trust_without_importing(app, ask, write):
    """`show` has a line on trust if the file needs it, and `trusted` in JSON; it imports nothing, and names a gap."""
    write("plain")
    assert "trusted" not in manage("show", "plain")[1]
    assert json.loads(manage("show", "plain", "--json")[1])["trusted"] is None
    code, out, _ = manage("show", "finder")
    (line,) = [line for line in out.splitlines() if "trusted" in line]
    where = app.root / app.package / "tools.py"
    assert (
        line == f"not trusted: it would import {app.package}.tools ({where}); to allow this, run it once with --trust"
    )
    assert (code, json.loads(manage("show", "finder", "--json")[1])["trusted"]) == (0, False)
    assert ask("--trust")[0] == 0
    assert f"trusted: it may import {app.package}.tools ({where})\n" in manage("show", "finder")[1]
    assert json.loads(manage("show", "finder", "--json")[1])["trusted"] is True
    write("finder", "python_tools: [nowhere.tools:lookup]")
    code, out, _ = manage("show", "finder")
    assert (code, "not trusted: " in out, "no module nowhere" in out) == (0, True, True)


@pytest.mark.parametrize("flag", ["--json", "--events", "--quiet"])
def test_output_of_a_module_goes_to_stderr(app, call, flag):
    """Output of the module goes to standard error, so that standard output stays machine-readable."""
    app.write("PKG/tools.py", "print('loading')", "def lookup(word: str) -> str:", "    return word")
    result = call("finder", "What do owls eat?", "--model", "offline", "--trust", flag)
    assert result.exit_code == 0
    assert "loading" in result.stderr.splitlines()
    if flag == "--json":
        assert json.loads(result.stdout)["specialist"] == "finder"
    elif flag == "--events":
        events = [json.loads(line)["event"] for line in result.stdout.splitlines()]
        assert (events[0], events[-1]) == ("started", "finished")
    else:
        assert "loading" not in result.stdout
        assert "mice" in result.stdout


KEY = "zebra-cardigan-lamplight-quokka"


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("entry", ["{url: 'URL/${SOME_KEY}'}", "{url: 'URL', headers: {A: '${SOME_KEY}'}}", "'URL'"])
@pytest.mark.parametrize("listed", [False, True])
def test_nothing_is_sent_to_a_local_url_without_trust(app_reach, ask, write, monkeypatch, *, entry, listed):
    """Nothing is sent to a local URL without trust, as any user may listen there; the error names variables only."""
    monkeypatch.setenv("SOME_KEY", KEY)
    with serving(EchoOfTools) as server:
        entry = entry.replace("URL", f"{server.url}/lists")
        if listed:
            written = entry if entry.startswith("{") else f"{{url: {entry}}}"
            shape = written.replace("'", '"').replace("{url", '{"url"').replace("headers: {A", '"headers": {"A"')
            (app_reach.root / ".mcp.json").write_text(f'{{"mcpServers": {{"web": {shape}}}}}')
            write("finder", "mcp_servers: [web]")
        else:
            write("finder", f"mcp_servers: {{web: {entry}}}")
        code, out, err = ask()
        assert server.seen == []
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "finder.md:4:1: mcp_servers: would connect to http://127.0.0.1:" in err
        assert ("with SOME_KEY from the environment" in err) == ("SOME_KEY" in entry)
        assert ask("--trust")[0] == 0
        assert server.seen
        assert values_with_secret(KEY, out, err) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("changed", ["PKG/helper.py", "PKG/server.py"])
def test_a_changed_import_or_script_requires_trust_again(app_reach, ask, write, changed):
    """A change to a module that a trusted one imports, or to the script of a trusted command, is refused."""
    app_reach.write("PKG/helper.py", "WORD = 'x'")
    app_reach.write("PKG/server.py", "raise SystemExit('no server')")
    app_reach.write("PKG/tools.py", "from . import helper", "def lookup() -> str:", "    return helper.WORD")
    servers = f"mcp_servers: {{it: {{command: python3 {app_reach.package}/server.py}}}}"
    write("finder", f"python_tools: ['{app_reach.package}.tools:lookup']", servers)
    assert ask("--trust")[0] == 0
    assert ask()[0] == 0
    app_reach.write(changed, "raise SystemExit('changed')")
    code, out, err = ask()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has changed since" in err


# P.1, P.2: the origin of a value decides what it may do, whichever door it comes in by.
OFFLINE = ("--model", "offline")

FREE_FOR_DATA = {"effort", "tool_calls", "first_search", "landing", "evidence", "preset", "question"}
LIMITS = {
    *("tool_calls_limit", "turns_limit", "total_tokens_limit", "cost_limit", "time_limit", "patience"),
    *("tool_chars_limit", "parallel_tools_limit", "tool_timeout", "tool_result_limit"),
}
MODELS = {"model", "fallback_models"}
NEEDS_TRUST = {
    "tools": ("tools: [read, bash]", "run commands"),
    "paths": ("paths: [.env, notes]", "read .env"),
    "model": ("model: ollama:qwen3", "send the question"),
    "fallback_models": ("model: haiku\nfallback_models: [ollama:qwen3]", "send the question"),
    "agents": ("agents: [own]", "ask own, which may run commands"),
    "mcp_servers": ("mcp_servers: {files: {command: harm}}", "start harm"),
    "skills": ("skills: [mine]", "add your skill mine"),
    "memory": ("memory: user", "read and write your notes"),
    "python_tools": ("python_tools: ['subprocess:getoutput']", "import subprocess"),
    "allowed_domains": ("tools: [fetch]\nallowed_domains: [example.com]", "fetch pages of example.com"),
    "server_tools": ("tools: [web_search]\nserver_tools: true", "search any web site through the API"),
    "writable": ("tools: [edit]\nwritable: [notes]", "change files: notes"),
}
"""What a project's file may have only after trust, by key: an example, and what it would do."""
NEVER_OF_PROJECTS = {"root", "quiet", "require_model", "store", "on_lost", "requests_at_once", "trust"}


@pytest.fixture
def own(notes, tmp_path, monkeypatch):
    """The user's own skill, and own specialists: one that runs commands, one that asks it, and one that only reads."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    skill = tmp_path / "home" / ".claude" / "skills" / "mine" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: mine\ndescription: d\n---\nThe name of my cat is Quokka.\n")
    (notes / ".env").write_text("NAME=value\n")
    agents = tmp_path / "home" / ".claude" / "agents"
    agents.mkdir(parents=True)
    for name, line in {"own": "tools: [bash]", "between": "agents: [own]", "reader": "tools: [read]"}.items():
        (agents / f"{name}.md").write_text(f"---\nname: {name}\ndescription: Is {name}.\n{line}\n---\nAnswer.\n")
    return agents


@pytest.mark.parametrize("key", RULES)
def test_p1_the_table_for_data_and_projects(key):
    """Every key x origin: data sets only what cannot harm, a project needs trust for powers and only lowers limits."""
    assert set(Specialist.model_fields) | set(KEYS) <= set(RULES), "a new key must get its row"
    data = "free" if key in FREE_FOR_DATA else "lower" if key in LIMITS else "allowed" if key in MODELS else "never"
    assert RULES[key].data == data
    lowered = key in LIMITS or key in {"strict", "share_budget"}
    project = "trust" if key in NEEDS_TRUST else "never" if key in NEVER_OF_PROJECTS else "lower" if lowered else "free"
    assert RULES[key].project == project


@pytest.mark.parametrize("key", NEEDS_TRUST)
def test_p1_a_project_has_powers_only_after_trust(own, write, call, key):
    """Without `--trust`, the run is refused or has less, and a line says what; trust ends with a change."""
    front, action = NEEDS_TRUST[key]
    path = write("finder", *front.split("\n"))
    offline = () if key in MODELS else OFFLINE
    asked = call("finder", "What do owls eat?", *offline)
    said = asked.stderr + specialists("check", "specialists/finder.md").output
    assert f"would {action}" in said
    assert "--trust" in said
    if key in {"paths", "skills"}:
        codes = [call("finder", "What do owls eat?", *OFFLINE, *flags).exit_code for flags in (["--trust"], [])]
        path.write_text(path.read_text() + "Tell everything.\n")
        assert [asked.exit_code, *codes, call("finder", "What do owls eat?", *OFFLINE).exit_code] == [2, 0, 0, 2]


@pytest.mark.parametrize("key", sorted(NEEDS_TRUST.keys() - MODELS))
def test_p1_a_file_of_the_user_has_powers_without_trust(own, call, key):
    """The same keys in the user's own folder are the user's own words."""
    front, action = NEEDS_TRUST[key]
    (own / "mine.md").write_text(f"---\nname: mine\ndescription: Mine.\n{front}\n---\nYou find notes.\n")
    asked = call("mine", "What do owls eat?", *OFFLINE)
    assert f"would {action}" not in asked.stderr
    assert "--trust" not in asked.stderr


def offered(name):
    """Return the tools that a run would get."""
    return json.loads(specialists("show", name, "--json").stdout)["effective"]["tools"]["offered"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("agents", ["'*'", "[own]", "[between]"])
def test_p2_an_untrusted_project_reaches_no_specialist_with_powers(own, write, call, agents):
    """Neither by name nor by `*` nor through another one; after trust it may ask them."""
    write("lead", f"agents: {agents}")
    before = call("lead", "What do owls eat?", *OFFLINE, "--json")
    name = "own" if "own" in agents else "between"
    (line,) = [one for one in json.loads(before.stdout)["warnings"] if f"{name} cannot be called" in one]
    assert f"lead.md:4:1: agents: {name} cannot be called: it would ask {name}, which may " in line
    assert "run commands" in line
    assert "--trust" in line
    assert ("delegate" in offered("lead")) is (agents == "'*'")  # of all, `reader` remains
    assert "cannot be called" not in call("lead", "And toads?", *OFFLINE, "--trust").stderr
    assert "delegate" in offered("lead")
    own.joinpath("own.md").write_text(own.joinpath("own.md").read_text().replace("[bash]", "[bash, fetch]"))
    assert f"{name} cannot be called" in call("lead", "And bats?", *OFFLINE).stderr


@pytest.mark.exhaustive
def test_p2_a_specialist_of_the_project_that_cannot_ask_others_yet_can_be_asked(own, write, call):
    """It is withheld only once it may ask the one with powers itself; one that only reads needs no permission."""
    write("lead", "agents: [reader]")
    assert call("lead", "What do owls eat?", *OFFLINE).stderr.count("warning") == 0
    assert "delegate" in offered("lead")
    write("lead", "agents: [middle]")
    write("middle", "agents: [own]")
    assert "cannot be called" not in call("lead", "What do owls eat?", *OFFLINE).stderr
    assert "own cannot be called" in call("middle", "What do owls eat?", *OFFLINE).stderr
    assert "cannot be called" not in call("middle", "What do owls eat?", *OFFLINE, "--trust").stderr
    assert "middle cannot be called: it would ask middle, which may run" in call("lead", "And?", *OFFLINE).stderr


def test_p1_a_project_raises_no_limit_of_the_user(own, write, call, project_file, user_file):
    """In config file and specialists the stricter limit holds, with a warning, also for children; a flag raises it."""
    user_file("turns-limit = 3", "time-limit = '1m'", "tool-calls-limit = 9", "strict = true")
    project_file("turns-limit = 'none'", "tool-calls-limit = 8", "strict = false")
    write("finder", "time_limit: 10m")
    asked = call("finder", "What do owls eat?", *OFFLINE, "--json")
    limits = json.loads(asked.stdout)["limits"]
    assert [limits[kind]["limit"] for kind in ("turns", "time", "tool_calls")] == [3, 60, 8]
    assert "warning: pyproject.toml:2: turns_limit: your own value holds" in asked.stderr
    assert "pyproject.toml:4: strict: your own value holds" in asked.stderr
    _, line = json.loads(asked.stdout)["warnings"]
    assert line == "time_limit: 600 of the specialist's file (line 4) is above your own limit; 60 (config.toml:2) holds"
    asked = call("finder", "What do owls eat?", *OFFLINE, "--json", "--time-limit", "5m", "--turns-limit", "20")
    limits = json.loads(asked.stdout)["limits"]
    assert [limits[kind]["limit"] for kind in ("turns", "time")] == [20, 300]
    assert "time_limit" not in str(json.loads(asked.stdout)["warnings"])
    write("lead", "agents: [reader]", "share_budget: false")
    line = "share_budget: specialists that it asks could exceed your own total_tokens_limit; true holds"
    assert line in call("lead", "What do owls eat?", *OFFLINE, "--total-tokens-limit", "50000").stderr
    assert line not in call("lead", "What do owls eat?", *OFFLINE, "--tool-calls-limit", "5").stderr


def rewritten(store, **changed):
    """Change what is stored with the only run, as somebody with access to a shared store can."""
    with sqlite3.connect(store) as database:
        ((packed,),) = database.execute("select frozen from runs").fetchall()
        frozen = json.loads(unpack(packed))
        settings = frozen["settings"] | changed.pop("settings", {})
        database.execute("update runs set frozen = ?", [pack(json.dumps(frozen | changed | {"settings": settings}))])
    database.close()


RESUMED = ("resume", "last", "And toads?", "--tool-calls-limit", "60", "--all-projects", "--json")


def test_p1_a_stored_run_cannot_choose_its_root_or_local_model(own, write, call, tmp_path):
    """A root outside of the project needs `--root`, and is printed; a model that nobody named is refused."""
    write("finder")
    call("finder", "What do owls eat?", *OFFLINE, "--quiet")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "toads.md").write_text("Toads eat the secret of the outside.\n")
    rewritten(tmp_path / "runs.db", root=str(outside))
    refused = specialists(*RESUMED)
    assert refused.exit_code == 2
    assert f"began in {outside}, which is not in the current project; to let it read the files there, add" in (
        refused.output
    )
    assert f"--root {outside}" in refused.output
    allowed = specialists(*RESUMED, "--root", str(outside))
    assert allowed.exit_code == 0
    assert f"files are read in {outside}\n" in allowed.stderr
    assert "the secret of the outside" in json.loads(allowed.stdout)["answer"]
    call("reader", "What do owls eat?", *OFFLINE, "--quiet")
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute("update runs set model = ?", ["local:/nowhere/evil.gguf"])
    database.close()
    refused = specialists(*RESUMED, "--trust")
    assert refused.exit_code == 2
    assert "would load /nowhere/evil.gguf; neither its file nor the call names this model" in refused.output


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("key", "value", "action"),
    [("python_tools", ["subprocess:getoutput"], "import subprocess"), ("paths", [".env"], "read .env")],
)
def test_p1_a_stored_run_has_no_powers_even_with_trust(own, call, tmp_path, key, value, action):
    """Settings that are not those of the file, here of the user's own, are data."""
    call("reader", "What do owls eat?", *OFFLINE, "--quiet")
    rewritten(tmp_path / "runs.db", settings={key: value})
    for trust in ([], ["--trust"]):
        refused = specialists(*RESUMED, *trust)
        assert refused.exit_code == 2
        assert f"would {action}" in refused.output
        assert "data, such as a stored run, an eval case or a queue, cannot decide this" in refused.output


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("key", ["allowed_domains", "disallowed_tools"])
def test_p1_a_stored_run_does_not_drop_the_restrictions_of_its_file(own, call, tmp_path, key):
    """A value that the store has reset to its default is data too, because it may allow more than the file."""
    front = "tools: [read, fetch]\nallowed_domains: [example.com]\ndisallowed_tools: [grep]"
    (own / "mine.md").write_text(f"---\nname: mine\ndescription: Mine.\n{front}\n---\nYou find notes.\n")
    call("mine", "What do owls eat?", *OFFLINE, "--quiet")
    rewritten(tmp_path / "runs.db", settings={key: []})
    resumed = specialists(*RESUMED, "--trust")
    assert "`fetch` is not offered: it would fetch pages of" in resumed.output
    assert "data, such as a stored run" in resumed.output
