"""Merging the notes of a pass into one summary within its limit."""

import pytest

from run_specialist.errors import ProviderError
from tests.scripted_provider import says
from tests.transcripts import history, summaries, turn
from tests.unit.loop.summarizing import one_pass, request_text

pytestmark = pytest.mark.anyio


async def test_s2_7_an_earlier_summary_is_merged_only_if_it_does_not_fit():
    """An earlier summary is kept verbatim while it fits, since repeated summarising loses information."""
    first, _ = await one_pass([says("e" * 300)], history(2))
    said = [*first.history, *turn(("call_9", "9" * 100))]
    kept, provider = await one_pass([says("new")], said)
    assert kept.summary == "e" * 300 + "\n\nnew"
    assert "eee" not in request_text(provider)
    merged, provider = await one_pass([says("n" * 200), says("both")], said)
    assert "e" * 300 + "\n\n" + "n" * 200 in request_text(provider, 1)
    assert summaries(merged.history) == ["both"]


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
