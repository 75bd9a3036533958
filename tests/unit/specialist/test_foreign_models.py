"""Names of models as other programs write them."""

from pathlib import Path

import pytest

from run_specialist.errors import NotTrusted, UsageError
from run_specialist.providers.choose import make_provider
from run_specialist.spawning.trust import RunContext, Trust, check_model
from run_specialist.specialist.dialects import served_name, unserved
from run_specialist.specialist.loader import load, load_text

SERVED = {
    "Claude Sonnet 4.5 (copilot)": "claude-sonnet-4-5",
    "Claude Sonnet 4": "claude-sonnet-4-0",
    "Claude Opus 5.5": "claude-opus-5-5",
    "claude-4.5-sonnet-thinking": "claude-sonnet-4-5",
    "anthropic/claude-sonnet-4-5-20250929": "claude-sonnet-4-5-20250929",
    "openrouter/anthropic/claude-sonnet-4.5": "claude-sonnet-4-5",
    "GPT-5 mini (copilot)": "openai:gpt-5-mini",
    "gpt-5.3-codex-spark": "openai:gpt-5.3-codex-spark",
    "openai/gpt-5": "openai:gpt-5",
    "github-copilot/gpt-5": "openai:gpt-5",
    "o4-mini": "openai:o4-mini",
    "ollama/llama3:8b": "ollama:llama3:8b",
}
KEPT = (
    "sonnet",
    "inherit",
    "offline",
    "claude-sonnet-5-5",
    "claude-sonnet-4-20250514",
    "claude-3-5-sonnet-latest",
    "us.anthropic.claude-sonnet-4-20250514-v1:0",
    "openai:gpt-5",
    "ollama:library/llama3",
    "local:/models/gemini.gguf",
    "my-model",
    "",
)
REFUSED = ("gemini-3-flash", "Gemini 3 Pro (Preview)", "google/gemini-3-pro", "openrouter/x", "deepseek-chat", "llama3")


def test_names_of_other_programs_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Display names and prefixes of vendors become ids of this program's endpoints; replacing twice changes nothing."""
    for written, served in SERVED.items():
        assert served_name(written) == served
        assert served_name(served) == served
        assert not unserved(served)
    for name in KEPT:
        assert (served_name(name), unserved(name)) == (name, "")
    # A server of one's own may serve anything, by any name without blanks.
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    for name in (*KEPT, *REFUSED, "openai/gpt-5", "gpt-5", "anthropic/claude-sonnet-4.5", "GPT-5 mini"):
        assert (served_name(name), unserved(name)) == (name, "")
    assert served_name("Claude Sonnet 4.5 (copilot)") == "claude-sonnet-4-5"


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_no_endpoint_serves_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with it has one warning at its line, and a run is refused although there is a key."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    file = load_text(f"---\nname: agent\ndescription: d\nmodel: {name}\n---\nBody\n", Path("agent.md"))
    assert [(p.line, p.key) for p in file.problems if p.level == "warning"] == [(4, "model")]
    assert file.model == name
    with pytest.raises(UsageError, match="Messages API does not serve it"):
        make_provider(name)


def test_the_file_keeps_its_name_and_the_settings_get_the_id() -> None:
    """Listings show what the file says; a run asks for the id."""
    text = "---\nname: agent\ndescription: d\nmodel: Claude Sonnet 4.5 (copilot)\n---\nBody\n"
    file = load_text(text, Path("agent.md"))
    assert file.specialist is not None
    assert (file.model, file.specialist.model) == ("Claude Sonnet 4.5 (copilot)", "claude-sonnet-4-5")
    assert file.status == "ok"


@pytest.mark.anyio
async def test_a_local_model_needs_trust_by_each_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's file asks no server of this machine without trust, however it writes the prefix."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    path = tmp_path / "project" / ".opencode" / "agents" / "agent.md"
    path.parent.mkdir(parents=True)
    for model in ("ollama:qwen3", "ollama/qwen3", "openrouter/ollama/qwen3"):
        path.write_text(f"---\nname: agent\ndescription: d\nmodel: {model}\n---\nBody\n")
        file = load(path, tmp_path / "project")
        assert file.specialist is not None
        trust = Trust(folder=tmp_path / "trusted")
        context = RunContext(file, file.specialist, tmp_path / "project", trust)
        with pytest.raises(NotTrusted, match="to Ollama at"):
            await check_model(context, file.specialist.model, "model")
