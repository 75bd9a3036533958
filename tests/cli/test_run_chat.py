"""The command `run-specialist` with a model on chat completions: `--model openai:ID`."""

import json

import pytest

from run_specialist.providers.choose import make_provider
from tests.wire.chat import policies

MODEL = ("--model", "openai:some-model")


def test_an_answer_goes_to_stdout_and_the_outcome_names_the_model(chat, write, call):
    """The request has the model id without its prefix; the outcome has the full name."""
    write("finder", "tool_calls_limit: 3")
    simulator = chat(policies.always_tool("grep"))
    plain = call("finder", "What?", *MODEL)
    assert (plain.exit_code, plain.stdout) == (0, "what was found\n")
    outcome = json.loads(call("finder", "What?", "--json", *MODEL).stdout)
    assert (outcome["model"], outcome["status"]) == ("openai:some-model", "landed")
    assert {sent.body["model"] for sent in simulator.requests} == {"some-model"}


@pytest.mark.parametrize("url", [None, "", " "])
def test_the_default_base_url_is_the_vendors(monkeypatch, url):
    """An unset, empty or blank OPENAI_BASE_URL selects the vendor's URL."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    if url is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert str(make_provider("openai:some-model").client.base_url) == "https://api.openai.com/v1/"


def test_a_missing_key_and_base_url_names_three_remedies(write, call, monkeypatch):
    """Exit code 2 and one line; credentials for another API do not count."""
    write("finder")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    result = call("finder", "What?", *MODEL)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "openai:some-model" in line
    assert all(way in line for way in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "--model offline"))


def test_a_missing_model_id_is_refused(write, call, monkeypatch):
    """`openai:` without an id is refused with exit code 2."""
    write("finder")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    result = call("finder", "What?", "--model", "openai:")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the model id is missing" in result.stderr


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no-url", "http://["], ids=["closed", "no URL", "broken"])
def test_x_12_an_unreachable_server_is_one_line(write, call, monkeypatch, url):
    """The error is one line that names OPENAI_BASE_URL."""
    write("finder")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    result = call("finder", "What?", *MODEL)
    assert result.exit_code in (2, 3)
    (line,) = result.stderr.splitlines()
    assert "OPENAI_BASE_URL" in line
    assert "Traceback" not in line
