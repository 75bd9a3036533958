"""Compaction: which turns are summarised in which chunks, and the requests of a pass with their summary."""

import json
import re
from dataclasses import dataclass, field
from itertools import chain, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.errors import ProviderError
from run_specialist.loop.compaction import CompactionPlan, packed, plan
from run_specialist.loop.summarizer import Summarizer, Summary
from run_specialist.record.messages import Message, ToolResult
from run_specialist.tools.archive import Archive
from tests.scripted_provider import Line, ScriptedProvider, says
from tests.wire.simulator.rules import blocks, messages
from tests.wire.simulator.rules.base import Call

SIZE = 1_000
"""Size of the transcripts that is passed to the summarizer [tokens]."""
QUESTION = "What do owls eat?"
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sealed"}
HIDDEN = {"type": "redacted_thinking", "data": "sealed"}


def text(words):
    """Return a text block."""
    return {"type": "text", "text": words}


def use(call_id, **arguments):
    """Return a tool call."""
    return {"type": "tool_use", "id": call_id, "name": "search", "input": arguments}


def turn(*results, before=()):
    """Return a turn of calls, each given by its id and its result."""
    calls = [use(call_id, query=f"about {call_id}") for call_id, _ in results]
    told = [ToolResult(call_id, output) for call_id, output in results]
    return [Message("assistant", (*before, *calls)), Message.results(told)]


def history(turns, size=400, before=()):
    """Return a question and turns of one call each; result `n` is `n` padded with dots to the size [characters]."""
    said = [Message.user(QUESTION)]
    for number in range(1, turns + 1):
        said += turn((f"call_{number}", str(number).ljust(size, ".")), before=before)
    return said


async def ask_once(conversation, request):
    """Send a request without retrying it."""
    return await conversation.ask(request)


async def one_pass(script: list[Line], said: list[Message]) -> tuple[Summary, ScriptedProvider]:
    """Run a pass that summarizes as much as possible, and check that the whole script was used."""
    provider = ScriptedProvider(script)
    summarizer = Summarizer(provider, Archive(), summarize_at=400, context_target=0, summary_limit=100)
    done = await summarizer.summarize(said, SIZE, [].append, ask_once)
    provider.assert_used_up()
    assert done is not None
    return done, provider


def request_text(provider: ScriptedProvider, at: int = 0) -> str:
    """Return the text of a request."""
    (message,) = provider.requests[at].messages
    return message.content[0]["text"]


RULES = (*messages.RULES_BEFORE_BLOCKS, *blocks.RULES_ON_SHAPE, *blocks.RULES_ON_TEXT, *messages.RULES)


def planned(said, *, size=10_000, target=0, summary_limit=0, chunk_size=1_000) -> CompactionPlan:
    """Return the plan of a pass that summarizes as much as possible by default; there must be one."""
    found = plan(said, size=size, target=target, summary_limit=summary_limit, chunk_size=chunk_size)
    assert found is not None
    return found


def archived_ids(found: CompactionPlan) -> list[str]:
    """Return the ids of the outputs that a plan archives."""
    return [pair.call.id for pair in found.archived]


def refusals(said) -> list[str]:
    """Return the errors with which the simulated API would refuse the messages."""
    call = Call("POST", "/", {}, body={"messages": [json.loads(one.encoded) for one in said]})
    return [message for rule in RULES if (message := rule.broken_by(call))]


@pytest.mark.parametrize(
    ("target", "count"),
    [(2_000, 1), (1_901, 1), (1_900, 1), (1_899, 2), (1_800, 2), (1_799, 3), (1_700, 3), (1_600, 4), (0, 8)],
)
def test_the_oldest_turns_are_summarized_until_the_rest_fits(target, count):
    """Only as many of the oldest turns as necessary are summarised, at least one; a size equal to the target fits."""
    marker = len("SUMMARIZED executionId:'call_1'")
    found = planned(history(9, size=400 + marker), size=2_000, target=target)
    assert archived_ids(found) == [f"call_{number}" for number in range(1, count + 1)]


def test_unanswered_calls_and_shared_ids_are_kept_apart():
    """Unanswered calls and calls with the same id each keep their own result or none.

    They come from an interrupted run, or from a server that restarts its ids in each turn.
    """
    both = Message("assistant", (use("a", place=1), use("a", place=2), use("b", place=3)))
    said = [Message.user(QUESTION), both, Message.results([ToolResult("a", "one"), ToolResult("a", "two")])]
    found = planned([*said, *turn(("c", "x"))])
    assert [(pair.call.arguments, pair.result) for pair in found.archived] == [
        ({"place": 1}, "one"),
        ({"place": 2}, "two"),
        ({"place": 3}, ""),
    ]


def test_s2_9_a_flattened_transcript_can_be_flattened_again():
    """A retold transcript can be retold again without any thinking.

    The turn kept the first time is archived, the question stays one block, and lines are added.
    """
    once = planned(history(3, size=30, before=[THOUGHT])).rebuild("first notes")
    said = [*once, *turn(("call_4", "four")), Message("assistant", (text("Hm."),)), Message.user("Go on.")]
    found = planned(said)
    assert (archived_ids(found), found.earlier) == (["call_3"], "first notes")
    assert found.question == f"{QUESTION}\n\nGo on."
    (twice,) = found.rebuild("second notes")
    question, summary, archived, *rest = (one["text"] for one in twice.content)
    assert question == QUESTION
    assert summary.splitlines()[1:] == ["second notes"]
    assert [line[-8:] for line in archived.splitlines()[1:]] == ["'call_1'", "'call_2'", "'call_3'"]
    assert [one.split("\n")[-1] for one in rest] == ["four", "Hm.", "Go on."]
    assert plan([twice], size=10_000, target=0, summary_limit=0, chunk_size=10) is None


@given(st.lists(st.integers(0, 30)), st.integers(0, 40))
def test_s2_7_packing_loses_nothing_and_splits_nothing(sizes, most):
    """Packing keeps all items in order; only single items exceed the size, and no two neighbouring groups would fit."""
    groups = packed(sizes, lambda size: size, most)
    assert list(chain(*groups)) == sizes
    assert all(groups)
    assert all(sum(group) <= most or len(group) == 1 for group in groups)
    assert all(sum(one) + other[0] > most for one, other in pairwise(groups))


@dataclass
class Run:
    """A run driven by the tests: it grows by turns and is summarized from time to time."""

    said: list[Message] = field(default_factory=lambda: [Message.user(QUESTION)])
    results: dict[str, str] = field(default_factory=dict)
    """All outputs so far, by id."""
    words: list[str] = field(default_factory=list)
    """The user's follow-up questions."""
    passes: int = 0

    def grow(self, sizes, thought, words, pause, asks) -> None:
        """Add a turn of calls with results of these sizes, after a thought or words, which may be a paused reply."""
        made = {
            f"call_{len(self.results) + n}": f"R{len(self.results) + n}|".ljust(size, "~")
            for n, size in enumerate(sizes)
        }
        before = [*([thought] if thought else []), *([text("Let me see.")] if words else [])]
        if pause and before:
            self.said.append(Message("assistant", tuple(before)))
            before = []
        if made:
            self.results |= made
            self.said += turn(*made.items(), before=before)
        if asks:
            self.words.append(f"And {len(self.words)}?")
            self.said += [Message("assistant", (text("Done."),)), Message.user(self.words[-1])]


TURNS = st.tuples(
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from([None, None, THOUGHT, HIDDEN]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
EVENTS = st.one_of(TURNS, st.tuples(st.integers(0, 200), st.integers(0, 60)))


@given(st.lists(EVENTS, max_size=25))
@example([([0], None, False, False, False)] * 2 + [([], None, True, True, False), (0, 0)])
def test_compaction_in_any_order_loses_nothing(happened):
    """Turns and passes in any order lose nothing.

    Every output is in the transcript or in exactly one chunk; every call keeps its place; the question, the user's
    texts and the newest turn are kept; the transcript always satisfies the API.
    """
    run, summarised = Run(), []
    for event in happened:
        if len(event) == 5:
            run.grow(*event)
            continue
        target, chunk_size = event
        found = plan(run.said, size=200, target=target, summary_limit=0, chunk_size=chunk_size)
        if found is None:
            continue
        run.passes += 1
        assert found.archived
        assert found.question == "\n\n".join([QUESTION, *run.words])
        assert found.earlier == (f"notes {run.passes - 1}" if run.passes > 1 else "")
        assert [pair.call.id for pair in found.archived] == [
            call.id for chunk in found.chunks for unit in chunk for call in unit.calls
        ]
        summarised += [(pair.call.id, pair.result) for pair in found.archived]
        newest = next(at for at in reversed(range(len(run.said))) if "tool_use" in str(run.said[at].content))
        tail, doubled = run.said[newest:], doubled_roles(run.said)
        known = refusals(run.said)
        run.said = found.rebuild(f"notes {run.passes}")
        check(run, tail, summarised, known)
        assert doubled_roles(run.said) <= doubled


def check(run: Run, tail: list[Message], summarised: list[tuple[str, str]], known: list[str]) -> None:
    """Check a transcript after a pass; it may break the known rules of the API, as it did before."""
    whole = "\n".join(message.encoded.decode() for message in run.said)
    assert dict(summarised) == dict(list(run.results.items())[: len(summarised)])
    assert len(dict(summarised)) == len(summarised)
    for call_id, result in run.results.items():
        assert (f"SUMMARIZED executionId:'{call_id}'" in whole) == (call_id in dict(summarised))
        assert (result in whole) == (call_id not in dict(summarised))
    asked = [re.search(rf"\b{call_id}\b", whole).start() for call_id in run.results]
    assert asked == sorted(asked)
    assert f"notes {run.passes}" in whole
    assert f"notes {run.passes - 1}" not in whole
    assert all(words in whole for words in run.words)
    assert run.said[0].content[0] == text(QUESTION)
    if len(run.said) == 1:
        assert "sealed" not in whole
        assert refusals(run.said) == []
        return
    assert all(new is old for new, old in zip(run.said[-len(tail) :], tail, strict=True))
    assert [one for one in refusals(run.said) if one not in known] == []


def doubled_roles(said: list[Message]) -> int:
    """Count the messages with the same role as the previous one."""
    return sum(one.role == other.role for one, other in pairwise(said))


async def test_the_default_target_is_half_of_the_limit():
    """By default the target is half, and only as much as needed is summarised.

    1,300 tokens shrink to 1,100 when a pass begins at 2,200, and to 650 when nothing is set; 100 of them are summary.
    """
    said = history(10, size=400 + len("SUMMARIZED executionId:'call_1'"))
    provider = ScriptedProvider([says("notes")] * 20)
    for limits, archived in ([2_200], 3), ([None], 8), ([2_200, 0], 9):
        summarizer = Summarizer(provider, Archive(), *limits, summary_limit=100)
        assert (await summarizer.summarize(said, 1_300, [].append, ask_once)).archived == archived


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


async def test_thinking_does_not_count_towards_the_length_limit():
    """The length limit applies to the notes, not to the thinking before them; the model's maximum applies to both."""
    _, provider = await one_pass([says("x")], history(2))
    assert provider.requests[0].max_tokens == 4_100
    small = ScriptedProvider([says("x")], max_output_tokens=2_000)
    await Summarizer(small, Archive(), 400).summarize(history(2), SIZE, [].append, ask_once)
    assert small.requests[0].max_tokens == 2_000


async def test_s2_7_markers_outlast_merging_and_later_passes():
    """Markers are neither sent to the model nor cut in merging and later passes, even if space is short."""
    first, _ = await one_pass([ProviderError("down"), says("n" * 600), says("m" * 200)], history(3, size=600))
    assert first.summary.split("\n\n")[0] == "m" * 200
    assert "[not summarised: search (call_1); the reason: down;" in first.summary
    said = [*first.history, *turn(("call_9", "9"))]
    second, provider = await one_pass([says("o" * 300), says("both")], said)
    assert "not summarised" not in "".join(request_text(provider, at) for at in range(2))
    assert second.summary.split("\n\n")[0] == "both"
    assert second.summary.count("[not summarised: search (call_1);") == 1


async def test_s2_7_notes_that_merging_does_not_shorten_are_cut():
    """If a round does not shorten the notes, merging stops, each set is cut at its end, and a warning is given."""
    one, two = "a" * 300, "b" * 300
    done, _ = await one_pass([says(one), says(two), says("c" * 700)], history(3, size=600))
    front, back = done.summary.split("\n[truncated]\n\n")
    assert set(front) == {"a"}
    assert back.removesuffix("\n[truncated]").strip("b") == ""
    assert 380 < len(done.summary) <= 400
    assert "a summary was longer than summary_limit and was cut" in done.warnings


async def test_s2_7_merging_ends_after_three_rounds():
    """Merging ends after three rounds, even if the notes shrink by two tokens each time."""
    script = [says("x" * (900 - 8 * number)) for number in range(4)]
    done, provider = await one_pass(script, history(2))
    assert len(provider.requests) == 4
    assert done.summary == "x" * 386 + "\n[truncated]"


async def test_s2_7_a_failed_merge_cuts_the_notes():
    """If a merge fails, the notes are cut instead of lost, and the reason is reported."""
    script = [says("a" * 300), says("b" * 300), ProviderError("the API is overloaded")]
    done, _ = await one_pass(script, history(3, size=600))
    assert "aaa" in done.summary
    assert "bbb" in done.summary
    assert "notes could not be merged: the API is overloaded" in done.warnings
