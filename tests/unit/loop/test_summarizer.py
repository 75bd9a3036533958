"""One pass: notes on each chunk, one summary of them, and the archive behind it."""

import asyncio

import pytest

from run_specialist import prompts
from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.loop.compaction.plan import estimate
from run_specialist.loop.compaction.summarizer import Summarizer, Summary
from run_specialist.providers.base import Choice
from run_specialist.providers.scripted import Line, ScriptedProvider, says
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.tools.archive import Archive
from tests.transcripts import QUESTION, THOUGHT, broken_rules, history, outputs, summaries, text, turn, use

pytestmark = pytest.mark.anyio

SIZE = 1_000
"""Tokens of the transcripts here, as far as a pass is told."""


async def one_pass(
    script: list[Line], said: list[Message], archive: Archive | None = None, paid: list[Usage] | None = None, **settings
) -> tuple[Summary, ScriptedProvider]:
    """Run a pass that takes all it can and plays the whole script; `paid` gets each usage."""
    provider = ScriptedProvider(script)
    settings = {"summarize_at": 400, "context_target": 0, "summary_limit": 100, **settings}
    done = await Summarizer(provider, archive or Archive(), **settings).summarise(
        said, SIZE, [].append if paid is None else paid.append
    )
    provider.assert_used_up()
    assert done is not None
    return done, provider


def asked(provider: ScriptedProvider, at: int = 0) -> str:
    """Return the text of a request."""
    (message,) = provider.asked[at].messages
    return message.content[0]["text"]


async def test_s2_7_each_chunk_gets_a_request_and_pairs_stay_together():
    """The question, the calls and their whole results are in it; there are no tools to call."""
    done, provider = await one_pass([says("notes on 1"), says("notes on 2")], history(3, size=600))
    first, second = asked(provider, 0), asked(provider, 1)
    assert all(QUESTION in one for one in (first, second))
    assert "1".ljust(600, ".") in first
    assert '"name":"search","input":{"query":"about call_1"}' in first
    assert "2".ljust(600, ".") in second
    assert "call_2" not in first
    assert "call_3" not in first + second
    assert provider.opening.system == prompts.SUMMARY
    assert provider.opening.tools.names == ()
    assert {one.choice for one in provider.asked} == {Choice.AUTO}
    assert summaries(done.history) == [done.summary] == ["notes on 1\n\nnotes on 2"]


async def test_s2_7_small_pairs_share_a_request():
    """Three results of fifty tokens fit into one of two hundred."""
    done, provider = await one_pass([says("notes")], history(4, size=80))
    assert len(provider.asked) == 1
    assert (done.archived, done.summary) == (3, "notes")


async def test_s2_8_outputs_are_archived_and_what_the_archive_has_is_left_alone():
    """The archive keeps the original where it knows it, else what the transcript held."""
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


async def test_s2_9_the_summary_stands_as_a_pair():
    """Behind what it stands for, in front of the newest turn."""
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


async def test_s2_9_thinking_binds_the_history():
    """Then the summary is part of the one user message."""
    done, _ = await one_pass([says("notes")], history(2, before=[THOUGHT]))
    (message,) = done.history
    assert message.content[0] == text(QUESTION)
    assert message.content[1]["text"].endswith("\nnotes")
    assert "hm" not in message.encoded.decode()


async def test_s2_10_usage_and_size_are_told():
    """Each request's usage is there, and what the next request has, by estimate."""
    script = [Reply(Stop.ANSWERED, (text("notes"),), Usage(number)) for number in (7, 8)]
    said = history(3, size=600)
    paid = []
    done, _ = await one_pass(script, said, paid=paid)
    assert sorted(usage.input_tokens for usage in paid) == [7, 8]
    assert done.tokens_before == SIZE
    assert done.tokens_after == SIZE - estimate(None, said) + estimate(None, done.history)
    assert done.tokens_after < SIZE - 200


async def test_the_size_afterwards_is_never_told_too_small():
    """Where the transcript was thought smaller than its characters say, what is left still counts whole."""
    said = history(3, size=8_000)
    done, _ = await one_pass([says("1"), says("2")], said, context_target=2_200)
    assert done.tokens_after == estimate(None, done.history) > 2_000
    assert done.warnings == []


async def test_s2_10_missing_the_target_warns_once_and_fails_never():
    """The newest turn alone is more than the target."""
    provider = ScriptedProvider([says("notes"), says("notes again")])
    summariser = Summarizer(provider, Archive(), 400, 100)
    first = await summariser.summarise(history(2), SIZE, [].append)
    assert [one for one in first.warnings if "context_target is 100" in one] == first.warnings != []
    again = await summariser.summarise([*first.history, *turn(("call_9", "9" * 400))], SIZE, [].append)
    assert again.warnings == []


@pytest.mark.parametrize(("less", "warned"), [(0, False), (1, True)])
async def test_s2_10_equal_to_the_target_is_not_over_it(less, warned):
    """What is left is compared as the trigger is."""
    left = (await one_pass([says("notes")], history(2)))[0].tokens_after
    done, _ = await one_pass([says("notes")], history(2), context_target=left - less)
    assert bool(done.warnings) == warned


async def test_nothing_to_summarise_asks_nothing():
    """The newest turn and the question are all there is."""
    provider = ScriptedProvider([])
    assert await Summarizer(provider, Archive(), 10).summarise(history(1), SIZE, [].append) is None


# What is aimed at


async def test_by_default_the_target_is_half_and_no_more_is_taken_than_needed():
    """1,300 tokens come down to 1,100 when a pass begins at 2,200, and to 650 when nothing is set; 100 are summary."""
    said = history(10, size=400 + len("SUMMARIZED executionId:'call_1'"))
    provider = ScriptedProvider([says("notes")] * 20)
    half_of_limit = await Summarizer(provider, Archive(), 2_200, summary_limit=100).summarise(said, 1_300, [].append)
    assert half_of_limit.archived == 3
    half_of_size = await Summarizer(provider, Archive(), None, summary_limit=100).summarise(said, 1_300, [].append)
    assert half_of_size.archived == 8
    nothing = await Summarizer(provider, Archive(), 2_200, 0, summary_limit=100).summarise(said, 1_300, [].append)
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
async def test_how_long_a_summary_may_become_is_told(at, target, limit, words):
    """4,000 tokens by default, in a small context half of the target; the model is told in words."""
    provider = ScriptedProvider([says("x")])
    await Summarizer(provider, Archive(), at, target, limit).summarise(history(2), SIZE, [].append)
    assert asked(provider).endswith(f"in at most about {words} words.")


async def test_the_length_is_shared_between_the_sets_of_notes():
    """Then they need no merging, as a rule; an earlier summary has its share."""
    first, provider = await one_pass([says("1"), says("2")], history(3, size=600), summary_limit=1_000)
    assert [asked(provider, at).endswith("about 300 words.") for at in range(2)] == [True, True]
    _, provider = await one_pass([says("3")], [*first.history, *turn(("x", "x"))], summary_limit=1_000)
    assert asked(provider).endswith("about 300 words.")


async def test_a_reply_has_room_to_think_within_what_the_model_can():
    """The notes' limit binds the notes, not the thoughts before them; both stay under the model's limit."""
    _, provider = await one_pass([says("x")], history(2))
    assert provider.asked[0].max_tokens == 4_100
    small = ScriptedProvider([says("x")], max_output_tokens=2_000)
    await Summarizer(small, Archive(), 400).summarise(history(2), SIZE, [].append)
    assert small.asked[0].max_tokens == 2_000


# Merging


async def test_s2_7_partial_summaries_merge_until_they_are_under_the_limit():
    """Two sets of notes of sixty tokens are over a hundred together; the merged ones are not."""
    one, two = "a" * 240, "b" * 240
    paid = []
    done, provider = await one_pass([says(one), says(two), says("merged")], history(3, size=600), paid=paid)
    assert f"{one}\n\n{two}" in asked(provider, 2)
    assert QUESTION in asked(provider, 2)
    assert (done.summary, done.warnings[1:]) == ("merged", [])
    assert len(paid) == 3


async def test_s2_7_two_sets_of_notes_fit_into_one_request_however_small_the_context_is():
    """One at a time could never be merged."""
    script = [says("a" * 240), says("b" * 240), says("merged")]
    done, _ = await one_pass(script, history(3, size=600), summarize_at=100)
    assert done.summary == "merged"


async def test_s2_7_equal_to_the_limit_is_not_over_it():
    """Ninety-nine, one and two line ends between them make a hundred tokens: nothing to merge."""
    done, _ = await one_pass([says("a" * 394), says("b" * 4)], history(3, size=600))
    assert done.summary == "a" * 394 + "\n\n" + "b" * 4
    done, _ = await one_pass([says("a" * 395), says("b" * 4), says("merged")], history(3, size=600))
    assert done.summary == "merged"


async def test_s2_7_an_earlier_summary_is_kept_and_merged_only_when_it_must():
    """It goes word for word as long as there is room: what is summarised again and again wears off."""
    first, _ = await one_pass([says("e" * 300)], history(2))
    said = [*first.history, *turn(("call_9", "9" * 100))]
    kept, provider = await one_pass([says("new")], said)
    assert kept.summary == "e" * 300 + "\n\nnew"
    assert "eee" not in asked(provider)
    merged, provider = await one_pass([says("n" * 200), says("both")], said)
    assert "e" * 300 + "\n\n" + "n" * 200 in asked(provider, 1)
    assert summaries(merged.history) == ["both"]


async def test_s2_7_what_merging_does_not_shorten_is_cut_and_a_warning_says_so():
    """A round that does not shorten is the last one, and each set of notes keeps its beginning."""
    one, two = "a" * 300, "b" * 300
    done, _ = await one_pass([says(one), says(two), says("c" * 700)], history(3, size=600))
    front, back = done.summary.split("\n[truncated]\n\n")
    assert set(front) == {"a"}
    assert back.removesuffix("\n[truncated]").strip("b") == ""
    assert 380 < len(done.summary) <= 400
    assert "a summary was longer than summary_limit and was cut" in done.warnings


async def test_s2_7_short_notes_are_not_cut_for_the_sake_of_long_ones():
    """Only what takes more than its share is cut, and markers count."""
    script = [says("a" * 400), says("short"), ProviderError("down"), says("b" * 500)]
    done, _ = await one_pass(script, history(4, size=600))
    long, short, marker = done.summary.split("\n\n")
    assert long.endswith("aaa\n[truncated]")
    assert short == "short"
    assert marker.startswith("[not summarised: search (call_3)")
    assert len(done.summary) <= 400


async def test_s2_7_merging_ends_whatever_the_model_writes():
    """Notes that shrink by two tokens a round are cut after three rounds."""
    script = [says("x" * (900 - 8 * number)) for number in range(4)]
    done, provider = await one_pass(script, history(2))
    assert len(provider.asked) == 4
    assert done.summary == "x" * 386 + "\n[truncated]"


async def test_s2_7_a_merge_that_fails_loses_no_notes():
    """They are cut instead, and the reason is told."""
    script = [says("a" * 300), says("b" * 300), ProviderError("the API is overloaded")]
    done, _ = await one_pass(script, history(3, size=600))
    assert "aaa" in done.summary
    assert "bbb" in done.summary
    assert "notes could not be merged: the API is overloaded" in done.warnings


# What goes wrong


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (ProviderError("the API is\noverloaded"), "the API is overloaded"),
        (ContextExceeded("prompt is too long"), "prompt is too long"),
        (Reply(Stop.REFUSED, (), Usage(3), "harm"), "the model refused (harm)"),
        (Reply(Stop.REFUSED, (text("I will not."),), Usage(3), "harm"), "the model refused (harm)"),
        (says(""), "the model wrote nothing"),
        (Reply(Stop.ANSWERED, (THOUGHT, text("  ")), Usage(3)), "the model wrote nothing"),
        (Reply(Stop.TRUNCATED, (THOUGHT,), Usage(3)), "the model wrote nothing"),
        (Reply(Stop.WANTS_TOOLS, (use("x"),), Usage(3)), "the model wrote nothing"),
    ],
)
async def test_s2_7_a_chunk_that_fails_leaves_a_marker(line, why):
    """It names the calls and the reason; the other chunks have their notes, and the outputs stay readable."""
    archive, paid = Archive(), []
    done, _ = await one_pass([line, says("notes on 2")], history(3, size=600), archive, paid)
    notes, marker = done.summary.split("\n\n")
    assert notes == "notes on 2"
    assert marker == (
        f"[not summarised: search (call_1); the reason: {why}; get_tool_response reads the outputs by their ids]"
    )
    assert archive["call_1"] == "1".ljust(600, ".")
    assert any(why in warning for warning in done.warnings)
    assert len(paid) == (1 if isinstance(line, Exception) else 2)


async def test_s2_7_markers_outlast_merging_and_later_passes():
    """They are neither given to the model nor cut, however little room there is."""
    first, _ = await one_pass([ProviderError("down"), says("n" * 600), says("m" * 200)], history(3, size=600))
    assert first.summary.split("\n\n")[0] == "m" * 200
    assert "[not summarised: search (call_1); the reason: down;" in first.summary
    said = [*first.history, *turn(("call_9", "9"))]
    second, provider = await one_pass([says("o" * 300), says("both")], said)
    assert "not summarised" not in "".join(asked(provider, at) for at in range(2))
    assert second.summary.split("\n\n")[0] == "both"
    assert second.summary.count("[not summarised: search (call_1);") == 1


async def test_s2_7_many_markers_leave_room_for_notes():
    """Half of the summary is for notes, whatever failed."""
    script = [*[ProviderError("down " * 20)] * 5, says("n" * 200)]
    done, _ = await one_pass(script, history(7, size=600))
    assert done.summary.startswith("n" * 200)
    assert done.summary.count("[not summarised: ") == 5


async def test_s2_7_a_marker_and_the_notes_share_the_limit():
    """Notes that would fit alone are merged beside a marker."""
    script = [ProviderError("down"), says("n" * 300), says("m" * 100)]
    done, _ = await one_pass(script, history(3, size=600))
    assert done.summary.startswith("m" * 100 + "\n\n[not summarised: ")


async def test_s2_7_notes_that_were_cut_off_are_used_and_marked():
    """Half of the notes is better than none."""
    done, _ = await one_pass([says("notes", Stop.TRUNCATED)], history(2))
    assert done.summary == "notes\n[truncated]"


class Held:
    """A provider whose replies wait until they are let go."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.provider = provider
        self.capabilities = provider.capabilities
        self.under_way = self.most = 0
        self.busy, self.go = asyncio.Event(), asyncio.Event()

    def open(self, opening, watch=None):
        """Start a conversation."""
        self.provider.open(opening, watch)
        return self

    async def ask(self, messages, choice, max_tokens):
        """Wait, then play the next line."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == 3:
            self.busy.set()
        await self.go.wait()
        self.under_way -= 1
        return await self.provider.ask(messages, choice, max_tokens)


async def test_requests_run_side_by_side_but_not_all_at_once():
    """Three at a time, and the notes stand in the order of the calls."""
    held = Held(ScriptedProvider([says(str(number)) for number in range(5)]))
    summarising = asyncio.create_task(
        Summarizer(held, Archive(), 400, 0, 100).summarise(history(6, size=600), SIZE, [].append)
    )
    await asyncio.wait_for(held.busy.wait(), 10)
    held.go.set()
    done = await summarising
    assert held.most == 3
    assert done.summary == "0\n\n1\n\n2\n\n3\n\n4"


async def test_a_cancelled_pass_changes_nothing():
    """The cancellation goes on its way, and nothing was archived."""
    held, archive = Held(ScriptedProvider([])), Archive()
    summarising = asyncio.create_task(
        Summarizer(held, archive, 400, 0, 100).summarise(history(6, size=600), SIZE, [].append)
    )
    await asyncio.wait_for(held.busy.wait(), 10)
    summarising.cancel()
    with pytest.raises(asyncio.CancelledError):
        await summarising
    assert archive.ids == ()
