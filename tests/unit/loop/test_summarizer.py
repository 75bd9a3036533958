"""A pass of the summarizer: its requests, its summary, and the archive behind it."""

import pytest

from run_specialist.loop.summarizer import Summarizer
from run_specialist.tools.archive import Archive
from tests.scripted_provider import ScriptedProvider, says
from tests.transcripts import history, outputs, turn
from tests.unit.loop.summarizing import SIZE, ask_once, one_pass, request_text

pytestmark = pytest.mark.anyio


async def test_s2_8_outputs_are_archived_unless_the_archive_has_them():
    """The archive keeps an original it already has, else the output from the transcript."""
    archive = Archive()
    archive.add("call_1", "the whole output, longer than what the model saw")
    done, _ = await one_pass([says("notes")], history(3, size=20), archive)
    assert archive["call_1"] == "the whole output, longer than what the model saw"
    assert archive["call_2"] == "2".ljust(20, ".")
    assert [*archive] == ["call_1", "call_2"]
    assert outputs(done.history) == {
        "call_1": "SUMMARIZED executionId:'call_1'",
        "call_2": "SUMMARIZED executionId:'call_2'",
        "call_3": "3".ljust(20, "."),
    }


async def test_the_default_target_is_half_of_the_limit():
    """By default the target is half, and only as much as needed is summarised.

    1,300 tokens shrink to 1,100 when a pass begins at 2,200, and to 650 when nothing is set; 100 of them are summary.
    """
    said = history(10, size=400 + len("SUMMARIZED executionId:'call_1'"))
    provider = ScriptedProvider([says("notes")] * 20)
    half_of_limit = await Summarizer(provider, Archive(), 2_200, summary_limit=100).summarize(
        said, 1_300, [].append, ask_once
    )
    assert half_of_limit.archived == 3
    half_of_size = await Summarizer(provider, Archive(), None, summary_limit=100).summarize(
        said, 1_300, [].append, ask_once
    )
    assert half_of_size.archived == 8
    nothing = await Summarizer(provider, Archive(), 2_200, 0, summary_limit=100).summarize(
        said, 1_300, [].append, ask_once
    )
    assert nothing.archived == 9


@pytest.mark.parametrize(
    ("at", "target", "limit", "words"),
    [
        (150_000, None, None, 2_400),
        (150_000, 75_000, 1_000, 600),
        (10_000, None, None, 1_500),
        (10_000, 1_000, None, 300),
        (10_000, 1_000, 1, 50),
    ],
)
async def test_the_request_states_the_length_limit_in_words(at, target, limit, words):
    """The model gets the summary's length limit in words: 4,000 tokens, in a small context half of the target."""
    provider = ScriptedProvider([says("x")])
    await Summarizer(provider, Archive(), at, target, limit).summarize(history(2), SIZE, [].append, ask_once)
    assert request_text(provider).endswith(f"in at most about {words} words.")


async def test_the_length_limit_is_divided_among_the_notes():
    """The limit is divided among the sets of notes and an earlier summary, so that they rarely need merging."""
    first, provider = await one_pass([says("1"), says("2")], history(3, size=600), summary_limit=1_000)
    assert [request_text(provider, at).endswith("about 300 words.") for at in range(2)] == [True, True]
    _, provider = await one_pass([says("3")], [*first.history, *turn(("x", "x"))], summary_limit=1_000)
    assert request_text(provider).endswith("about 300 words.")


async def test_thinking_does_not_count_towards_the_length_limit():
    """The length limit applies to the notes, not to the thinking before them; the model's maximum applies to both."""
    _, provider = await one_pass([says("x")], history(2))
    assert provider.requests[0].max_tokens == 4_100
    small = ScriptedProvider([says("x")], max_output_tokens=2_000)
    await Summarizer(small, Archive(), 400).summarize(history(2), SIZE, [].append, ask_once)
    assert small.requests[0].max_tokens == 2_000
