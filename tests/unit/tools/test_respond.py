"""The arguments of `respond` are read leniently; nothing a model writes raises."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import ToolError
from run_specialist.tools.respond import MOST_EVIDENCE, Evidence, Response, respond_tool


def test_well_formed_arguments():
    """The ordinary case keeps all that was given."""
    response = Response.parse(
        {"answer": "Yes.", "evidence": [{"source": "a.md:1", "quote": "yes"}], "gaps": ["the date"]}
    )
    assert response.model_dump() == {
        "answer": "Yes.",
        "evidence": [{"source": "a.md:1", "quote": "yes"}],
        "gaps": ["the date"],
    }


@pytest.mark.parametrize("arguments", [None, {}, {"answer": None}, {"Answer": "x"}])
def test_a_missing_answer_is_empty(arguments):
    """No answer becomes the empty string."""
    assert Response.parse(arguments).answer == ""


def test_an_answer_that_is_no_text_is_kept_as_text():
    """What a model sends in another shape is not thrown away."""
    assert Response.parse({"answer": 3}).answer == "3"
    assert Response.parse({"answer": ["x"]}).answer == '["x"]'


@pytest.mark.parametrize(
    "evidence",
    [
        ["said so"],
        "said so",
        '["said so"]',
        [{"quote": "said so"}],
        {"quote": " said so "},
        '[{"quote": "said so"}]',
        '{"quote": "said so", "source": null}',
    ],
)
def test_evidence_in_any_shape(evidence):
    """Strings, one object, or JSON in a string are understood."""
    assert Response.parse({"answer": "x", "evidence": evidence}).evidence == [Evidence(quote="said so")]


def test_too_much_evidence_is_cut_and_empty_pieces_dropped():
    """At most twenty pieces are kept."""
    many = [{"source": str(number), "quote": "q"} for number in range(30)]
    assert len(Response.parse({"evidence": [{}, None, "", *many]}).evidence) == MOST_EVIDENCE


def test_gaps_as_one_string():
    """A single gap may come without its list."""
    assert Response.parse({"gaps": "the date"}).gaps == ["the date"]
    assert Response.parse({"gaps": 7}).gaps == ["7"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["answer", "evidence", "gaps", "other"]), ANYTHING))
def test_nothing_raises(arguments):
    """Any JSON at all gives a response."""
    assert len(Response.parse(arguments).evidence) <= MOST_EVIDENCE


def test_the_tool_describes_itself():
    """`answer` is required, evidence is bounded, and each argument is described."""
    schema = respond_tool().input_schema
    assert schema["required"] == ["answer"]
    assert schema["properties"]["evidence"]["maxItems"] == MOST_EVIDENCE
    assert all("description" in item for item in schema["properties"].values())


def test_the_function_is_not_for_running():
    """The loop never runs `respond`; doing so is a programming error."""
    with pytest.raises(ToolError):
        asyncio.run(respond_tool().call({"answer": "x"}))
