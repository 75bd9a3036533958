"""A model that a project chooses for all specialists needs trust if another server would be asked."""

import pytest

from run_specialist.api.config_files import check_chosen_model, model_claim, read_config
from run_specialist.errors import NotTrusted
from run_specialist.spawning.trust import Trust


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
        ("claude-opus-5", "sonnet"),
        ("offline", None),
        ("offline", "ollama:qwen3"),
        ("openai:gpt-5", "openai:gpt-5-mini"),
        ("ollama:qwen3", "ollama:gemma"),
        ("local:/models/a.gguf", "local:/models/a.gguf"),
        ("haiku, opus", None),
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
        ("local:/models/a.gguf", None, "load /models/a.gguf"),
        ("local:/models/a.gguf", "local:/models/b.gguf", "load /models/a.gguf"),
        ("haiku", "ollama:qwen3", "send the questions and the tool results to a server of the Messages API"),
        ("haiku", "offline", "send the questions and the tool results to a server of the Messages API"),
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
