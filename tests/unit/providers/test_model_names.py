"""Misspelt model names are found, and names that may exist are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import UsageError
from run_specialist.providers.models import ALIASES, FAMILIES, PREFIXES, check_spelling


@pytest.fixture(autouse=True)
def vendor_of_chat(monkeypatch):
    """Chat completions are those of the vendor unless a test sets another server."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("sonet", "sonnet"),
        ("opsu", "opus"),
        ("claude-sonet-9", "claude-sonnet-9 or claude-sonnet-5-5 (sonnet)"),
        ("anthropic/claude-haikku-5-5", "anthropic/claude-haiku-5-5 or claude-haiku-5-5 (haiku)"),
        ("olama:qwen3:8b", "ollama:qwen3:8b"),
        ("openai:gtp-5", "openai:gpt-5"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_probable_one(model, meant):
    """Aliases, prefixes and families with one typing error, or their letters in another order, are refused."""
    with pytest.raises(UsageError) as refused:
        check_spelling(model)
    assert str(refused.value) == f"no model {model!r}: did you mean {meant}?"


@pytest.mark.parametrize(
    "model",
    [
        "claude-epic-1",
        "claude-sonnet-latst",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "sonet-large",
        "mistral",
        "gpt-5",
        "qwen3:8b",
        "openai:ft:gpt-5:org::id",
        "ollama:sonet",
        "openai:",
        "",
        "sönet",
    ],
)
def test_a_name_that_may_exist_is_accepted(model):
    """New versions and families, names of other vendors and names on other servers are not judged."""
    check_spelling(model)


def test_names_on_another_chat_server_are_its_own(monkeypatch):
    """With OPENAI_BASE_URL every name after `openai:` is accepted."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    check_spelling("openai:gtp-5")


@given(st.text(max_size=30))
def test_any_text_is_accepted_or_refused_with_another_name(model):
    """No text raises another error, and a name is never suggested for itself."""
    try:
        check_spelling(model)
    except UsageError as error:
        meant = str(error).rsplit("did you mean ", 1)[1].removesuffix("?").split(" or ")
        assert model not in meant


@given(
    st.sampled_from(["claude-{}", "claude-{}-7", "claude-{}-7-1-20280101", "claude-9-{}"]), st.sampled_from(FAMILIES)
)
def test_every_id_of_a_known_family_is_accepted(form, family):
    """Each version of a known family is accepted, known or not."""
    check_spelling(form.format(family))


def test_the_known_names_are_accepted():
    """Aliases, their ids and all prefixes are accepted."""
    for model in (*ALIASES, *ALIASES.values(), "offline", "inherit", *(f"{prefix}:x" for prefix in PREFIXES)):
        check_spelling(model)
