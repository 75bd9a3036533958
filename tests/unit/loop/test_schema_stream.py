"""While a reply to a schema request streams: JSON is marked as input of `respond`, anything else is text."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.loop.exchange import PartialReply, SchemaStream
from run_specialist.providers.base import Delta


def pieces(text, places):
    """Cut a text at these places."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


def shown(*texts):
    """Return what is shown of a reply that streams in these pieces."""
    stream = SchemaStream()
    marked = [stream.marked(Delta(text)) for text in texts]
    return [delta for delta in marked if delta is not None]


@given(answer=st.text(), thought=st.sampled_from(["", "  ", "<think>a > b</think>\n"]), places=st.lists(st.integers(0)))
def test_g1_however_json_arrives_the_answer_is_shown(answer, thought, places):
    """The pieces are input of `respond`, and the answer that has arrived is that of the whole JSON."""
    written = json.dumps({"answer": answer, "evidence": None})
    deltas, reply = shown(*pieces(thought + written, places)), PartialReply()
    for delta in deltas:
        reply.add(delta)
    assert {delta.tool for delta in deltas} == {"respond"}
    assert "".join(delta.text for delta in deltas) == written
    assert reply.text == answer


@given(text=st.text(min_size=1).filter(lambda text: text.strip()), places=st.lists(st.integers(0)))
def test_g1_a_reply_that_is_no_json_is_shown_as_text(text, places):
    """An endpoint that ignores the schema streams text, which is shown unchanged."""
    deltas = shown(*pieces(f"Owls: {text}", places))
    assert {delta.tool for delta in deltas} == {None}
    assert "".join(delta.text for delta in deltas) == f"Owls: {text}"


@pytest.mark.parametrize("tool", ["respond", "look"])
def test_calls_are_shown_as_calls(tool):
    """Arguments of calls pass unchanged, before and after the text has been recognized."""
    stream = SchemaStream()
    call = Delta("{", tool=tool)
    assert [stream.marked(delta) for delta in (call, Delta("{"), call)] == [call, Delta("{", tool="respond"), call]


def test_long_thinking_is_held_back():
    """Nothing is shown while the model thinks."""
    assert shown("<think>", *["hm "] * 1000) == []
