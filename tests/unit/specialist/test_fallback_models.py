"""Several models in a file, in a flag and in a variable."""

from pathlib import Path

import pytest

from run_specialist.specialist.checks import model_settings, split_models
from run_specialist.specialist.loader import load_text


def loaded(*lines):
    """Return a file with these lines in its front matter."""
    return load_text("\n".join(["---", "description: Looks.", *lines, "---", "You look.", ""]), Path("/p/looker.md"))


@pytest.fixture(autouse=True)
def _vendors_endpoint(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("sonnet", ("sonnet",)),
        ("sonnet, openai:gpt-5,haiku", ("sonnet", "openai:gpt-5", "haiku")),
        (" sonnet,, sonnet , ", ("sonnet",)),
        ("Claude Sonnet 4.5 (copilot, preview), haiku", ("Claude Sonnet 4.5 (copilot, preview)", "haiku")),
        ("local:/models/a,b.gguf", ("local:/models/a,b.gguf",)),
        ("sonnet, local:/models/a, b.gguf", ("sonnet", "local:/models/a, b.gguf")),
        ("a-local:x,b", ("a-local:x", "b")),
        (",", (",",)),
        ("", ("",)),
    ],
)
def test_m_9_a_text_may_name_several_models(text, models):
    """Commas separate models, except in parentheses and in the path of a file with weights."""
    assert split_models(text) == models


@pytest.mark.parametrize(
    "lines",
    [
        ["model: [sonnet, haiku, 'ollama:a']"],
        ["model:", "  - sonnet", "  - haiku", "  - ollama:a"],
        ["model: sonnet, haiku, ollama:a"],
        ["model: sonnet", "fallbackModels: [haiku, 'ollama:a']"],
        ["fallback-models: haiku, ollama:a, haiku", "model: sonnet"],
        ["fallback_models: [ollama:a]", "model: [sonnet, haiku, sonnet]"],
        ["model: ['Claude Sonnet 5.5 (copilot)', anthropic/claude-haiku-5-5, ollama/a]"],
    ],
)
def test_m_9_all_spellings_mean_the_same(lines):
    """A list, a text with commas and `fallbackModels` are the same models, without repetitions and without warnings."""
    file = loaded(*lines)
    ids = {"sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"}
    named = [file.specialist.model, *file.specialist.fallback_models]
    assert [ids.get(one, one) for one in named] == ["claude-sonnet-5-5", "claude-haiku-5-5", "ollama:a"]
    assert not [problem for problem in file.problems if problem.level != "notice"]


def test_m_9_each_name_is_checked():
    """A model that no endpoint serves, and a value that is not a language model, are warnings at their key."""
    file = loaded("model: [sonnet, gemini-3-flash]", "fallbackModels: [inherit, haiku]")
    assert file.specialist.fallback_models == ("gemini-3-flash", "haiku")
    texts = [str(problem) for problem in file.problems]
    assert any("gemini-3-flash: the vendor's Messages API does not serve it" in text for text in texts)
    assert any("looker.md:4" in text and "inherit cannot follow another model; ignored" in text for text in texts)


def test_m_9_a_model_of_the_call_replaces_all_models_of_the_file():
    """`--model` replaces the list of the file; the settings of a call with one model stay as they were."""
    file = loaded("model: [sonnet, haiku]")
    by_file = file.specialist.fallback_models
    assert model_settings("opus", {}, by_file) == {"model": "opus", "fallback_models": ()}
    assert model_settings("opus", {}, ()) == {"model": "opus"}
    assert model_settings("opus, haiku", {}, ()) == {"model": "opus", "fallback_models": ("haiku",)}
    assert model_settings("opus", {"fallback_models": ["haiku"]}, ())["fallback_models"] == ("haiku",)
    assert model_settings(None, {}, by_file) == {}
