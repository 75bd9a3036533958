"""What config files may contain, whose value holds, and which files are read."""

import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.api.config_files import (
    KEYS,
    LARGEST,
    Config,
    check_chosen_model,
    model_claim,
    read_config,
)
from run_specialist.errors import NotTrusted, UsageError
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.positions import InvalidToml, read_table

HEAD = "[tool.run-specialist]\n"
SHOWN = "~/.config/run-specialist/config.toml"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project as the working directory, and an empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPECIALIST_STORE")
    root = tmp_path / "project"
    for folder in (root / ".git", root / "more", tmp_path / "home/.config/run-specialist"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def user(project):
    """The path of the user's file."""
    return project.parent / "home/.config/run-specialist/config.toml"


def problems(project):
    """Return the lines of the error, without the advice."""
    with pytest.raises(UsageError) as error:
        read_config(project)
    lines = str(error.value).splitlines()
    assert lines[-1] == "or set SPECIALIST_CONFIG=none to read no config file"
    return lines[:-1]


def test_the_project_comes_before_the_user_and_the_environment_before_both(project, user, monkeypatch):
    """For each key, not for each file."""
    (project / "pyproject.toml").write_text(f"{HEAD}model = 'haiku'\ntime-limit = '90s'\n")
    user.write_text("model = 'opus'\ncost_limit = 0.5\nquiet = true\nstore = 'none'\n")
    config = read_config(project)
    got = {key: config.get(key) for key in ("model", "time_limit", "cost_limit", "quiet", "store", "preset")}
    assert got == {
        "model": "haiku",
        "time_limit": "90s",
        "cost_limit": 0.5,
        "quiet": True,
        "store": "none",
        "preset": None,
    }
    assert config.defaults.model == "haiku"
    assert set(config.defaults.settings) == {"time_limit", "cost_limit"}
    monkeypatch.setenv("SPECIALIST_MODEL", "sonnet")
    monkeypatch.setenv("SPECIALIST_STORE", "/a/runs.db")
    assert (config.get("model"), config.get("store"), config.defaults.model) == (None, None, None)
    assert read_config(None).get("cost_limit") == 0.5
    assert (config.values["model"].line, config.values["cost_limit"].path) == (2, user)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("modle = 'haiku'", "modle: unknown key; did you mean model?"),
        ("tool-calls-limt = 3", "tool-calls-limt: unknown key; did you mean tool_calls_limit?"),
        ("zzz = 3", f"zzz: unknown key; known are {', '.join(KEYS)}"),
        ("tool_calls_limit = '3'", "tool_calls_limit: must be an integer of at least 0, or none, got '3'"),
        ("cost_limit = nan", "cost_limit: must be an amount in USD of at least 0, or none, got nan"),
        ("cost_limit = 99999999999999999999", "cost_limit: the number is too large; `none` removes a limit"),
        ("landing = 'softly'", "landing: must be auto, force, order, schema, none, finalize or stop, got 'softly'"),
        ("preset = []", "preset: must be soft-landing, soft-warning, finalize, budget-notice or openai-loop, got []"),
        ("model = 3", "model: must be the name of a model, got 3"),
        ("model = 'inherit'", "model: there is nothing to inherit from; name a model"),
        ('model = "a\\u001bb"', "model: must be one line of at most 500 characters without control characters"),
        ("strict = 'yes'", "strict: must be true or false, got 'yes'"),
        ("dir = 'nowhere'", "nowhere is not a folder"),
        ("trust = true", "trust: this cannot be set in a config file; use the option --trust"),
        ("api_key = 'x'", "api_key: secrets and addresses of servers do not belong in a config file"),
        ("mcp_token = 'x'", "mcp_token: secrets and addresses of servers"),
        ("openai_base_url = 'x'", "openai_base_url: secrets and addresses of servers"),
    ],
)
def test_a_wrong_key_or_value_is_an_error_in_both_files(project, user, line, told):
    """The error names file and line, and a similar key or the expected value."""
    (project / "pyproject.toml").write_text(f"[project]\nname = 'x'\n{HEAD}\n{line}\n")
    (found,) = problems(project)
    assert found.startswith("pyproject.toml:5: ")
    assert told in found
    (project / "pyproject.toml").unlink()
    user.write_text(f"# mine\n{line}\n")
    (found,) = problems(project)
    assert found.startswith(f"{SHOWN}:2: ")
    assert told in found


@pytest.mark.parametrize("line", ["store = 'none'", "quiet = true", "on-lost = 'abort'"])
def test_a_project_cannot_decide_for_its_users(project, user, line):
    """The place of the runs, what happens if it fails, and hidden warnings are up to the user."""
    (project / "pyproject.toml").write_text(HEAD + line)
    (found,) = problems(project)
    assert "a project cannot decide this for its users; use your own config file" in found
    (project / "pyproject.toml").unlink()
    user.write_text(line)
    assert read_config(project).values


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("sqlite:///runs.db", "must be an absolute path"),
        ("postgresql://me:hush@host/runs", "secrets do not belong in a config file"),
        ("postgresql://host/runs?password=hush", "secrets do not belong in a config file"),
        ("", "must be a file, a URL, or none"),
    ],
)
def test_a_store_is_absolute_and_has_no_password(project, user, store, told):
    """A relative path would be another file in each folder; a password would be readable for every backup."""
    user.write_text(f"store = '{store}'")
    (found,) = problems(project)
    assert told in found
    assert "hush" not in found


@pytest.mark.parametrize("folder", ["/", "..", "~", "~/x", "more/../..", "link"])
def test_a_folder_of_the_project_stays_inside(project, folder):
    """Neither a path nor a symlink leads out of the project."""
    (project / "link").symlink_to("..")
    (project / "pyproject.toml").write_text(f"{HEAD}dir = '{folder}'")
    assert "must be a folder inside the project" in problems(project)[0]
    (project / "pyproject.toml").write_text(f"{HEAD}dir = 'more'")
    assert read_config(project).get("dir") == project / "more"


def test_every_problem_of_both_files_is_named_at_once(project, user):
    """Nobody has to start the command again for each mistake."""
    (project / "pyproject.toml").write_text(f"{HEAD}a = 1\nstrict = 1\n")
    user.write_text("[tool.run-specialist]\nmodel = 1\n")
    told = problems(project)
    assert [line.partition(": ")[0] for line in told] == ["pyproject.toml:2", "pyproject.toml:3", f"{SHOWN}:1"]
    assert told[2].endswith("put the keys at the top of this file, without [tool.run-specialist]")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (HEAD.encode() + b"a = \n", "pyproject.toml:2: invalid TOML: Invalid value"),
        (HEAD.encode() + b"\n# \xff\n", "pyproject.toml:3: is not UTF-8"),
        (HEAD.encode() + b"\x00", "pyproject.toml:2: invalid TOML: "),
        (HEAD.encode() + b"a = " + b"[" * 9999, "pyproject.toml:1: invalid TOML: it is nested too deeply"),
    ],
)
def test_a_damaged_file_is_one_line(project, content, told):
    """The line names the place and the reason."""
    (project / "pyproject.toml").write_bytes(content)
    (found,) = problems(project)
    assert found.startswith(told)


def test_a_project_file_that_leads_out_of_the_project_is_ignored(project, user):
    """A symlink to another file, a folder and a FIFO are not read; the user's own file may be a symlink."""
    (project.parent / "other.toml").write_text(f"{HEAD}model = 'haiku'")
    (project / "pyproject.toml").symlink_to("../other.toml")
    config = read_config(project)
    assert (config.values, len(config.ignored)) == ({}, 1)
    assert config.ignored[0].startswith("pyproject.toml: ignored, cannot be read: it leads outside the project")
    (project / "pyproject.toml").unlink()
    os.mkfifo(project / "pyproject.toml")
    assert read_config(project).ignored == ("pyproject.toml: ignored, is not a regular file",)
    (project.parent / "mine.toml").write_text("model = 'opus'")
    user.symlink_to(project.parent / "mine.toml")
    assert read_config(project).get("model") == "opus"


def test_a_project_of_another_user_is_ignored(project, monkeypatch):
    """As its specialists are, unless the user names the project."""
    (project / "pyproject.toml").write_text(f"{HEAD}model = 'haiku'")
    monkeypatch.setattr(
        "run_specialist.api.config_files.ownership_problem", lambda top, *inside: f"{inside[0]} belongs to another"
    )
    config = read_config(project)
    assert (config.get("model"), config.ignored) == (
        None,
        (f"pyproject.toml: ignored, {project}/pyproject.toml belongs to another",),
    )
    assert read_config(project, meant=True).get("model") == "haiku"


def test_a_folder_of_another_user_is_refused(project, monkeypatch):
    """A folder in the project that another user can write is not searched for specialists, unless the user named it."""
    (project / "pyproject.toml").write_text(f"{HEAD}dir = 'more'")
    monkeypatch.setattr(
        "run_specialist.api.config_files.ownership_problem",
        lambda top, *inside: "it belongs to another" if project / "more" in inside else None,
    )
    assert problems(project) == ["pyproject.toml:2: dir: it belongs to another"]
    assert read_config(project, meant=True).get("dir") == project / "more"


def test_the_place_of_the_users_file(project, user, monkeypatch, tmp_path):
    """XDG_CONFIG_HOME is followed if it is absolute, SPECIALIST_CONFIG names a file, and `none` reads none."""
    user.write_text("model = 'opus'")
    (tmp_path / "xdg/run-specialist").mkdir(parents=True)
    (tmp_path / "xdg/run-specialist/config.toml").write_text("model = 'fable'")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert read_config(project).get("model") == "opus"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert read_config(project).get("model") == "fable"
    (tmp_path / "own.toml").write_text("model = 'sonnet'")
    monkeypatch.setenv("SPECIALIST_CONFIG", str(tmp_path / "own.toml"))
    assert read_config(project).get("model") == "sonnet"
    monkeypatch.setenv("SPECIALIST_CONFIG", str(tmp_path / "gone.toml"))
    with pytest.raises(UsageError, match=r"SPECIALIST_CONFIG: .*gone\.toml does not exist"):
        read_config(project)
    monkeypatch.setenv("SPECIALIST_CONFIG", "none")
    (project / "pyproject.toml").write_text(HEAD + "broken")
    assert (read_config(project), read_config(None)) == (Config((), project), Config())


def test_many_problems_are_cut(project):
    """A file with thousands of mistakes is refused quickly and briefly."""
    (project / "pyproject.toml").write_text(HEAD + "".join(f"key{number} = 1\n" for number in range(2_000)))
    told = problems(project)
    assert (len(told), told[-1]) == (21, "pyproject.toml: further keys were not checked")
    assert told[19].startswith("pyproject.toml:21: key19: unknown key")


@pytest.mark.exhaustive
def test_a_hostile_text_does_not_take_long(project):
    """Thousands of lines that look like keys are one value, and are read once."""
    (project / "pyproject.toml").write_text("x = '''\n" + "model = [\n" * 60_000 + "'''\n" + HEAD + "model = 'haiku'\n")
    assert read_config(project).values["model"].line == 60_004


def test_a_file_that_cannot_be_read_is_an_error_for_the_user_only(project, user):
    """The user's file is meant to hold, so it must not be skipped."""
    (project / "pyproject.toml").write_text(HEAD + "#" * LARGEST)
    assert read_config(project).ignored == ("pyproject.toml: ignored, is larger than 1,024 KiB",)
    user.mkdir()
    assert problems(project) == [f"{SHOWN}: is not a regular file"]


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """Return a function that writes the models of project and user, and returns what the choice requires."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root, own = tmp_path / "project", tmp_path / "home/.config/run-specialist/config.toml"
    (root / ".git").mkdir(parents=True)
    own.parent.mkdir(parents=True)

    def put(model, mine=None):
        (root / "pyproject.toml").write_text(f"[tool.run-specialist]\nmodel = '{model}'\n")
        own.write_text(f"model = '{mine}'\n" if mine else "")
        return read_config(root)

    return put


@pytest.mark.parametrize(
    ("model", "mine"),
    [
        ("haiku", None),
        ("offline", None),
        ("offline", "ollama:qwen3"),
        ("ollama:qwen3", "ollama:gemma"),
        ("local:/models/a.gguf", "local:/models/a.gguf"),
        ("ollama:a, haiku", "haiku, ollama:b"),
    ],
)
def test_another_model_of_the_same_server_needs_no_trust(choose, model, mine):
    """The questions and the files go where they would go without the project's choice, or nowhere."""
    assert model_claim(choose(model, mine)) is None


@pytest.mark.parametrize(
    ("model", "mine", "action"),
    [
        ("openai:gpt-5", None, "send the questions and the tool results to a server of chat completions"),
        ("ollama:qwen3", None, "send the question and the tool results to Ollama at http://127.0.0.1:11434"),
        ("vllm:x", "ollama:x", "send the question and the tool results to vLLM at http://127.0.0.1:8000"),
        ("local:/models/a.gguf", "local:/models/b.gguf", "load /models/a.gguf"),
        ("haiku", "ollama:qwen3", "send the questions and the tool results to a server of the Messages API"),
    ],
)
def test_another_server_needs_trust(choose, model, mine, action, tmp_path):
    """The error names the place, what would happen and the way out; trust is remembered until the model changes."""
    config, folder = choose(model, mine), tmp_path / "trusted"
    with pytest.raises(NotTrusted, match="allow it once with `trust=True`") as error:
        check_chosen_model(config, Trust(folder=folder))
    assert f"pyproject.toml:2: model: would {action}" in str(error.value)
    assert check_chosen_model(config, Trust(given=True, folder=folder)) == ()
    assert check_chosen_model(config, Trust(folder=folder)) == ()
    with pytest.raises(NotTrusted):
        check_chosen_model(choose("lmstudio:other", mine), Trust(folder=folder))


def test_the_environment_decides_instead_of_the_project(choose, monkeypatch):
    """A model in SPECIALIST_MODEL needs no trust, nor does the user's own file."""
    monkeypatch.setenv("SPECIALIST_MODEL", "haiku")
    assert model_claim(choose("ollama:qwen3")) is None
    monkeypatch.delenv("SPECIALIST_MODEL")
    config = choose("haiku", "ollama:qwen3")
    config.project.joinpath("pyproject.toml").unlink()
    assert model_claim(read_config(config.project)) is None


# The line of each key in a TOML file, also among text that looks like a key.
NAMES = ("tool", "run-specialist")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tool.run-specialist.model = 1\n", 1),
        ("x = 1\n[tool]\nrun-specialist = { model = 1 }\n", 1),
        ('[ "tool" . "run-specialist" ]\nx = 1\nmodel = """\nlong\n"""\n', 3),
        ("[tool.run-specialist.model]\nx = 1\n", 1),
        ('x = 1\n[tool.run-specialist]\n"mod\\u0065l" = 1\n', 2),
    ],
)
def test_a_table_can_be_written_in_any_way(text, line):
    """Dotted keys, inline tables and quoted names are understood; the header stands for a key with escapes."""
    table = read_table(text, NAMES)
    assert "model" in table.values
    assert table.line("model") == line


@given(st.text() | st.text(st.sampled_from("ab.=[]{}\"'#\n ,1-"), max_size=200))
def test_any_text_is_read_or_refused(text):
    """No text leads to another error than the expected one."""
    try:
        tomllib.loads(text)
    except ValueError:
        with pytest.raises(InvalidToml):
            read_table(text, ())
    else:
        table = read_table(text, ())
        assert all(1 <= table.line(key) <= max(len(text.splitlines()), 1) for key in table.values)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\ntool.run-specialist.model" + ".a" * 1000 + " = 1\n", (2, "a key has more than 50 parts")),
        ("x = 1\n[tool" + ' . "a"' * 400_000 + "]\n", (2, "a key has more than 50 parts")),
        ("x = " + ("{" + ".".join("a" * 40) + " = ") * 40 + "1" + "}" * 40, (1, "it is nested too deeply")),
        ("x = " + "[" * 60 + "]" * 60, (1, "it is nested too deeply")),
        ("x = " + "[" * 5000, (1, "it is nested too deeply")),
    ],
)
def test_deep_values_are_invalid(text, reason):
    """A key of very many parts and deeply nested values are rejected with their line, before they take long."""
    with pytest.raises(InvalidToml) as error:
        read_table(text, NAMES)
    assert (error.value.line, str(error.value)) == reason
