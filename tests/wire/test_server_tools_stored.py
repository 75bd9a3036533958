"""Runs with tools of the API after the fact: resumed, forked, replayed, summarized, and shown."""

import pytest

from run_specialist import prompts
from run_specialist.loop.run import Run
from run_specialist.record.journal import Returned
from run_specialist.spawning.server_tools import fetch_tool, search_tool
from run_specialist.store.stored import transcript_rows
from run_specialist.tools.base import Tool
from tests.journals import Notebook, keep, load
from tests.loop_jobs import LOOK
from tests.wire.chat import replies as chat_replies
from tests.wire.replayed_runs import RecordedRuns
from tests.wire.resumed_requests import CHAT, LOOKER, MESSAGES, Endpoint, check_continued
from tests.wire.server_tool_runs import BOTH, FOUND, PAGE, URL, fetch, search
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers, fetched, pauses, says, thinking, tool_use
from tests.wire.specialists import noting

pytestmark = pytest.mark.anyio
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


async def test_a_fork_with_the_same_model_repeats_the_bytes(endpoint):
    """A fork sends the same bytes; its uses count like the copied calls."""
    one = endpoint([says(search(), FOUND, A_LOOK), says(search(), FOUND, A_LOOK), answers("x"), answers("y")])
    source, _ = await one.ask()
    _, outcome = await one.work(lambda runner, watch: runner.fork(source.run_id, None, at=1, watch=watch))
    assert one.requests[3].raw == one.requests[1].raw
    check_continued(one, one.requests[0], one.requests[3])
    assert (outcome.answer, outcome.tool_calls.used) == ("y", 2)


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


async def test_a_replay_needs_neither_network_nor_trust(messages_api, project):
    """The replies contain what the API has run, so a run with its tools is replayed like any other."""
    runs = RecordedRuns.of(MESSAGES, project, messages_api)
    runs.write("tool_calls_limit: 6", *BOTH[1:], "tools: read, WebSearch, WebFetch")
    quote = {"source": URL, "quote": "Payments are retried three times."}
    script = [says(search(), FOUND, fetch(), PAGE, *runs.read().content), answers("three", evidence=[quote])]
    run = await runs.record(*script, trust=True)
    replayed = await runs.replay(run)
    assert replayed.difference is None, replayed.difference
    assert replayed.outcome is not None
    assert [one.verified for one in replayed.outcome.evidence] == [True]
    again = await runs.replay_file(await runs.save(run))
    assert again.difference is None


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


async def test_the_transcript_shows_calls_and_results(endpoint):
    """The transcript of a stored run has a row for each use and for what can be read of its result."""
    one = endpoint([says(search(), FOUND, fetch(), PAGE, *answers("x").content)])
    await one.ask()
    rows = [(row["kind"], row.get("name"), row.get("content")) for row in transcript_rows(stored(one))[1:5]]
    assert rows == [
        ("tool_call", "web_search", None),
        ("tool_result", "web_search", f"Retries of payments\n{URL}"),
        ("tool_call", "web_fetch", None),
        ("tool_result", "web_fetch", f"{URL}:\n\nPayments are retried three times."),
    ]


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
