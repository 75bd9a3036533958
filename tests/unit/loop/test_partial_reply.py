"""The readable part of a reply that is still streaming."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.loop.exchange import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.record.messages import spoken


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
