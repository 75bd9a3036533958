"""A call that arrives as JSON text in pieces is shown as its tool and its arguments."""

import json
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.loop.exchange import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.providers.json_calls import CallStream, written

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def shown(text: str, cuts: list[int]) -> list[Delta]:
    """Return what a watcher sees of a text that arrives in pieces."""
    seen: list[Delta] = []
    stream = CallStream(seen.append)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        stream.add(Delta(text[start:end]))
    return seen


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.lists(st.integers(0, 10_000), max_size=12))
@example({"a": "\\", "b": '"}', "c": '\\"{'}, [])
def test_g8_a_streamed_call_shows_its_arguments_only(arguments, cuts):
    """However a call is split, the pieces shown are the JSON of its arguments, each with the name of the tool."""
    seen = shown(f" {written('look', arguments)}\n ", cuts)
    assert "".join(delta.text for delta in seen) == json.dumps(arguments, ensure_ascii=False)
    assert {delta.tool for delta in seen} == {"look"}


@given(
    st.text(min_size=1).filter(lambda text: text.strip() and not text.lstrip().startswith("{")),
    st.lists(st.integers(0, 99)),
)
def test_g8_other_text_is_shown_as_it_is(text, cuts):
    """A text that is no JSON is shown unchanged."""
    seen = shown(text, cuts)
    assert "".join(delta.text for delta in seen) == text
    assert {delta.tool for delta in seen} == {None}


def test_g8_json_that_becomes_no_call_is_shown_late():
    """JSON of another shape is shown once it is too long to become a call."""
    text = json.dumps({"note": "x" * 400})
    assert "".join(delta.text for delta in shown(text, list(range(0, 400, 7)))) == text


def test_g8_native_calls_pass_through():
    """The pieces of a native call stay as they are."""
    seen: list[Delta] = []
    CallStream(seen.append).add(Delta('{"a"', tool="look"))
    assert seen == [Delta('{"a"', tool="look")]


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_g8_what_arrived_of_an_answer_in_json_is_its_text(cuts):
    """Of an answer that was interrupted while it streamed, the part that arrived is kept."""
    text = written("respond", {"source": "a.md:1", "quote": "q", "answer": "so far so g"})[:-4]
    partial = PartialReply()
    for delta in shown(text, cuts):
        partial.add(delta)
    assert partial.is_answering
    assert partial.text == "so far so g"
