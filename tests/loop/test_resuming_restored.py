"""State restored on resume: request sizes, the last text, warnings and the effort."""

from dataclasses import replace

import pytest

from run_specialist.errors import ProviderError
from run_specialist.record.messages import Usage
from tests.loop.stored_replies import ANSWER
from tests.scripted_provider import calls, says

pytestmark = pytest.mark.anyio
LOOKS = calls(("look", {"query": "1"}))
DOWN = ProviderError("the API is down")


@pytest.mark.parametrize("limit", [{"total_tokens_limit": 3_000}, {"cost_limit": 0.035}], ids=str)
async def test_x_14_the_largest_earlier_request_is_reserved_for_the_landing(desk, limit):
    """The landing reserve follows the largest earlier request: the resumed run lands immediately, within its limit."""
    await desk.ask(replace(LOOKS, usage=Usage(1_000, 0, 0, 5)), DOWN)
    again = await desk.go_on(replace(ANSWER, usage=Usage(1_000, 0, 0, 5)), **limit)
    assert [asked.choice for asked in again.requests] == ["respond"]
    assert again.outcome.status == "landed"
    assert again.outcome.warnings == ()


async def test_x_12_the_salvage_includes_text_of_an_earlier_segment(desk):
    """If the API fails again, the salvage includes the model's text and the results of the earlier segment."""
    await desk.ask(replace(LOOKS, content=({"type": "text", "text": "Owls, I think."}, *LOOKS.content)), DOWN)
    again = await desk.go_on(DOWN)
    assert again.outcome.status == "failed"
    assert "Owls, I think." in again.outcome.answer
    assert "note on '1', part 0" in again.outcome.answer
    assert [one.verified for one in again.outcome.evidence] == [True]


async def test_s2_6_a_history_that_is_too_long_is_summarised_before_the_first_request(desk):
    """A history that is too long is summarized before the first request, going by the last reply's token count."""
    large = replace(calls(("look", {"query": "2"}), first_id=2), usage=Usage(60_000, 0, 0, 5))
    await desk.ask(LOOKS, large, DOWN)
    again = await desk.go_on(says("notes"), ANSWER, summarize_at=50_000)
    told = [event.event for event in again.events if event.event != "warning"]
    assert told == ["started", "resumed", "summarized", "request", "reply", "finished"]
    assert "SUMMARIZED executionId:'call_1'" in str(again.requests[-1].messages)
    assert again.outcome.usage.input_tokens == 10 + 60_000 + 10 + 10


async def test_warnings_about_the_file_stay_in_the_outcome(desk):
    """Warnings about the specialist's file remain in the outcome, though the file is not read again."""
    file = desk.folder / "finder.md"
    file.write_text("---\nname: finder\ndescription: Finds.\ntools: []\nnonsense: 1\n---\nYou find.\n")
    desk.specialist = str(file)
    first = await desk.ask(LOOKS, ANSWER)
    assert any("nonsense" in warning for warning in first.outcome.warnings)
    again = await desk.go_on(ANSWER, question="Sure?")
    assert again.outcome.warnings == first.outcome.warnings
    # The same once more, when the file no longer counts at all.
    assert (await desk.go_on(ANSWER, question="Sure?")).outcome.warnings == first.outcome.warnings
