"""Text that the model has already produced is in the outcome, however the run ends."""

import asyncio

import pytest

from run_specialist.budget import Kind
from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.loop.run import Run
from run_specialist.providers.base import Delta
from run_specialist.record.messages import Stop
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls, says

pytestmark = pytest.mark.anyio

GATHERED = calls(("respond", {"answer": "What was gathered."}), first_id=5)
HALF = calls(("respond", {"answer": "Half of wh"}), first_id=6, stop=Stop.TRUNCATED)


@pytest.mark.parametrize(
    "then",
    [ProviderError("the API answered 500"), says("", Stop.REFUSED), RuntimeError("a bug"), ContextExceeded("too long")],
    ids=["error", "refused", "bug", "full"],
)
async def test_x_12_an_invalid_answer_is_kept_if_its_correction_fails(then, tmp_path):
    """An answer that does not fit the schema is kept if the request to correct it fails."""
    schema = AnswerSchema.load({"type": "object"}, tmp_path)
    outcome = await outcome_of(job(ScriptedProvider([GATHERED, then]), answer_schema=schema))
    assert outcome.status in {"failed", "partial"}
    assert "What was gathered." in outcome.answer


async def test_x_6_a_cut_answer_is_kept_if_the_retry_fails():
    """A cut answer is kept if the retry with a larger token limit fails."""
    outcome = await outcome_of(job(ScriptedProvider([HALF, ProviderError("gone")])))
    assert (outcome.status, outcome.exit_code) == ("failed", 3)
    assert "Half of wh" in outcome.answer


class EndlessReplyProvider(ScriptedProvider):
    """A provider that streams some text and never ends."""

    def open(self, opening, watch=None):
        """Remember who watches."""
        self.watch = watch
        return super().open(opening, watch)

    async def ask(self, request):
        """Stream the beginning of an answer."""
        for piece in ('{"answer": "Owls ', "eat mice, and th"):
            self.watch(Delta(piece, tool="respond"))
        await asyncio.Event().wait()


async def test_x_14_an_answer_streaming_at_the_time_limit_is_kept():
    """If time runs out during the landing, the partially streamed answer becomes the salvage."""
    made = job(EndlessReplyProvider([]), limits={Kind.TIME: 0.2})
    outcome = await Run(made, watch=lambda delta: None).outcome()
    assert outcome.status == "partial"
    assert "Owls eat mice, and th" in outcome.answer


async def test_s3_6_an_answer_streaming_at_an_abort_is_kept():
    """If the run is aborted during an answer (Ctrl-C), the partially streamed text is kept."""
    run = Run(job(EndlessReplyProvider([])), watch=lambda delta: run.abort() if "and th" in delta.text else None)
    outcome = await run.outcome()
    assert outcome.status == "aborted"
    assert "Owls eat mice, and th" in outcome.answer


class Unspeakable(Exception):
    """An error that raises when it is converted to text."""

    def __repr__(self):
        """Fail again."""
        raise ValueError("no words")


def raises(executed):
    """Fail with an exception whose text raises."""
    raise Unspeakable


def no_json(executed):
    """Return a value that is not JSON."""
    return {"x": object()}


def no_text(executed):
    """Return what cannot be written."""

    class Line:
        def __str__(self):
            raise ValueError("no words")

    return Line()


@pytest.mark.parametrize("augmenter", [raises, no_json, no_text])
async def test_s3_3_an_augmenter_never_damages_the_result(augmenter):
    """Text from an augmenter is dropped or made printable; the result and the countdown after it are complete."""
    provider = ScriptedProvider([calls(("look", {"query": "a"})), says("done")])
    made = job(provider, 2, augmenters=[augmenter, *job(provider).augmenters])
    outcome = await outcome_of(made)
    (result,) = results(provider.requests[1].messages[-1])
    assert "note on 'a', part 0" in result
    assert "1 tool call remaining" in result
    assert outcome.status == "answered"


async def test_x_14_a_tool_that_ignores_cancellation_is_abandoned():
    """A tool that ignores its cancellation is abandoned at its timeout, and its later result is ignored."""
    done = asyncio.Event()

    async def stubborn(query: str) -> str:
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    provider = ScriptedProvider([calls(("look", {"query": "a"})), GATHERED])
    made = job(provider, tools=[Tool("look", "Look.", stubborn)], limits={Kind.TIME: 0.4})
    outcome = await outcome_of(made)
    done.set()
    assert (outcome.status, outcome.answer) == ("landed", "What was gathered.")
    assert results(provider.requests[1].messages[-1])[0].startswith("look failed: no result within")


async def test_x_8_a_full_context_shortens_the_longest_new_results():
    """If the context is full, the longest new results are shortened, short ones are kept, and the run lands."""
    tool = Tool("look", "Look.", lambda query: query * 3_000)
    turn = calls(("look", {"query": "a"}), ("look", {"query": ""}))
    provider = ScriptedProvider([turn, ContextExceeded("too long"), GATHERED])
    outcome = await outcome_of(job(provider, tools=[tool]))
    assert results(provider.requests[2].messages[-1]) == [f"{'a' * 2_000}\n[truncated]", "(no output)"]
    assert (outcome.status, outcome.landing.reason, LOOK.name) == ("landed", "tokens", "look")
