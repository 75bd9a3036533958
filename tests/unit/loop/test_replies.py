"""The readable part of a reply that is still streaming, and quotes that are looked up in results."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind
from run_specialist.loop import evidence
from run_specialist.loop.evidence import GATHERED_QUOTE, SALVAGED_TOTAL
from run_specialist.loop.exchange import PartialReply, SchemaStream
from run_specialist.loop.job import Executed
from run_specialist.providers.base import Delta
from run_specialist.record.messages import ToolCall, spoken


def test_the_answer_in_respond_is_preferred_to_text():
    """The partial answer in `respond` is preferred to any text and shown without quotes and braces."""
    draft = PartialReply()
    draft.add(Delta("I will answer."))
    assert (draft.text, draft.is_answering) == ("I will answer.", False)
    draft.add(Delta('{"answer": "Owls eat mi', tool="respond"))
    assert (draft.text, draft.is_answering) == ("Owls eat mi", True)


def test_arguments_of_other_tools_are_not_shown():
    """Arguments of other tools are not shown as text."""
    draft = PartialReply()
    draft.add(Delta('{"query": "owls"}', tool="search"))
    assert draft.text == ""


@given(st.text(), st.integers(0, 400))
def test_the_text_of_truncated_arguments_is_a_prefix_of_the_answer(answer, at):
    """Wherever the arguments break off, the shown text is a prefix of the answer."""
    draft = PartialReply()
    draft.add(Delta(json.dumps({"answer": answer})[:at], tool="respond"))
    assert answer.startswith(draft.text.removesuffix("\ufffd"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>hm</think>\n\nThe answer.", "The answer."),
        ("\n <think>\nhm\n</think>The answer.", "The answer."),
        ("<think>and on", ""),
        ("hm, so\n</think>\n\nThe answer.", "The answer."),
        ("</think>\nThe answer.", "The answer."),
        ("The tag is called </think> there.", "The tag is called </think> there."),
        ("It says <think>so</think>.", "It says <think>so</think>."),
        ("First line.\nIt says <think>so\n</think>\nLast.", "First line.\nIt says <think>so\n</think>\nLast."),
        ("The answer.", "The answer."),
        ("", ""),
    ],
)
def test_s1_6_reasoning_at_the_beginning_is_not_shown(text, left):
    """Reasoning at the beginning is not shown, with both tags, without the end tag or without the start tag.

    The start tag is missing where a server's template has opened it.
    """
    assert spoken(text) == left


BUDGET = Budget.of({Kind.TOOL_CALLS: 9})
READ = "     3\tOwls eat mice at night.\n     4\t\n     5\tIn winter they   also eat\n     6\tvoles.\n[lines 3-6 of 9]"
GREP = "notes/owls.md:3: Owls eat mice at night.\nnotes/owls.md:4- \nnotes/owls.md:5: In winter they   also eat"
FOLDED = "Owls eat mice at night. In winter they also eat"


def result(text, *, name="read", arguments=None, is_error=False):
    """Return an executed call with this result."""
    call = ToolCall("call_1", name, {"path": "notes/owls.md"} if arguments is None else arguments)
    return Executed(call, text, is_error, repeated=False, budget=BUDGET)


def verified(quote, *results):
    """Return whether a quote is verified by these results."""
    (one,) = evidence.check([("somewhere", quote)], [result(text) for text in results])
    assert (one.source, one.quote) == ("somewhere", quote)
    return one.verified


@pytest.mark.parametrize(
    "quote",
    [
        "Owls eat mice at night.",
        "eat mice",
        "  Owls\teat\nmice at   night.\n",
        FOLDED,
        "Owls eat mice at night.\n\nIn winter they   also eat",
        "Owls eat mice at night. In winter",
    ],
)
@pytest.mark.parametrize("text", [READ, GREP], ids=["read", "grep"])
def test_a_quote_is_found_across_lines_prefixes_and_white_space(quote, text):
    """A quote is found despite the line numbers of `read`, the `path:line:` of `grep` and different white space."""
    assert verified(quote, "another result", text)


@pytest.mark.parametrize(
    "quote",
    [
        "owls eat mice at night.",
        "Owls eat rats at night.",
        "Owls eat mice … night.",
        "Owls eat mice at night. voles.",
        '"Owls eat mice at night."',
        "voles. Owls",
        "Owlseat mice",
        "",
        " \n\t",
    ],
)
def test_an_altered_quote_is_not_verified(quote):
    """A quote with another word, another order, a gap or no text is not verified."""
    assert not verified(quote, READ, GREP)


def test_a_quote_does_not_run_from_one_result_into_the_next():
    """A quote cannot span two results."""
    assert not verified("at night. Toads sleep", "Owls eat mice at night.", "Toads sleep in winter.")


@pytest.mark.parametrize(
    "text", ["read failed: there is no cheese moon", "notes.md:1: owls\n[in no file: cheese moon]"]
)
def test_errors_and_notices_are_not_sources_for_quotes(text):
    """Errors and a tool's notices in brackets may echo the question and are not sources for quotes."""
    (one,) = evidence.check([("x", "cheese moon")], [result(text, is_error="failed" in text)])
    assert not one.verified


def test_a_salvage_starts_with_its_reason_then_the_newest_results():
    """A salvage starts with its reason, then has the model's last text, then the results from newest to oldest."""
    text = evidence.salvage("interrupted", "So far: mice.", [result("first"), result("second", name="grep")])
    assert text == (
        "[No finished answer: interrupted. This is what was gathered until then.]\n\n"
        "So far: mice.\n\n"
        'grep {"path": "notes/owls.md"}\nsecond\n\n'
        'read {"path": "notes/owls.md"}\nfirst'
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
RESULTS = st.lists(
    st.builds(
        result,
        st.text() | st.integers(0, 5000).map("y".__mul__),
        name=st.text(min_size=1, max_size=9),
        arguments=st.dictionaries(st.text(max_size=9), JSON, max_size=3),
        is_error=st.booleans(),
    ),
    max_size=30,
)


@given(st.text(max_size=50), st.text(max_size=200), RESULTS)
def test_a_salvage_never_raises_and_its_excerpts_are_bounded(why, last, results):
    """A salvage never raises; the excerpts stay within the total and each within its own limit."""
    text = evidence.salvage(why, last, results)
    gathered = evidence.gathered(results)
    assert bool(text) == bool(last or gathered)
    assert (last in text) or not text
    headings = sum(len(one.source) + 5 for one in gathered)
    assert len(text) <= 100 + len(why) + len(last) + headings + SALVAGED_TOTAL
    assert all(len(one.quote) <= GATHERED_QUOTE for one in gathered)


# While a reply to a schema request streams: JSON is marked as input of `respond`, anything else is text.
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
