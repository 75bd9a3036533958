"""A pass of the summarizer: its requests, its summary, and the archive behind it."""

import pytest

from run_specialist.loop.compaction import estimate
from run_specialist.loop.summarizer import Summarizer
from run_specialist.prompts import SYSTEM_PROMPT
from run_specialist.providers.base import Choice
from run_specialist.providers.scripted import ScriptedProvider, says
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.tools.archive import Archive
from tests.transcripts import QUESTION, THOUGHT, broken_rules, history, outputs, summaries, text, turn
from tests.unit.loop.summarizing import SIZE, one_pass, request_text

pytestmark = pytest.mark.anyio


async def test_s2_7_each_chunk_has_its_own_request_without_tools():
    """Each chunk's request has the question and the calls with their entire results, and offers no tools."""
    done, provider = await one_pass([says("notes on 1"), says("notes on 2")], history(3, size=600))
    first, second = request_text(provider, 0), request_text(provider, 1)
    assert all(QUESTION in one for one in (first, second))
    assert "1".ljust(600, ".") in first
    assert '"name":"search","input":{"query":"about call_1"}' in first
    assert "2".ljust(600, ".") in second
    assert "call_2" not in first
    assert "call_3" not in first + second
    assert provider.opening.system == SYSTEM_PROMPT
    assert provider.opening.tools.names == ()
    assert {one.choice for one in provider.requests} == {Choice.AUTO}
    assert summaries(done.history) == [done.summary] == ["notes on 1\n\nnotes on 2"]


async def test_s2_7_small_pairs_share_a_request():
    """Small pairs share a request: three results of fifty tokens fit into one of two hundred."""
    done, provider = await one_pass([says("notes")], history(4, size=80))
    assert len(provider.requests) == 1
    assert (done.archived, done.summary) == (3, "notes")


async def test_s2_8_outputs_are_archived_unless_the_archive_has_them():
    """The archive keeps an original it already has, else the output from the transcript."""
    archive = Archive()
    archive.add("call_1", "the whole output, longer than what the model saw")
    done, _ = await one_pass([says("notes")], history(3, size=20), archive)
    assert archive["call_1"] == "the whole output, longer than what the model saw"
    assert archive["call_2"] == "2".ljust(20, ".")
    assert archive.ids == ("call_1", "call_2")
    assert outputs(done.history) == {
        "call_1": "SUMMARIZED executionId:'call_1'",
        "call_2": "SUMMARIZED executionId:'call_2'",
        "call_3": "3".ljust(20, "."),
    }


async def test_s2_9_the_summary_is_inserted_as_a_call_and_its_result():
    """The summary is inserted as a pair, after the turns it replaces and before the newest turn."""
    said = history(2)
    done, _ = await one_pass([says("notes")], said)
    assert [block["type"] for message in done.history for block in message.content] == [
        "text",
        *["tool_use", "tool_result"] * 3,
    ]
    assert done.history[3].content[0]["name"] == "context_summarize"
    assert done.history[4].content[0]["content"] == "notes"
    assert done.history[5:] == said[3:]
    assert broken_rules(done.history) == []


async def test_s2_9_with_thinking_the_summary_is_part_of_one_user_message():
    """Where thinking binds the history, the summary is part of the single user message."""
    done, _ = await one_pass([says("notes")], history(2, before=[THOUGHT]))
    (message,) = done.history
    assert message.content[0] == text(QUESTION)
    assert message.content[1]["text"].endswith("\nnotes")
    assert "hm" not in message.encoded.decode()


async def test_s2_10_a_pass_reports_usage_and_size():
    """The pass reports the usage of each request and the estimated size of the next one."""
    script = [Reply(Stop.ANSWERED, (text("notes"),), Usage(number)) for number in (7, 8)]
    said = history(3, size=600)
    paid = []
    done, _ = await one_pass(script, said, paid=paid)
    assert sorted(usage.input_tokens for usage in paid) == [7, 8]
    assert done.tokens_after == SIZE - estimate(None, said) + estimate(None, done.history)
    assert done.tokens_after < SIZE - 200


async def test_the_reported_size_is_never_too_small():
    """The reported size is never too small, even if the earlier estimate was below the size of the characters."""
    said = history(3, size=8_000)
    done, _ = await one_pass([says("1"), says("2")], said, context_target=2_200)
    assert done.tokens_after == estimate(None, done.history) > 2_000
    assert done.warnings == []


async def test_s2_10_missing_the_target_warns_once_and_fails_never():
    """A newest turn larger than the target causes one warning, also over several passes, and no error."""
    provider = ScriptedProvider([says("notes"), says("notes again")])
    summarizer = Summarizer(provider, Archive(), 400, 100)
    first = await summarizer.summarize(history(2), SIZE, [].append)
    assert [one for one in first.warnings if "context_target is 100" in one] == first.warnings != []
    again = await summarizer.summarize([*first.history, *turn(("call_9", "9" * 400))], SIZE, [].append)
    assert again.warnings == []


@pytest.mark.parametrize(("less", "warned"), [(0, False), (1, True)])
async def test_s2_10_a_size_equal_to_the_target_causes_no_warning(less, warned):
    """A size equal to the target meets it, as with the trigger."""
    left = (await one_pass([says("notes")], history(2)))[0].tokens_after
    done, _ = await one_pass([says("notes")], history(2), context_target=left - less)
    assert bool(done.warnings) == warned


async def test_without_old_turns_no_request_is_made():
    """With only the question and the newest turn, no request is made."""
    provider = ScriptedProvider([])
    assert await Summarizer(provider, Archive(), 10).summarize(history(1), SIZE, [].append) is None


async def test_the_default_target_is_half_of_the_limit():
    """By default the target is half, and only as much as needed is summarised.

    1,300 tokens shrink to 1,100 when a pass begins at 2,200, and to 650 when nothing is set; 100 of them are summary.
    """
    said = history(10, size=400 + len("SUMMARIZED executionId:'call_1'"))
    provider = ScriptedProvider([says("notes")] * 20)
    half_of_limit = await Summarizer(provider, Archive(), 2_200, summary_limit=100).summarize(said, 1_300, [].append)
    assert half_of_limit.archived == 3
    half_of_size = await Summarizer(provider, Archive(), None, summary_limit=100).summarize(said, 1_300, [].append)
    assert half_of_size.archived == 8
    nothing = await Summarizer(provider, Archive(), 2_200, 0, summary_limit=100).summarize(said, 1_300, [].append)
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
    await Summarizer(provider, Archive(), at, target, limit).summarize(history(2), SIZE, [].append)
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
    await Summarizer(small, Archive(), 400).summarize(history(2), SIZE, [].append)
    assert small.requests[0].max_tokens == 2_000
