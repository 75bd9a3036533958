"""The report of a fork and of its source: both side by side, and what was copied marked as such."""

import pytest

from run_specialist.views.report import data, kin, report
from tests.journals import load
from tests.loop.stored_replies import ANSWER, THREE, looks
from tests.scripted_provider import says
from tests.stored_runs import StoredRunHarness

pytestmark = pytest.mark.anyio


async def pair(folder):
    """Make a run and its fork at turn 2; return both as stored."""
    desk = StoredRunHarness(folder)
    first = await desk.ask(*THREE, ANSWER, tool_calls_limit=5)
    fork = await desk.fork(2, looks(4), says("It is <b>not</b> known."))
    return (load(desk.url, one.outcome.run_id) for one in (first, fork))


async def test_f_8_both_runs_are_shown_side_by_side(tmp_path):
    """The page of either run shows where they part, and what each did, used and answered after that."""
    source, fork = await pair(tmp_path)
    stored = {one.run_id: one for one in (source, fork)}
    of_fork = data(fork, kin=kin(fork, stored.__getitem__, []))
    of_source = data(source, kin=kin(source, stored.__getitem__, [fork.run_id]))
    for page, this in ((of_fork, fork), (of_source, source)):
        (shown,) = page["comparison"]
        assert (shown["at"], shown["calls"]) == (2, 2)
        before, after = shown["sides"]
        assert [one["this"] for one in (before, after)] == [one["run_id"] == this.run_id for one in (before, after)]
        assert (before["next"], after["next"]) == ('look {"query": "3"}', 'look {"query": "4"}')
        assert (before["turns"], before["calls"], before["tokens"], before["cost_usd"]) == (2, 1, 30, 0.0003)
        assert (after["turns"], after["calls"], after["tokens"], after["cost_usd"]) == (2, 1, 30, 0.0003)
        assert (before["answer"]["text"], after["answer"]["text"]) == ("It is known.", "It is <b>not</b> known.")
    assert of_fork["copied"] == {"turns": 2, "calls": 2}
    assert [one["copied"] for one in of_fork["turns"]] == [True, True, False, False]
    page = report(fork, kin=kin(fork, stored.__getitem__, []))
    assert "They part after turn 2" in page
    assert "<b>not</b> known" not in page
    assert "Side by side" not in report(source)


async def test_f_3_the_page_bills_only_what_the_fork_has_requested(tmp_path):
    """Requests, timeline and figures leave the copied turns out; the budget begins with what they spend."""
    _, fork = await pair(tmp_path)
    page = data(fork)
    assert [row["turn"] for row in page["requests"]["rows"]] == [3, 4]
    assert page["requests"]["sentences"][0].startswith(f"The first 2 turns are copied from {fork.forked_from}")
    assert [row["turn"] for group in page["timeline"]["groups"] for row in group["rows"]] == [3, 4]
    assert (page["facts"]["tokens"], page["facts"]["cost_usd"], page["facts"]["turns"]) == (30, 0.0003, 2)
    (calls,) = [kind for kind in page["budget"]["kinds"] if kind["kind"] == "tool_calls"]
    assert [share for _, share in calls["lines"][0]] == [0.4, 0.4, 0.6, 0.6]
    (mark,) = page["turns"][2]["before"]
    assert (mark["kind"], mark["words"]) == ("forked", f"Forked from {fork.forked_from}")


async def test_f_4_the_source_may_be_gone(tmp_path):
    """Without its source, the page of a fork names it and the model of the copied turns, and shows the rest."""
    _, fork = await pair(tmp_path)
    (shown,) = data(fork)["comparison"]
    before, after = shown["sides"]
    assert (before["run_id"], before["kept"], before["model"]) == (fork.forked_from, False, "scripted")
    assert after["kept"]
    assert "It is no longer stored." in report(fork)
