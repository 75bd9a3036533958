"""A run that was stopped after its turn, on both APIs with the real SDKs: no stored reply is requested twice."""

import asyncio

import pytest

from run_specialist.loop.retries import Retries
from run_specialist.record.outcome import Exit
from tests.journals import load
from tests.wire.chat import faults as chat_faults
from tests.wire.resumed_requests import CHAT, MESSAGES, Endpoint, check_continued, look, message_bytes
from tests.wire.simulator import Gate, faults

pytestmark = pytest.mark.anyio


class Held:
    """A script whose second reply is held back until a gate opens."""

    def __init__(self, *script):
        self.gate = Gate()
        self._script = list(script)
        self._asked = 0

    def __call__(self, _request):
        """Return the next reply."""
        self._asked += 1
        if self._asked == 2:
            self.gate.reached.set()
            self.gate.opened.wait(60)
        return self._script.pop(0)

    def stopping(self, *stops):
        """Return what happens while the second request is under way: the run is stopped, then it is answered.

        stops: `after_turn` of each call of `abort`.
        """

        async def midway(run):
            await asyncio.to_thread(self.gate.wait_for_request)
            for after_turn in stops:
                run.abort(after_turn=after_turn)
            self.gate.open()

        return midway


@pytest.fixture(params=[MESSAGES, f"{MESSAGES}-stream", CHAT, f"{CHAT}-stream"])
def endpoint(request, messages_api, chat_api, tmp_path):
    """Return a function that starts an endpoint on either API, streamed or not, with one script for all processes."""
    kind, _, stream = request.param.partition("-")

    def start(make_script, **options):
        made = Endpoint(kind, None, tmp_path, bool(stream), **options)
        made.script = make_script(made.say)
        made.api = (messages_api if kind == MESSAGES else chat_api)(made.script)
        return made

    return start


@pytest.mark.exhaustive(one_in=3)
async def test_the_turn_under_way_is_stored_and_not_paid_for_again(endpoint):
    """The reply that was requested arrives, its calls are run, and the resumed run continues after their results."""
    one = endpoint(lambda say: Held(look(say, "a"), look(say, "b", "c"), say.answers("mice")))
    _, first = await one.ask(midway=one.script.stopping(True))
    assert (first.status, first.exit_code, first.tool_calls.used) == ("aborted", Exit.INTERRUPTED, 3)
    assert [sent.status for sent in one.requests] == [200, 200]
    kept = load(f"sqlite:///{one.folder}/runs.db")
    assert (kept.pending, [call.is_error for call in kept.calls]) == (None, [False] * 3)
    _, again = await one.resume()
    assert (again.status, again.answer, len(one.requests)) == ("answered", "mice", 3)
    assert again.limits["turns"].used == 3
    assert "note on 'c'" in str(one.requests[2].messages)
    check_continued(one, one.requests[1], one.requests[2])


@pytest.mark.exhaustive(one_in=3)
async def test_an_answer_under_way_is_the_answer(endpoint):
    """An answer that was requested before the stop ends the run as answered, so that nothing is to be resumed."""
    one = endpoint(lambda say: Held(look(say, "a"), say.answers("mice")))
    _, outcome = await one.ask(midway=one.script.stopping(True))
    assert (outcome.status, outcome.answer, outcome.exit_code) == ("answered", "mice", Exit.OK)


@pytest.mark.exhaustive(one_in=3)
async def test_a_second_abort_cuts_the_request(endpoint):
    """An abort without waiting does not wait for the reply; the resumed run requests it again."""
    one = endpoint(lambda say: Held(look(say, "a"), look(say, "b"), say.answers("mice")))
    _, first = await one.ask(midway=one.script.stopping(True, False))
    assert (first.status, first.tool_calls.used, first.limits["turns"].used) == ("aborted", 1, 1)
    _, again = await one.resume()
    assert (again.status, len(one.requests)) == ("answered", 3)
    assert message_bytes(one.requests[2]) == message_bytes(one.requests[1])


@pytest.mark.exhaustive(one_in=3)
async def test_a_busy_endpoint_is_not_asked_again(endpoint, monkeypatch):
    """A request that waits for its retry is abandoned immediately; the resumed run sends it."""
    waiting = asyncio.Event()

    async def forever(seconds):
        waiting.set()
        await asyncio.Event().wait()

    async def midway(run):
        await waiting.wait()
        run.abort(after_turn=True)

    def script(say):
        return [
            look(say, "a"),
            (faults if "simulator" in say.__name__ else chat_faults).rate_limited(9),
            say.answers("b"),
        ]

    one = endpoint(script, retries=2)
    with monkeypatch.context() as patched:
        patched.setattr(Retries, "sleep", staticmethod(forever))
        _, first = await one.ask(midway=midway)
    assert (first.status, first.error_kind, len(one.requests)) == ("aborted", None, 2)
    _, again = await one.resume()
    assert (again.status, len(one.requests)) == ("answered", 3)
    assert message_bytes(one.requests[2]) == message_bytes(one.requests[1])
