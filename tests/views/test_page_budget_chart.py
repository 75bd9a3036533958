"""The budget chart on the page of a run: limits, phases, and calls that overlap in time."""

from itertools import pairwise

import pytest

from run_specialist.budget import Rung
from run_specialist.views.report import data, report
from tests.views import odd
from tests.views.full import full_run


def test_time_between_segments_takes_no_space_on_the_axis(full):
    """Two hours between two segments are mentioned but take no space on the time axis."""
    assert full["seconds"] == pytest.approx(54.6, abs=0.1)
    assert [mark["words"] for mark in full["timeline"]["marks"]][1] == "Resumed after 2 h 10 min"
    begins = [turn["begin"] for turn in full["turns"]]
    assert begins == sorted(begins)
    assert begins[-1] < full["seconds"]


def test_the_chart_restarts_where_a_limit_is_raised(full):
    """The chart rises in steps and restarts where a limit is raised: 11 calls are 69 % of 16 and 55 % of 20."""
    kinds = {kind["kind"]: kind for kind in full["budget"]["kinds"]}
    assert [kind for kind in kinds if kinds[kind]["lines"]] == ["tool_calls", "tokens", "time"]
    first, second = kinds["tool_calls"]["lines"]
    assert first[0] == [0.0, 0.0]
    assert (first[-1][1], second[0][1], second[-1][1]) == (0.6875, 0.55, 1.0)
    assert kinds["tool_calls"]["share"] == 1.0
    for kind in ("tokens", "time"):
        before, after = kinds[kind]["lines"]
        assert before[-1][1] == pytest.approx(after[0][1], abs=0.001)
    for kind in kinds.values():
        for line in kind["lines"]:
            assert line == sorted(line)
    assert kinds["tokens"]["lines"][1][-1][1] == pytest.approx(kinds["tokens"]["share"], abs=0.001)


def test_the_chart_shows_the_larger_of_recorded_and_visible_use():
    """The recorded budget and the visible calls can differ, by children or a crash; the chart shows the larger one."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 10})
    tape.turn("", odd.grep("x", "x"))
    tape.budget = tape.budget.spend(4)
    tape.resume(10, "Go on.")
    shown = {kind["kind"]: kind for kind in data(tape.stored("running"))["budget"]["kinds"]}
    assert [line[0][1] for line in shown["tool_calls"]["lines"]] == [0, 0.5]
    assert shown["tool_calls"]["used"] == 5
    assert data(odd.interrupted_run())["facts"] | {"cost_usd": 0} == {
        "calls": 4,
        "limit": 10,
        "failed": 0,
        "skipped": 0,
        "turns": 2,
        "tokens": 14_787,
        "cost_usd": 0,
    }
    died = odd.replace(odd.interrupted_run(), snapshot=None)
    assert data(died)["budget"]["kinds"][0]["used"] == 2


def test_a_limit_of_0_is_spent_from_the_start():
    """A limit of 0 is drawn as spent from the start."""
    (line,) = data(odd.odd_run())["budget"]["kinds"][0]["lines"]
    assert {share for _, share in line} == {1.0}


def test_the_chart_includes_the_cost_of_a_summary():
    """The tokens and the cost of a summary are part of the chart."""
    tape = odd.Tape({odd.Kind.TOKENS: 100_000, odd.Kind.COST: 1.0})
    tape.turn("", odd.grep("x", "x"))
    tape.turn("", odd.grep("y", "y"))
    tape.summarize("- notes")
    lines = {kind["kind"]: kind["lines"] for kind in data(tape.stored("running"))["budget"]["kinds"] if kind["lines"]}
    shares = {limit.kind.value: limit.share for limit in tape.budget.limits if limit.limit}
    assert {kind: found[-1][-1][1] for kind, found in lines.items()} == pytest.approx(shares, abs=0.0001)


def test_a_phase_of_zero_length_is_omitted():
    """A phase of zero length is omitted: a run resumed when its budget was just spent shows no spent phase."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 2})
    tape.turn("", odd.grep("x", "x"), odd.grep("y", "y"))
    tape.resume(100, "Go on.", tool_calls=20)
    tape.ask("Done.", stop="answered")
    assert [band["phase"] for band in data(tape.stored("running"))["budget"]["bands"]] == ["silent"]


def test_phases_are_silent_countdown_and_spent(full):
    """The phases are silent up to half of the calls, then countdown, then spent from the landing on."""
    bands = full["budget"]["bands"]
    assert [band["phase"] for band in bands] == ["silent", "countdown", "spent"]
    assert all(one["end"] == two["begin"] for one, two in pairwise(bands))
    (landing,) = full["budget"]["landings"]
    assert (landing["how"], landing["at"]) == ("force", bands[-1]["begin"])


def test_a_run_resumed_with_a_larger_limit_is_silent_again():
    """After a resume with a larger limit, the phase is computed from the new limit and is silent again."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 2})
    tape.turn("", odd.grep("x", "x"), odd.grep("y", "y"))
    tape.land(odd.Kind.TOOL_CALLS, Rung.FORCE)
    tape.ask("So far.", choice="respond", stop="answered")
    tape.resume(100, "Go on.", tool_calls=20)
    tape.ask("Done.", stop="answered")
    run = tape.end(tape.outcome("answered", "Done."))
    assert [band["phase"] for band in data(run)["budget"]["bands"]] == ["silent", "spent", "silent"]


def test_a_run_without_limits_has_no_chart():
    """A run without limits has no chart, but its usage is shown."""
    assert not data(odd.huge_run())["budget"]["limited"]
    assert "This run had no limits." in report(odd.huge_run())
    assert "This run had no limits." not in report(full_run())


def test_overlapping_calls_are_in_different_lanes(full):
    """Calls that overlap in time are in different lanes, and a call uses a free lane if there is one."""
    rows = [row for group in full["timeline"]["groups"] for row in group["rows"]]
    assert [row["lanes"] for row in rows] == [3, 1, 3, 1, 1, 2, 4, 2, 1, 1, 1, 0]
    assert full["timeline"]["calling"] == pytest.approx(3.86)
    for row in rows:
        for one in row["calls"]:
            for two in row["calls"]:
                apart = two["begin"] >= one["begin"] + one["seconds"] or one["begin"] >= two["begin"] + two["seconds"]
                assert one is two or one["lane"] != two["lane"] or apart


def test_a_free_lane_is_reused():
    """Four calls, two of which run at the same time, need two lanes."""
    tape = odd.Tape({})
    tape.turn("", *[odd.grep(sign, sign, 1) for sign in "abcd"])
    for place in (2, 3):
        tape.calls[place] = odd.replace(tape.calls[place], at=tape.calls[place].at + 1)
    tape.now += 1
    tape.ask("Done.", stop="answered")
    (group,) = data(tape.stored("running"))["timeline"]["groups"]
    assert [call["lane"] for call in group["rows"][0]["calls"]] == [0, 1, 0, 1]
    assert group["rows"][0]["lanes"] == 2


def test_each_mark_is_in_one_group_of_turns():
    """Each mark belongs to exactly one group of turns in a long run."""
    shown = data(odd.many_turns(190, 10))["timeline"]
    assert [mark["before"] for group in shown["groups"] for mark in group["marks"]] == [62, 162]
    assert [len(group["rows"]) for group in shown["groups"]] == [25] * 7 + [16]
