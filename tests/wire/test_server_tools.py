"""Tools that the API runs itself, in runs, landings and after the fact; and the local tool that fetches pages."""

from functools import partial

import pytest

from run_specialist import prompts
from run_specialist.loop.run import Run
from run_specialist.record.journal import Returned
from run_specialist.record.messages import Usage
from run_specialist.spawning.server_tools import fetch_tool, search_tool
from run_specialist.tools import web
from run_specialist.tools.base import Tool
from run_specialist.tools.web import Downloads
from tests.journals import Notebook, keep, load
from tests.loop_jobs import LOOK
from tests.unit.tools.web_pages import replied, serving
from tests.wire.chat import replies as chat_replies
from tests.wire.connected import CHAT, MESSAGES
from tests.wire.resumed_requests import LOOKER, Endpoint
from tests.wire.server_tool_runs import BOTH, FOUND, PAGE, SEARCH, URL, asked, fetch, search, tools_of
from tests.wire.simulator import ALL_RULES, faults
from tests.wire.simulator.replies import answers, calls, cited, fetched, pauses, says, searched, thinking, tool_use
from tests.wire.specialists import noting

FIRST_LOOK = tool_use("search", {"query": "x"})


@pytest.mark.parametrize("stream", [False, True])
async def test_uses_count_and_prove_quotes(messages_api, project, stream):
    """Both tools run at the API; each use counts, and quotes are found in what can be read of the results."""
    quotes = ["Payments are retried three times.", "Retries of payments", "three tries in all"]
    evidence = [{"source": URL, "quote": quote} for quote in [*quotes, "four times"]]
    text = cited("Three times.", URL, "there are three tries in all")
    api = messages_api([says(search(), FOUND, fetch(), PAGE, text, FIRST_LOOK), answers("three", evidence=evidence)])
    done = await asked(api, project, *BOTH, "tool_calls_limit: 5", stream=stream)
    assert tools_of(api)["web_search"] == {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    assert tools_of(api)["web_fetch"]["max_content_tokens"] == 5_000
    assert api.requests[1].messages[1]["content"] == api.requests[0].content
    (result,) = api.requests[1].results.values()
    assert result.endswith("2 tool calls remaining")
    outcome = done.outcome
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 3)
    assert [one.verified for one in outcome.evidence] == [True, True, True, False]
    assert done.phases("web_search") == done.phases("web_fetch") == ["started", "finished"]


async def test_searches_are_billed(messages_api, project):
    """A search costs a cent on top of its tokens; a failed one nothing, and neither does a page."""
    failed = searched(error="too_many_requests")
    api = messages_api([says(search(), FOUND, search(), failed, fetch(), PAGE, "Three times.")])
    done = await asked(api, project, *BOTH)
    usage = done.outcome.usage
    plain = Usage(usage.input_tokens, 0, usage.cache_creation_input_tokens, usage.output_tokens)
    assert usage.web_search_requests == 1
    assert done.outcome.as_json()["usage"]["web_search_requests"] == 1
    assert done.outcome.cost_usd == pytest.approx(0.01 + done.provider.cost(plain))
    assert (done.outcome.tool_calls.used, done.outcome.tool_calls.failed) == (3, 1)


async def test_uses_beyond_the_share_of_a_request_are_skipped(messages_api, project):
    """The API refuses what exceeds `max_uses`; that counts as skipped, like a call beyond the limit."""
    api = messages_api([says(search("a"), FOUND, search("b"), FOUND, search("c"), FOUND, "Three times.")])
    done = await asked(api, project, *SEARCH, "tool_calls_limit: 10")
    assert tools_of(api)["web_search"]["max_uses"] == 2
    assert (done.outcome.tool_calls.used, done.outcome.tool_calls.skipped) == (2, 1)
    assert done.phases("web_search")[-1] == "finished"
    assert "skipped" in done.phases("web_search")


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("limit", [1, 3, 13])
@pytest.mark.parametrize("lines", [BOTH, SEARCH, ("tools: WebSearch", "server_tools: true")])
async def test_no_limit_is_exceeded_however_often_the_model_searches(messages_api, project, lines, limit):
    """A model that uses as much as each request lets it never exceeds the limit, and the tools never change."""

    def greedy(request):
        if request.tool_choice is not None:
            return answers("enough") if request.tool_choice["type"] == "tool" else says("enough")
        names = [name for name in ("web_search", "web_fetch") if name in request.tool_names]
        made = [part for name in names for part in [search(), FOUND] * 9 if name == "web_search"]
        made += [part for name in names for part in [fetch(), PAGE] * 9 if name == "web_fetch"]
        others = [FIRST_LOOK] if "search" in request.tool_names else []
        return says(*made, *others) if others else pauses(*made) if made else says("nothing")

    api = messages_api(greedy)
    done = await asked(api, project, *lines, f"tool_calls_limit: {limit}")
    assert done.outcome.tool_calls.used <= limit
    assert len({str(request.body["tools"]) for request in api.requests}) == 1
    assert done.outcome.answer == "enough"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("model", ["haiku", "sonnet"])
@pytest.mark.parametrize("landing", ["auto", "finalize"])
async def test_no_tool_of_the_api_can_run_in_a_landing(messages_api, project, model, landing):
    """Every request of a landing has a tool choice that keeps the API from its tools."""
    thought = [thinking("so")] if model == "sonnet" else []

    def script(request):
        match (request.tool_choice or {}).get("type"):
            case None:
                return says(*thought, search(), FOUND, FIRST_LOOK)
            case "tool":
                return answers("enough")
            case _:
                return says(*thought, "enough")

    api = messages_api(script)
    done = await asked(api, project, *SEARCH, "tool_calls_limit: 4", f"landing: {landing}", model=model)
    assert (done.outcome.status, done.outcome.answer, done.outcome.tool_calls.used) == ("landed", "enough", 4)
    assert done.outcome.landing.how == ("schema" if model == "sonnet" or landing == "order" else "force")
    assert all(request.tool_choice for request in api.requests[2:])


async def test_a_paused_turn_goes_on_and_lands(messages_api, project):
    """A paused turn is sent back as it came; once the limit is reached, a user message ends the pause."""
    script = [pauses(search("a"), FOUND, search("b"), FOUND), pauses(search("c"), FOUND, search("d")), answers("three")]
    api = messages_api(script)
    done = await asked(api, project, "tools: WebSearch", "server_tools: true", "tool_calls_limit: 12")
    assert api.requests[1].messages[-1] == {"role": "assistant", "content": api.requests[0].content}
    last = api.requests[2].messages
    assert last[-1]["role"] == "user"
    assert [block["type"] for block in last[-2]["content"]] == ["server_tool_use", "web_search_tool_result"]
    assert (done.outcome.status, done.outcome.tool_calls.used) == ("landed", 4)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_endpoint_that_refuses_them_is_remembered(messages_api, project, stream):
    """Refused once, the run continues with the local tool and a warning; later runs do not ask again."""
    text = "tools.1: Input tag 'web_search_20250305' found using 'type' does not match any of the expected tags"
    api = messages_api([faults.invalid(text), says("none"), says("none")])
    first = await asked(api, project, *BOTH, stream=stream, runs=2)
    assert [sorted(tools_of(api, number)) for number in range(3)] == [
        ["respond", "search", "web_fetch", "web_search"],
        ["fetch", "respond", "search"],
        ["fetch", "respond", "search"],
    ]
    warning, other = ([text for text in outcome.warnings if "web_search" in text] for outcome in first.outcomes)
    assert "does not run web_fetch and web_search itself" in warning[0]
    assert "only the Messages API runs it" in other[0]


async def test_a_page_that_cannot_be_had_is_a_failed_call(messages_api, project):
    """An error of the API's tool is a failed call, and no quote is found in it."""
    quote = {"source": URL, "quote": "url_not_accessible"}
    gone = fetched(URL, error="url_not_accessible")
    api = messages_api([says(fetch(), gone, tool_use("respond", {"answer": "nothing", "evidence": [quote]}))])
    done = await asked(api, project, *BOTH)
    assert (done.outcome.tool_calls.used, done.outcome.tool_calls.failed) == (1, 1)
    assert [one.verified for one in done.outcome.evidence] == [False]
    assert [event.text for event in done.events if event.event == "tool_call" and event.phase == "failed"] == [
        "web_fetch failed: url_not_accessible"
    ]


async def test_a_file_that_is_not_trusted_gets_neither(messages_api, project):
    """A project's file has neither tool before it was allowed, and the warnings say what it would do."""
    api = messages_api([calls("search", {"query": "x"}), answers("nothing")])
    done = await asked(api, project, *BOTH, trust=False)
    assert offered(api) == ["respond", "search"]
    assert any("bills each search; allow it once, with --trust" in text for text in done.outcome.warnings)


async def test_a_server_that_was_not_asked_to_run_tools(messages_api, project):
    """Uses that a server invents are counted and stored, odd ones too, and a spent limit ends the run."""
    odd = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": None},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [None, {"url": 3}, "x"]},
        {"type": "web_fetch_tool_result", "tool_use_id": None, "content": {"content": {"source": {"type": "text"}}}},
        {"type": "server_tool_use", "id": None, "name": None},
        {"type": "text", "text": "So.", "citations": [None, {"cited_text": 3}, {"cited_text": "said"}]},
    ]
    message = {"type": "message", "role": "assistant", "content": [*odd, *odd], "stop_reason": "pause_turn"}
    api = messages_api([faults.json_value(message), says("none")], may_refuse=ALL_RULES, all_used=False)
    done = await asked(api, project, "tools: search", "tool_calls_limit: 3")
    assert done.outcome.tool_calls.used == 4
    assert done.outcome.status in {"landed", "partial", "failed"}
    assert "internal error" not in str(done.outcome.error)


async def test_a_use_that_waits_when_the_landing_begins_is_left_out(messages_api, project):
    """The landing sends no use without a result; what the newest models bind their thinking to stays the same."""
    waiting = [thinking("so"), search(), FOUND, search("b"), FIRST_LOOK]
    api = messages_api([says(*waiting), says(thinking("hm"), FIRST_LOOK), says(thinking("well"), "enough")])
    done = await asked(api, project, *SEARCH, "tool_calls_limit: 3", model="sonnet")
    assert (done.outcome.status, done.outcome.tool_calls.used, done.outcome.answer) == ("landed", 3, "enough")
    assert [request.tool_choice for request in api.requests] == [None, {"type": "none"}, {"type": "none"}]
    kinds = [block["type"] for block in api.requests[1].messages[1]["content"]]
    assert kinds == ["thinking", "server_tool_use", "web_search_tool_result", "tool_use"]
    assert api.requests[2].messages[1] == api.requests[1].messages[1]


async def test_another_api_is_offered_the_tools_of_this_program(ask_chat):
    """Chat completions get the local tool in place of that of the API, and nothing in place of a search."""
    local = Tool("fetch", "Reads a page.", lambda url: f"page {url}")
    script = [chat_replies.calls("fetch", {"url": URL}), chat_replies.answers("x")]
    outcome, api = await ask_chat(script, tools=[search_tool(2, ()), fetch_tool(2, (), 900, local)])
    assert sorted(tool["function"]["name"] for tool in api.requests[0].body["tools"]) == ["fetch", "respond"]
    assert (outcome.answer, outcome.tool_calls.failed) == ("x", 0)


TOOLS = [LOOK, search_tool(2, ()), fetch_tool(2, (), 1_000, None)]
A_LOOK = tool_use("look", {"query": "a"})


@pytest.fixture
def endpoint(messages_api, tmp_path):
    """Return a function that starts an endpoint on the Messages API."""

    def start(script, **options):
        return Endpoint(MESSAGES, messages_api(script), tmp_path, stream=False, tools=TOOLS, **options)

    return start


def stored(one):
    """Return the newest run in the store."""
    return load(f"sqlite:///{one.folder}/runs.db")


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["haiku", "sonnet"])
async def test_a_resumed_run_sends_them_back_unchanged(endpoint, model):
    """After a failure the blocks go back as they came, a use without a result is run, and all of them count once."""
    thought = [thinking("so")] if model == "sonnet" else []
    script = [
        says(*thought, search(), FOUND, fetch(), A_LOOK),
        faults.overloaded(),
        says(*thought, PAGE, *answers("x").content),
    ]
    one = endpoint(script, model=model)
    _, failed = await one.ask()
    assert (failed.status, failed.tool_calls.used) == ("failed", 3)
    _, outcome = await one.resume()
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 3)
    assert one.requests[1].raw == one.requests[2].raw
    run = stored(one)
    assert [(call.number, call.call.name, call.turn) for call in run.calls] == [
        (1, "web_search", 1),
        (2, "look", 1),
        (3, "web_fetch", 2),
    ]
    assert outcome.usage.web_search_requests == sum(turn.reply.usage.web_search_requests for turn in run.turns) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("returned", [1, 2])
async def test_a_killed_run_counts_them_once(endpoint, returned):
    """After a crash the use counts once, calls that may have been running are not repeated, and others are run."""
    looks = [tool_use("look", {"query": word}) for word in "abc"]
    one = endpoint([says(search(), FOUND, *looks), answers("some"), answers("more")])
    one.tools = [LOOK, search_tool(1, ())]
    notebook = Notebook()

    async def begin(runner, watch):
        run = await runner.prepare(LOOKER, "What is known?", tool_calls_limit=3)
        return Run(run.job, watch=watch, journal=notebook)

    await one.work(begin)
    await keep(f"sqlite:///{one.folder}/runs.db", notebook.until(Returned, returned))
    _, outcome = await one.resume(tool_calls_limit=9)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "more", 4)
    results = [text.split("\n")[0] for text in one.requests[2].results.values()]
    ended = prompts.PROCESS_ENDED.format(tool="look")
    assert results.count(ended) == 3 - returned
    assert results[2] == "note on 'c', part 0"
    assert one.requests[2].messages[1] == one.requests[1].messages[1]


async def test_a_question_after_a_pause_leaves_the_open_use_out(endpoint):
    """The API refuses a use without a result in front of a user's text, so it is left out; its pairs stay."""
    script = [pauses(search(), FOUND, search("b")), faults.overloaded(), answers("some")]
    one = endpoint(script)
    await one.ask()
    _, outcome = await one.resume("And else?")
    assert outcome.status == "answered"
    assert [block["type"] for block in one.requests[2].messages[1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
    ]


async def test_a_fork_to_another_api_leaves_them_out(endpoint, chat_api, tmp_path):
    """Another API gets the texts and its own calls, and a note; the run continues."""
    one = endpoint([says("I search.", search(), FOUND, A_LOOK), answers("x")])
    source, _ = await one.ask()
    other = Endpoint(CHAT, chat_api([chat_replies.answers("y")]), tmp_path, stream=False, tools=[LOOK])
    _, outcome = await other.work(lambda runner, watch: runner.fork(source.run_id, None, at=1, watch=watch, force=True))
    assert outcome.answer == "y"
    assert "srvtoolu" not in other.requests[0].raw.decode()
    assert "encrypted" not in other.requests[0].raw.decode()
    assert any("parts of the replies" in warning for warning in outcome.warnings)
    assert prompts.other_model("claude-haiku-5-5") in str(other.requests[0].messages)


async def test_a_summary_has_what_can_be_read_of_them(endpoint):
    """A summary replaces use and result together; the encrypted content is never sent to be summarized."""
    requests = []

    script = [*(says(search(word), FOUND, tool_use("look", {"query": word})) for word in "abc"), answers("some")]

    def notes(request):
        requests.append(request)
        return says("- payments are retried (a)")

    one = endpoint(noting(notes, script))
    one.tools = [Tool("look", "Looks.", lambda query: f"note on {query} {'x' * 19_000}"), *TOOLS[1:]]
    small = LOOKER.model_copy(update={"summarize_at": 12_000})
    _, outcome = await one.ask(small)
    assert outcome.status == "answered"
    assert requests
    asked = " ".join(request.raw.decode() for request in requests)
    assert "Retries of payments" in asked
    assert "encrypted_content" not in asked
    last = one.requests[-1].raw.decode()
    assert "encrypted_content" not in last
    assert "web_search" in last


async def test_a_raised_limit_lets_the_api_go_on(endpoint):
    """After a landing a higher limit offers the same tools again, and keeps their share of it in reserve."""
    turn = says(search(), FOUND, A_LOOK)
    one = endpoint([turn, turn, answers("x"), turn, answers("y")])
    _, landed = await one.ask(tool_calls_limit=6)
    assert (landed.status, landed.tool_calls.used) == ("landed", 4)
    _, outcome = await one.resume(tool_calls_limit=9)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("landed", "y", 6)
    assert len({str(request.body["tools"]) for request in one.requests}) == 1


async def test_the_input_of_the_servers_own_steps_is_not_the_size_of_the_context(endpoint):
    """The usage of a reply with tools of the API counts its input several times, which begins no summary."""
    many = {"input_tokens": 90_000}
    one = endpoint([says(A_LOOK), says(search(), FOUND, A_LOOK, usage=many), answers("some")])
    _, outcome = await one.ask(LOOKER.model_copy(update={"summarize_at": 20_000}))
    assert outcome.status == "answered"
    assert len(one.requests) == 3


async def test_secrets_in_pages_are_masked_in_the_record(endpoint):
    """The blocks go back as they came; the record of the call has no secret."""
    token = "ghp_" + "a1B2" * 9
    page = fetched(URL, f"The token is {token}.")
    one = endpoint([says(fetch(), page, A_LOOK), answers("some")])
    await one.ask()
    (call, _) = stored(one).calls
    assert call.whole == f"{URL}:\n\nThe token is [redacted]."
    assert token in one.requests[1].raw.decode()


FETCH_PAGE = replied(b"# Retries\n\nPayments are retried three times.\n")


def offered(api):
    """Return the names of the tools in the first request."""
    return [tool["name"] for tool in api.requests[0].body["tools"]]


async def test_a_page_is_read_and_its_quote_is_verified(messages_api, project, monkeypatch):
    """The page is a tool result that counts like any other, and a quote from it is found."""
    monkeypatch.setattr(web, "Downloads", partial(Downloads, may_connect=bool))
    lines = ("tools: search, WebFetch", "tool_calls_limit: 2", "evidence: require")
    async with serving(FETCH_PAGE) as pages:
        quote = {"source": pages.url(), "quote": "Payments are retried three times."}
        api = messages_api([calls("fetch", {"url": pages.url()}), answers("three times", evidence=[quote])])
        outcome = (await asked(api, project, *lines)).outcome
    assert offered(api) == ["fetch", "respond", "search"]
    (result,) = api.requests[1].results.values()
    assert "Payments are retried three times." in result
    assert result.endswith("1 tool call remaining")
    assert (outcome.status, [one.verified for one in outcome.evidence]) == ("answered", [True])


async def test_a_page_inside_is_an_error_for_the_model(messages_api, project):
    """A model that requests an internal address reads the reason for the refusal, and continues."""
    async with serving(FETCH_PAGE) as pages:
        api = messages_api([calls("fetch", {"url": pages.url()}), answers("nothing")])
        outcome = (await asked(api, project, "tools: search, fetch")).outcome
    assert pages.requests == []
    assert "its address 127.0.0.1 is not public" in str(api.requests[1].results)
    assert outcome.tool_calls.failed == 1


async def test_a_file_that_is_not_trusted_runs_without_it(messages_api, project):
    """Without trust the tool is not in the requests, and the outcome says how to allow it."""
    api = messages_api([calls("search", {"query": "payments"}), answers("nothing")])
    outcome = (await asked(api, project, "tools: search, fetch", trust=False)).outcome
    assert offered(api) == ["respond", "search"]
    assert any("`fetch` is not offered" in warning and "--trust" in warning for warning in outcome.warnings)
