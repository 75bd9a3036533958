"""The models of a run are checked before its first request: names, prices, credentials and trust of each."""

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import NotTrusted, UsageError
from run_specialist.providers.base import Capabilities
from run_specialist.providers.choose import ModelChain, choose_models

pytestmark = pytest.mark.anyio
VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "SPECIALIST_MODEL")


@pytest.fixture
def looker(tmp_path, monkeypatch):
    """Return a function that writes a project's specialist and prepares a run of it; nothing is sent."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (*VARIABLES, "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    root = tmp_path / "project"
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True)
    monkeypatch.chdir(root)

    async def prepare(*lines, trust=False, runner_model=None, **options):
        text = "\n".join(["---", "name: looker", "description: Looks.", *lines, "---", "You look.", ""])
        (root / "specialists/looker.md").write_text(text)
        async with Runner(root=root, store="none", trust=trust, model=runner_model) as runner:
            return (await runner.prepare("looker", "What?", **options)).job

    return prepare


def ids(job):
    """Return the models of a job."""
    return job.provider.ids if isinstance(job.provider, ModelChain) else (job.provider.model,)


async def test_m_9_the_models_of_a_file_are_asked_in_order(looker):
    """The aliases become ids; only the first model has a connection, and the stored values name all."""
    job = await looker("model: [opus, sonnet, haiku]")
    assert ids(job) == ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
    assert job.origin()["models"] == [*ids(job)]
    assert isinstance(job.provider.capabilities, Capabilities)
    assert (job.origin()["settings"]["model"], job.origin()["settings"]["fallback_models"]) == (
        "opus",
        ["sonnet", "haiku"],
    )


async def test_m_9_models_without_credentials_are_left_out_with_a_warning(looker):
    """The first model whose credentials are set is asked, wherever it is in the list."""
    job = await looker("model: [gpt-5, sonnet, 'openai:gpt-6']")
    assert ids(job) == ("claude-sonnet-5-5",)
    left_out = [text for text in job.warnings if "is left out" in text]
    assert [text.partition(" ")[0] for text in left_out] == ["openai:gpt-5", "openai:gpt-6"]
    assert all("OPENAI_API_KEY" in text for text in left_out)
    with pytest.raises(UsageError, match="no credentials for openai:gpt-5"):
        await looker("model: [gpt-5, 'openai:gpt-6']")


@pytest.mark.exhaustive
async def test_m_9_a_misspelt_model_is_refused(looker):
    """Whichever of the models it is, the line names it."""
    with pytest.raises(UsageError, match="did you mean haiku"):
        await looker("model: sonnet", "fallback_models: [haikuu]")


async def test_m_9_the_cost_limit_needs_the_price_of_each_model(looker):
    """A limit that would not hold with the second model is refused before the first one is asked."""
    with pytest.raises(UsageError, match=r"looker\.md:\d+:1: cost_limit: the price of claude-unheard-of is unknown"):
        await looker("model: [sonnet, claude-unheard-of]", "cost_limit: 1")
    assert ids(await looker("model: [sonnet, haiku]", "cost_limit: 1"))


async def test_m_9_a_local_model_of_a_project_needs_trust_wherever_it_is(looker, tmp_path):
    """A fallback on this machine is refused without trust, with the place that names it."""
    lines = ("model: sonnet", "fallbackModels: ['ollama:qwen3', 'local:/models/a.gguf']")
    with pytest.raises(NotTrusted, match=r"looker\.md:5:\d+: fallback_models: .*Ollama"):
        await looker(*lines)
    job = await looker(*lines, trust=True)
    assert ids(job)[1:] == ("ollama:qwen3", "local:/models/a.gguf")
    assert ids(await looker(*lines, model="sonnet")) == ("claude-sonnet-5-5",)


def test_m_9_offline_follows_nothing(monkeypatch):
    """`offline` cannot be a fallback, and no model can follow it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    assert choose_models("offline,sonnet", None).names == ("offline",)
    found = choose_models("sonnet,offline", None)
    assert (found.names, found.left_out) == (("sonnet",), ("offline is left out: it is not a language model",))


def test_m_9_the_environment_and_the_config_file_may_name_several(monkeypatch):
    """SPECIALIST_MODEL and the default of a config file are lists too; the fallbacks of the file follow them."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    assert choose_models(None, "inherit", "opus,haiku", ["sonnet"]).names == ("opus", "haiku", "sonnet")
    monkeypatch.setenv("SPECIALIST_MODEL", "haiku,opus")
    assert choose_models(None, None, "sonnet", ["haiku"]).names == ("haiku", "opus")
    assert choose_models("sonnet", "opus", None, ["haiku"]).names == ("sonnet",)
