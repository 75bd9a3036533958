"""For any history, compaction loses nothing and separates no call from its result."""

import re
from dataclasses import dataclass, field
from itertools import chain, pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.loop.compaction import packed, plan
from run_specialist.record.messages import Message
from tests.transcripts import (
    HIDDEN,
    QUESTION,
    THOUGHT,
    broken_rules,
    text,
    turn,
)
from tests.unit.loop.plans import refusals


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
        """Add a turn of calls with results of these sizes.

        thought: Thinking block before the calls, or None.
        words: Whether a text precedes the calls.
        pause: Whether thought and text are a paused reply of their own.
        asks: Whether the turn is followed by an answer and a follow-up question.
        """
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
        known = {*broken_rules(run.said), *refusals(run.said)}
        run.said = found.rebuild(f"notes {run.passes}")
        check(run, tail, summarised, known)
        assert doubled_roles(run.said) <= doubled


def check(run: Run, tail: list[Message], summarised: list[tuple[str, str]], known: set[str]) -> None:
    """Check a transcript after a pass.

    known: Violations of the API's rules that it had before the pass.
    """
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
        assert (broken_rules(run.said), refusals(run.said)) == ([], [])
        return
    assert all(new is old for new, old in zip(run.said[-len(tail) :], tail, strict=True))
    # A reply that paused is followed by another one or is still the last message: a pass must not break either.
    assert [one for one in broken_rules(run.said) if "alternate" not in one and one not in known] == []
    assert [one for one in refusals(run.said) if one not in known] == []


def doubled_roles(said: list[Message]) -> int:
    """Count the messages with the same role as the previous one."""
    return sum(one.role == other.role for one, other in pairwise(said))
