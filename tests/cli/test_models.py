"""The model of a run: choice, key, errors, `--require-model`, `openai-loop`, requests at once, server tools."""

import json

import pytest

from run_specialist.providers.admission import Gate
from run_specialist.providers.choose import make_provider
from tests.cli.specialists_command import call as specialists
from tests.wire.chat.replies import calls, says
from tests.wire.server_tool_runs import FOUND, PAGE, fetch, search
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers, tool_use
from tests.wire.simulator.replies import says as replies_with

CHAT = ("--model", "openai:some-model")
OPUS, SONNET, HAIKU, FABLE = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2"


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("flag", "file", "environment", "model"),
    [
        ("opus", "haiku", "fable", OPUS),
        ("claude-opus-4-8", "haiku", None, "claude-opus-4-8"),
        (None, "Haiku", "fable", HAIKU),
        (None, "inherit", "fable", FABLE),
        (None, None, "fable", FABLE),
        (None, "inherit", None, SONNET),
        (None, None, None, SONNET),
        ("offline", "haiku", "fable", "offline"),
        (None, "offline", "fable", "offline"),
    ],
)
def test_the_model_comes_from_flag_file_environment_in_this_order(
    api, write, call, monkeypatch, flag, file, environment, model
):
    """The order is flag, file (unless `inherit`), SPECIALIST_MODEL, then `sonnet` with a base URL, else offline."""
    write("finder", *([f"model: {file}"] if file else []))
    if environment:
        monkeypatch.setenv("SPECIALIST_MODEL", environment)
    simulator = api([answers("yes")] * (model != "offline"))
    outcome = json.loads(call("finder", "What?", "--json", *(["--model", flag] if flag else [])).stdout)
    assert (outcome["model"], {sent.body["model"] for sent in simulator.requests} or {"offline"}) == (model, {model})
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    if flag is environment is None:
        result = call("finder", "What do owls eat?", "--json")
        outcome = json.loads(result.stdout)
        offline = "offline" if file in {None, "inherit"} else model
        assert (result.exit_code, outcome["model"], outcome["status"]) == (0, offline, "answered")
        assert "Owls eat mice at night." in outcome["answer"]


@pytest.mark.parametrize(
    ("flag", "file", "environment", "api", "other"),
    [
        ("sonnet", None, "", "ANTHROPIC", "OPENAI"),
        (None, "haiku", "", "ANTHROPIC", "OPENAI"),
        (None, None, "claude-opus-4-8", "ANTHROPIC", "OPENAI"),
        ("openai:some-model", None, "", "OPENAI", "ANTHROPIC"),
    ],
)
def test_a_model_without_credentials_names_three_remedies(
    write, call, monkeypatch, flag, file, environment, api, other
):
    """Exit code 2 and one line with a key, a base URL and offline mode; credentials for another API do not count."""
    write("finder", *([f"model: {file}"] if file else []))
    monkeypatch.setenv("SPECIALIST_MODEL", environment)
    monkeypatch.setenv(f"{other}_API_KEY", "a-key")
    result = call("finder", "What?", *(["--model", flag] if flag else []))
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert (flag or file or environment) in line
    assert all(way in line for way in (f"{api}_API_KEY", f"{api}_BASE_URL", "--model offline"))


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


REFUSALS = [
    (faults.unauthorised(), "the API answered 401: invalid x-api-key; check ANTHROPIC_API_KEY"),
    (faults.not_found(), "the API answered 404: model: claude-none; check --model and ANTHROPIC_BASE_URL"),
    (
        faults.html(),
        "answered with text/html, not JSON; does ANTHROPIC_BASE_URL point to a Messages-compatible server?",
    ),
    (faults.invalid("model: no such\nthing"), "the API answered 400: model: no such"),
]


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("fault", "said", "flags"),
    [*((*refusal, []) for refusal in REFUSALS), *((*REFUSALS[0], [flag]) for flag in ("--quiet", "--json"))],
)
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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("model", "api"), [("sonnet", "ANTHROPIC"), ("openai:some-model", "OPENAI")])
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no-url"], ids=["closed", "no URL"])
def test_x_12_an_unreachable_endpoint_is_one_line(write, call, monkeypatch, model, api, url):
    """Exit code 3 and one line with the URL and the variable that sets it."""
    write("finder")
    monkeypatch.setenv(f"{api}_BASE_URL", url)
    result = call("finder", "What?", "--model", model)
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert "cannot reach" in line
    assert url in line
    assert f"{api}_BASE_URL" in line


def test_an_unusable_model_address_or_key_is_one_line(api, write, call, monkeypatch):
    """No id, an address that is no URL, a newline in a key: one line, without the key; blank is the vendor's URL."""
    write("finder")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[")
    broken = call("finder", "What?", *CHAT)
    assert (broken.exit_code, broken.stderr.count("\n"), "OPENAI_BASE_URL" in broken.stderr) == (3, 1, True)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    result = call("finder", "What?", "--model", "openai:")
    assert (result.exit_code, result.stdout, "the model id is missing" in result.stderr) == (2, "", True)
    for url in (None, "", " "):
        monkeypatch.setenv("OPENAI_BASE_URL", url) if url is not None else monkeypatch.delenv("OPENAI_BASE_URL")
        assert str(make_provider("openai:some-model").client.base_url) == "https://api.openai.com/v1/"
    api([])
    monkeypatch.setenv("ANTHROPIC_API_KEY", "my-own\nkey")
    result = call("finder", "What?")
    assert (result.exit_code in (2, 3), result.stderr.count("\n")) == (True, 1)
    assert ("ANTHROPIC_API_KEY" in result.stderr, "my-own" in result.stderr) == (True, False)


HOW = "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or name a model, e.g. sonnet, openai:ID or ollama:NAME"
ANOTHER = "name another one, e.g. sonnet, openai:ID or ollama:NAME"
JUDGES = "the answer is a judgement (offline: refuse) and needs a model, but"
QUESTION = "What do owls eat?"


@pytest.fixture
def refused(call, store):
    """Return a function that calls the command, which must refuse on one line, and returns the line."""

    def refuse(*arguments: str) -> str:
        result = call("finder", QUESTION, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert not store.exists()
        (line,) = result.stderr.splitlines()
        return line.partition(": ")[2]

    return refuse


def test_a_flag_and_a_variable_refuse_to_answer_offline(write, refused, monkeypatch):
    """One line says how to get a model, and names the variable, of which an unclear value counts as yes."""
    write("finder")
    for flags in (["--require-model"], ["--require-model", "--json"]):
        assert refused(*flags) == f"finder: a model is required, but no model is configured; {HOW}"
    for value in ("1", "Yes", "certainly"):
        monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", value)
        assert refused() == f"finder: a model is required (SPECIALIST_REQUIRE_MODEL), but no model is configured; {HOW}"


def test_a_named_offline_is_refused_with_its_place(write, refused, monkeypatch):
    """The line says where, and does not advise to set a key; `offline: refuse` needs no flag, and has its line."""
    path = write("finder", "offline: refuse")
    assert refused() == f"{path}:4:1: {JUDGES} no model is configured; {HOW}"
    assert "the model of this run is offline" in refused("--model", "offline")
    write("finder", "model: offline")
    for flags, why in (([], "the model in its file is offline"), (["--model", "offline"], "the model of this run is")):
        assert refused("--require-model", *flags).startswith(f"finder: a model is required, but {why}")
    monkeypatch.setenv("SPECIALIST_MODEL", "offline")
    for line in ([], ["model: inherit"]):
        write("finder", *line)
        assert refused("--require-model") == f"finder: a model is required, but SPECIALIST_MODEL is offline; {ANOTHER}"


@pytest.mark.exhaustive
def test_resume_refuses_too(write, call, store):
    """`resume --require-model` refuses a run that would go on offline, and leaves it as it was."""
    write("finder", "tool_calls_limit: 1")
    assert call("finder", QUESTION).exit_code == 0
    before = store.read_bytes()
    result = specialists("resume", "last", "--tool-calls-limit", "9", "--require-model")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a model is required, but the run is offline; name a model to resume it" in result.stderr
    assert store.read_bytes() == before
    assert specialists("resume", "last", "--tool-calls-limit", "9").exit_code == 0


def test_every_offline_outcome_says_that_no_model_judged(write, call, store):
    """The outcome and the `finished` event have a warning; on standard error the label alone says it, once."""
    write("finder")
    result = call("finder", QUESTION, "--json")
    (warning,) = json.loads(result.stdout)["warnings"]
    assert warning == "no model judged: this ran offline, by ranked search and verbatim quotes"
    assert [line for line in result.stderr.splitlines() if "offline" in line] == [
        line for line in result.stderr.splitlines() if "answered offline, without a language model" in line
    ]
    assert "warning:" not in result.stderr
    finished = json.loads(call("finder", QUESTION, "--events").stdout.splitlines()[-1])
    assert finished["outcome"]["warnings"] == [warning]
    report = json.loads(specialists("report", "last", "--json").stdout)
    assert report["answer"]["warnings"] == [warning]


LOOP = (*CHAT, "--preset", "openai-loop")
GREP = [calls("grep", {"pattern": word}) for word in ("mice", "winter", "bats")]
REACHED = {"limit_reached": True, "limit_message": "Tool call limit reached (3). Stopping tool loop."}
ANSWER = "Owls eat mice. I stopped at three tool calls; resume or raise the limit for more."


def result(call, content):
    """Return the message with the result of a call."""
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def test_s4_1_tool_choice_is_auto_until_the_limit_and_then_none(chat, write, call):
    """A limit of 3 gives four requests and three results, compared in full; the list of tools never changes."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    simulator = chat([*GREP, says(ANSWER)])
    assert call("finder", "What do owls eat?", *LOOP).stdout == f"{ANSWER}\n"
    assert [sent.tool_choice for sent in simulator.requests] == ["auto", "auto", "auto", "none"]
    first = simulator.requests[0].body
    assert {tool["function"]["name"] for tool in first["tools"]} == {"grep", "respond"}
    varying = {"messages", "tool_choice", "max_completion_tokens"}
    fixed = [{key: value for key, value in sent.body.items() if key not in varying} for sent in simulator.requests]
    assert fixed == fixed[:1] * 4
    system, question = first["messages"]
    assert system["role"] == "system"
    assert "budget" not in system["content"]
    assert question == {"role": "user", "content": "What do owls eat?"}
    made = [message for message in simulator.requests[3].messages if message["role"] == "assistant"]
    (one,), (two,), (three,) = (message["tool_calls"] for message in made)
    nothing = "[no line matches in 3 text files; try ignore_case, a shorter pattern, or search]"
    results = [
        result(one, "notes/owls.md:3: Owls eat mice at night."),
        result(two, "notes/toads.md:3: Toads sleep in winter."),
        result(three, json.dumps({"output": nothing, **REACHED})),
    ]
    whole = [system, question, made[0], results[0], made[1], results[1], made[2], results[2]]
    assert [sent.messages for sent in simulator.requests] == [whole[:2], whole[:4], whole[:6], whole]


def test_s4_2_only_the_last_result_has_the_limit_fields(chat, write, call):
    """Skipped calls of a batch that exceeds the limit say so, and only the last result has the limit fields."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    batch = calls("grep", *({"pattern": word} for word in ("night", "winter", "bats")))
    simulator = chat([GREP[0], batch, says(ANSWER)])
    outcome = json.loads(call("finder", "What?", "--json", *LOOP).stdout)
    assert (outcome["model"], outcome["status"]) == ("openai:some-model", "landed")
    assert {sent.body["model"] for sent in simulator.requests} == {"some-model"}
    *earlier, last = simulator.requests[-1].results
    skipped = "Not run: limit reached, grep skipped."
    assert json.loads(last) == {"output": skipped, **REACHED}
    owls = "notes/owls.md:3: Owls eat mice at night."
    assert earlier == [owls, owls, "notes/toads.md:3: Toads sleep in winter."]


@pytest.fixture
def ceilings(monkeypatch):
    """The ceilings of all requests."""
    found, enter = [], Gate.enter

    def spy(gate, turn):
        found.append(turn.ceiling)
        return enter(gate, turn)

    monkeypatch.setattr(Gate, "enter", spy)
    return found


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("flag", "variable", "key", "number"),
    [(None, None, None, None), (None, None, 5, 5), (None, 4, 5, 4), (3, 4, 5, 3)],
    ids=["nothing", "config file", "variable", "flag"],
)
def test_r3_the_flag_comes_before_the_variable_before_the_file(
    call, write, api, user_file, ceilings, monkeypatch, flag, variable, key, number
):
    """As with the other options of the user."""
    write("finder")
    api([answers("mice")])
    if variable:
        monkeypatch.setenv("SPECIALIST_REQUESTS_AT_ONCE", str(variable))
    if key:
        user_file(f"requests-at-once = {key}")
    result = call("finder", QUESTION, *([f"--requests-at-once={flag}"] if flag else []))
    assert result.exit_code == 0, result.stderr
    assert set(ceilings) == {number}


@pytest.mark.parametrize("value", ["0", "-2", "true", "1.5", "'4'", "'none'"])
def test_r3_a_wrong_key_is_a_usage_error(call, write, user_file, project_file, value):
    """The line names file, line and key; a project cannot decide it, since what a key may do is its owner's matter."""
    write("finder")
    user_file(f"requests_at_once = {value}")
    result = call("finder", QUESTION)
    assert result.exit_code == 2
    assert "config.toml:1: requests_at_once: must be an integer of at least 1, got " in result.stderr
    user_file("")
    project_file("requests_at_once = 500")
    result = call("finder", QUESTION)
    assert result.exit_code == 2
    assert "SPECIALIST_REQUESTS_AT_ONCE or --requests-at-once" in result.stderr


ASKS = "tools: read, WebSearch, WebFetch"
RESPOND = tool_use("respond", {"answer": "three times"})


def test_the_option_allows_server_tools_that_the_file_names(api, write, call, store, project_file):
    """It is consent for one call; without it one line says how to allow them, and a project cannot give it."""
    write("finder", ASKS)
    unknown = answers("I do not know")
    simulator = api([replies_with(search(), FOUND, fetch(), PAGE, RESPOND), unknown, unknown], all_used=False)
    result = call("finder", "How often?", "--server-tools", "--trust", "--json")
    outcome = json.loads(result.stdout)
    assert (outcome["status"], outcome["tool_calls"]["used"]) == ("answered", 2)
    assert outcome["usage"]["web_search_requests"] == 1
    assert not [text for text in outcome["warnings"] if "WebSearch" in text or "web_search" in text]
    assert simulator.requests[0].tool_names == ["read", "respond", "web_fetch", "web_search"]
    result = call("finder", "How often?", "--trust")
    (line,) = [line for line in result.stderr.splitlines() if "WebSearch" in line]
    assert "`server_tools: true` allows that" in line
    project_file("server_tools = true")
    result = call("finder", "How often?", "--trust")
    assert "this cannot be set in a config file; use the option --server-tools" in " ".join(result.stderr.split())
    assert all("web_search" not in request.tool_names for request in simulator.requests[1:])
