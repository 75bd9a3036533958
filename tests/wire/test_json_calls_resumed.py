"""Runs whose calls are JSON are stored, resumed, shown and reported like all others."""

import pytest

from run_specialist.loop.run import Run
from run_specialist.record.journal import Received
from run_specialist.views.report import report
from tests.journals import Notebook, keep, load
from tests.wire.json_mode import written
from tests.wire.resumed_requests import CHAT, LOOKER, MESSAGES, Endpoint, message_bytes, prefix

pytestmark = pytest.mark.anyio

IN_JSON = LOOKER.model_copy(update={"tool_calls": "json"})
LOOKS = [written("look", query=query, part=None) for query in "abc"]
SOME, MORE = (written("respond", answer=answer, evidence=None, gaps=None) for answer in ("some", "more"))
CUT = '{"call": {"tool": "look", "arguments": {"query": "aaa'


@pytest.fixture(params=[MESSAGES, CHAT])
def endpoint(request, messages_api, chat_api, tmp_path):
    """Return a function that starts an endpoint of each API with a script of texts."""

    def start(*texts):
        one = Endpoint(request.param, None, tmp_path, stream=False)
        at_limit = {"stop_reason": "max_tokens"} if request.param == MESSAGES else {"finish_reason": "length"}
        script = [one.say.says(text, **(at_limit if text == CUT else {})) for text in texts]
        one.api = (messages_api if request.param == MESSAGES else chat_api)(script)
        return one

    return start


async def test_g8_a_run_is_resumed_with_the_bytes_that_were_sent(endpoint):
    """After a limit, the resumed request begins with all that was sent before, and the union is whole again."""
    one = endpoint(LOOKS[0], SOME, LOOKS[1], MORE)
    await one.ask(IN_JSON, tool_calls_limit=1)
    _, outcome = await one.resume(tool_calls_limit=6)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "more", 2)
    for before, after in zip(one.requests, one.requests[1:], strict=False):
        assert message_bytes(after).startswith(message_bytes(before))
        assert after.messages[0] == before.messages[0]
    assert '"enum":["look"]' not in one.requests[1].raw.decode()
    assert '"enum":["look"]' in one.requests[2].raw.decode()
    assert "The budget was refreshed" in str(one.requests[2].messages[-1]["content"])


async def stop_after_the_first_reply(one):
    """Store a run as if its process had died when the first reply had arrived."""
    notebook = Notebook()

    async def begin(runner, watch):
        del watch
        run = await runner.prepare(IN_JSON, "What is known?")
        return Run(run.job, journal=notebook)

    await one.work(begin)
    await keep(f"sqlite:///{one.folder}/runs.db", notebook.until(Received, 1))


async def test_g8_a_pending_reply_is_acted_upon_before_any_request(endpoint):
    """A call that arrived before the process died gets its result on resume, and is not paid for again."""
    one = endpoint(LOOKS[0], SOME, MORE)
    await stop_after_the_first_reply(one)
    _, outcome = await one.resume()
    assert (outcome.answer, outcome.tool_calls.used) == ("more", 1)
    assert prefix(one.requests[2]) == prefix(one.requests[1])
    assert message_bytes(one.requests[2]).startswith(message_bytes(one.requests[0]))
    assert "Result of look:\\nNot finished: the process ended" in one.requests[2].raw.decode()


async def test_g8_a_pending_answer_needs_no_request(endpoint):
    """An answer that arrived before the process died is the outcome on resume."""
    one = endpoint(SOME)
    await stop_after_the_first_reply(one)
    _, outcome = await one.resume()
    assert (outcome.status, outcome.answer, len(one.requests)) == ("answered", "some", 1)


async def test_g8_a_run_whose_reply_was_cut_is_resumed_with_the_same_history(endpoint):
    """The line that asked for a shorter reply is part of the history, also after the run was resumed."""
    one = endpoint(CUT, LOOKS[0], SOME, MORE)
    await one.ask(IN_JSON)
    _, outcome = await one.resume("And?")
    assert outcome.answer == "more"
    _, again, *_, last = one.requests
    assert "Repeat it, much shorter." in str(again.messages[-1])
    assert message_bytes(last).startswith(message_bytes(again))


async def test_g8_transcript_and_report_show_calls_and_results(endpoint):
    """The stored messages contain calls and results, not their JSON, and the report names the call."""
    one = endpoint(LOOKS[0], SOME)
    run, _ = await one.ask(IN_JSON)
    kinds = [block["type"] for message in run.transcript for block in message.blocks]
    assert kinds == ["text", "tool_use", "tool_result", "tool_use", "tool_result"]
    stored = load(f"sqlite:///{one.folder}/runs.db")
    assert [call.call.name for call in stored.calls] == ["look"]
    assert "note on" in report(stored)
