"""The command `run-specialist`: the choice of model and key, and the errors if no model can be reached."""

import json

import pytest

from tests.stderr_lines import lines_before_summary
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers

OPUS, SONNET, HAIKU, FABLE = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2"


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("flag", "file", "environment", "model"),
    [
        ("opus", "haiku", "fable", OPUS),
        ("opus", None, None, OPUS),
        ("claude-opus-4-8", "haiku", None, "claude-opus-4-8"),
        (None, "haiku", "fable", HAIKU),
        (None, "Haiku", None, HAIKU),
        (None, "inherit", "fable", FABLE),
        (None, None, "fable", FABLE),
        (None, "inherit", None, SONNET),
        (None, None, None, SONNET),
    ],
)
def test_the_model_comes_from_flag_file_environment_in_this_order(
    api, write, call, monkeypatch, flag, file, environment, model
):
    """The order is flag, file (unless `inherit`), SPECIALIST_MODEL, then `sonnet` if a base URL is set."""
    write("finder", *([f"model: {file}"] if file else []))
    if environment:
        monkeypatch.setenv("SPECIALIST_MODEL", environment)
    simulator = api([answers("yes")])
    outcome = json.loads(call("finder", "What?", "--json", *(["--model", flag] if flag else [])).stdout)
    assert (simulator.requests[0].body["model"], outcome["model"]) == (model, model)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("flags", "file", "environment"),
    [([], None, None), ([], "inherit", None), (["--model", "offline"], "haiku", "fable"), ([], "offline", "fable")],
)
def test_offline_is_used_without_credentials_or_if_named(write, call, monkeypatch, flags, file, environment):
    """Without credentials and base URL the answer comes offline with exit code 0; a named `offline` overrides a key."""
    write("finder", *([f"model: {file}"] if file else []))
    if environment:
        monkeypatch.setenv("SPECIALIST_MODEL", environment)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    result = call("finder", "What do owls eat?", "--json", *flags)
    outcome = json.loads(result.stdout)
    assert (result.exit_code, outcome["model"], outcome["status"]) == (0, "offline", "answered")
    assert "Owls eat mice at night." in outcome["answer"]


def test_offline_is_reported_on_stderr(write, call):
    """One line says that no language model answered and what to set; `--quiet` suppresses it; stdout is the same."""
    write("finder")
    loud, quiet = call("finder", "What do owls eat?"), call("finder", "What do owls eat?", "--quiet")
    assert "answered offline, without a language model" in loud.stderr
    assert "ANTHROPIC_API_KEY" in loud.stderr
    assert len(lines_before_summary(loud.stderr)) == 1
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert quiet.stdout == loud.stdout
    assert "offline" not in loud.stdout


@pytest.mark.parametrize(
    ("flags", "file", "environment"),
    [(["--model", "sonnet"], None, None), ([], "haiku", None), ([], None, "claude-opus-4-8")],
    ids=["flag", "file", "environment"],
)
def test_a_model_without_credentials_names_three_remedies(write, call, monkeypatch, flags, file, environment):
    """Exit code 2 before any request; the error names a key, a base URL and offline mode."""
    write("finder", *([f"model: {file}"] if file else []))
    if environment:
        monkeypatch.setenv("SPECIALIST_MODEL", environment)
    result = call("finder", "What?", *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(way in result.stderr for way in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "--model offline"))
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({}, "none-needed"),
        ({"ANTHROPIC_API_KEY": "my-own"}, "my-own"),
        ({"ANTHROPIC_AUTH_TOKEN": "my-token"}, "my-token"),
    ],
    ids=["no key", "key", "token"],
)
def test_a_placeholder_key_is_sent_if_none_is_set(api, write, call, monkeypatch, environment, key):
    """A placeholder is sent to a server with a custom base URL if no key is set; a key or token is sent unchanged."""
    write("finder")
    simulator = api([answers("yes")])
    for name, content in environment.items():
        monkeypatch.setenv(name, content)
    assert call("finder", "What?").stdout == "yes\n"
    headers = simulator.requests[0].headers
    sent = {headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")}
    assert sent - {None, ""} == {key}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (faults.unauthorised(), "the API answered 401: invalid x-api-key; check ANTHROPIC_API_KEY"),
        (faults.not_found(), "the API answered 404: model: claude-none; check --model and ANTHROPIC_BASE_URL"),
        (
            faults.html(),
            "answered with text/html, not JSON; does ANTHROPIC_BASE_URL point to a Messages-compatible server?",
        ),
        (faults.invalid("model: no such\nthing"), "the API answered 400: model: no such"),
    ],
    ids=["401", "404", "html", "400"],
)
@pytest.mark.parametrize("flags", [[], ["--quiet"], ["--json"]], ids=["plain", "quiet", "json"])
def test_x_12_a_refusal_by_the_endpoint_is_one_line_with_exit_code_3(api, write, call, fault, said, flags):
    """The line has the cause and a remedy, without a traceback, for every kind of output."""
    write("finder")
    api([fault])
    result = call("finder", "What?", *flags)
    assert result.exit_code == 3
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr
    if flags == ["--json"]:
        outcome = json.loads(result.stdout)
        assert (outcome["status"], outcome["answer"]) == ("failed", "")
    else:
        assert result.stdout == ""


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no-url"], ids=["closed", "no URL"])
def test_x_12_an_unreachable_endpoint_is_one_line(write, call, monkeypatch, url):
    """Exit code 3 and one line with the URL and the variable that sets it."""
    write("finder")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    result = call("finder", "What?")
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert "cannot reach" in line
    assert url in line
    assert "ANTHROPIC_BASE_URL" in line


@pytest.mark.exhaustive
def test_an_invalid_key_is_one_line_without_the_key(api, write, call, monkeypatch):
    """A newline in a key is reported on one line that does not contain the key."""
    write("finder")
    api([])
    monkeypatch.setenv("ANTHROPIC_API_KEY", "my-own\nkey")
    result = call("finder", "What?")
    assert result.exit_code in (2, 3)
    (line,) = result.stderr.splitlines()
    assert "ANTHROPIC_API_KEY" in line
    assert "my-own" not in line
