"""The command `run-specialist` with a model of a local server: `--model ollama:NAME` and so on."""

import json
import socket
import sys

import pytest

from run_specialist.installation import adding
from tests.cli.specialists_command import call as specialists
from tests.wire.chat.replies import answers, calls
from tests.wire.local_api import MODELS, VARIABLES, listed

KINDS = pytest.mark.parametrize("kind", MODELS)


@pytest.mark.exhaustive(one_in=4)
@KINDS
def test_a_model_of_a_local_server_answers(local, write, call, monkeypatch, kind):
    """The request has the name that the server knows, no key is needed, no proxy is used; `model:` and variable do."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    write("finder")
    server = local(kind, [calls("grep", {"pattern": "mice"}), answers("mice"), answers("yes"), answers("yes")])
    outcome = json.loads(call("finder", "What?", "--json", "--model", MODELS[kind]).stdout)
    assert (outcome["status"], outcome["answer"], outcome["model"]) == ("answered", "mice", MODELS[kind])
    assert outcome["cost_usd"] is None
    if kind == "ollama":
        assert sorted(place for place, _ in server.asked) == ["GET /api/ps", "GET /v1/models", "POST /api/show"]
    for line, variable in ((f"model: {MODELS[kind]}", "sonnet"), ("model: inherit", MODELS[kind])):
        write("finder", line)
        monkeypatch.setenv("SPECIALIST_MODEL", variable)
        assert call("finder", "What?").stdout == "yes\n"
    assert {sent.body["model"] for sent in server.requests} == {MODELS[kind].partition(":")[2]}


def usage_error(result) -> str:
    """Return the one line of a usage error."""
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "vllm"])
def test_without_a_name_the_models_are_listed(local, write, call, kind):
    """One line with what is there and exit code 2; nothing is sent to a model."""
    write("finder")
    server = local(kind, routes={"GET /v1/models": listed("a:1", "b\x1b[31m", 7, "", *(f"m{n}" for n in range(12)))})
    line = usage_error(call("finder", "What?", "--model", f"{kind}:"))
    assert f"--model {kind}: needs the name of a model; {server.url} has a:1, m0, m1" in line
    assert line.endswith("m8 and 3 more")


@pytest.mark.parametrize(
    ("model", "words"),
    [("ollama:owl", "Ollama has no model owl; get it with `ollama pull owl`"), ("vllm:owl", "vLLM has no model owl;")],
)
def test_an_unknown_name_is_a_usage_error_before_the_run(local, write, call, model, words):
    """Servers that tell which models they have are believed; the line lists these."""
    write("finder")
    local(model.partition(":")[0])
    line = usage_error(call("finder", "What?", "--model", model))
    assert words in line
    assert line.endswith(("has qwen3:8b", "has Qwen/Qwen3-8B"))


@pytest.mark.exhaustive
@KINDS
def test_where_nothing_listens_the_line_says_how_to_start_it(write, call, monkeypatch, kind):
    """A refused connection is a usage error that names the address, the command and the variable."""
    write("finder")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv(VARIABLES[kind], address)
        line = usage_error(call("finder", "What?", "--model", MODELS[kind]))
    start = {"ollama": "ollama serve", "vllm": "vllm serve", "llamacpp": "llama-server", "lmstudio": "lms server start"}
    assert f"nothing listens at {address}; start " in line
    assert start[kind] in line
    assert line.endswith(f"or set {VARIABLES[kind]}")


@pytest.mark.parametrize("value", ["http://user:secret-word@127.0.0.1:1", "ftp://x", "127.0.0.1:99999", "http://h?q=1"])
def test_an_invalid_address_is_named_without_its_secrets(write, call, monkeypatch, value):
    """The variable is named, and no password in it; without the package of the API the line says what to install."""
    write("finder")
    monkeypatch.setenv("VLLM_BASE_URL", value)
    line = usage_error(call("finder", "What?", "--model", "vllm:x"))
    assert "VLLM_BASE_URL: " in line
    assert "secret-word" not in line
    monkeypatch.setitem(sys.modules, "openai", None)
    assert usage_error(call("finder", "What?", "--model", "ollama:x")).endswith(f"; {adding('openai')}")


def test_a_key_goes_to_its_server_and_no_question_away_by_a_redirect(local, write, call, monkeypatch):
    """VLLM_API_KEY is sent, other keys are not; a server on loopback cannot pass the question on."""
    write("finder")
    server = local("vllm", [answers("yes")])
    monkeypatch.setenv("VLLM_API_KEY", " my-own-key\n")
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    assert call("finder", "What?", "--model", MODELS["vllm"]).stdout == "yes\n"
    sent = [headers["authorization"] for _, headers in server.asked] + [server.requests[0].headers["authorization"]]
    assert sent == ["Bearer my-own-key"] * 2
    write("finder")
    other, server = local("vllm"), local("ollama")
    away = {"location": f"{other.base_url}/chat/completions"}
    server.routes["POST /v1/chat/completions"] = lambda wire: wire.send(307, b"{}", headers=away)
    result = call("finder", "What?", "--model", MODELS["ollama"])
    assert (result.exit_code, other.requests) == (3, [])
    assert f"redirects to {other.base_url.removesuffix('/v1')} (HTTP 307)" in result.stderr


@pytest.mark.exhaustive
def test_a_local_model_has_no_price_whatever_its_name(local, write, call):
    """A model with the name of one that is sold costs nothing that could be known; a cost limit is refused."""
    write("finder")
    routes = {"GET /v1/models": listed("gpt-5")}
    local("vllm", [answers("yes")], routes)
    assert json.loads(call("finder", "What?", "--json", "--model", "vllm:gpt-5").stdout)["cost_usd"] is None
    line = usage_error(call("finder", "What?", "--cost-limit", "1", "--model", "vllm:gpt-5"))
    assert "the price of vllm:gpt-5 is unknown" in line


def test_show_says_whether_the_server_of_a_file_is_trusted(write, monkeypatch, tmp_path):
    """The line names the address; with the variable, no trust is needed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    write("own", "model: ollama:qwen3")
    shown = specialists("show", "own").stdout
    assert "not trusted: it would send the question and the tool results to Ollama at http://127.0.0.1:11434" in shown
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:11434")
    assert "trusted" not in specialists("show", "own").stdout
