"""The live view during waits: the time left, tokens and cost so far, in any width, without traces after a resize."""

import io
import itertools
import re

import pytest
from rich.console import Console

from run_specialist.cli import live
from run_specialist.cli.live import LiveView, RunningTotal, gauge
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Replied,
    Requested,
    Resumed,
    Retrying,
    Started,
    Summarized,
    Waiting,
)
from run_specialist.record.messages import Usage
from tests.loop_jobs import Clock
from tests.reflowing_terminal import ReflowingTerminal

WAIT = Retrying(429, 60.0, 2, "the API answered 429: This request would exceed\x1b[2J your rate limit.")
START = Started("run-1", "looker", "haiku", "What?", (), {"tool_calls": 30})


def replied(tokens, cost):
    """Return the event of a reply."""
    return Replied(1, "answered", "", "", Usage(tokens, 0, 0, 0), cost)


@pytest.fixture
def clock(monkeypatch):
    """Set the clock of the live view."""
    clock = Clock()
    monkeypatch.setattr(live.time, "monotonic", clock)
    return clock


@pytest.fixture
def view():
    """Return a function that makes a view of some width, and one that draws it as lines."""

    def make(width):
        return LiveView(Console(file=io.StringIO(), width=width, highlight=False))

    return make


def drawn(view, width=80):
    """Return the lines at the bottom of the terminal."""
    paper = io.StringIO()
    Console(file=paper, width=width, highlight=False).print(view._render())
    return paper.getvalue().splitlines()


def test_w2_a_wait_shows_the_time_left_and_the_reason(clock, view):
    """The seconds count down; after them, until the reply arrives, the retry is said to be on its way."""
    shown = view(80)
    for event in (START, Requested(1, "auto"), WAIT):
        shown(event)
    assert "retry 2 in 60 s · the API answered 429: This request would exceed" in drawn(shown)[0]
    assert "\x1b" not in drawn(shown)[0]
    clock.now += 57.5
    assert "retry 2 in 3 s · " in drawn(shown)[0]
    clock.now += 3
    assert "retry 2 now · " in drawn(shown)[0]
    shown(replied(5, 0.1))
    assert "thinking" in drawn(shown)[0]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_w2_the_time_left_is_seen_in_any_width(clock, view, width):
    """Narrow terminals cut the reason; every line fits."""
    shown = view(width)
    for event in (START, Requested(1, "auto"), replied(12_345, 0.0123), WAIT):
        shown(event)
    lines = drawn(shown, width)
    assert "retry 2 in 60 s · the API" in lines[0]
    assert "$0.01" in lines[1]
    assert "12,345 tokens" in lines[1]
    assert len(lines) == 2
    assert max(map(len, lines)) <= width


def test_w6_the_text_of_a_broken_attempt_disappears(clock, view):
    """What streamed before a wait is not shown any more; the next piece ends the wait."""
    shown = view(80)
    shown(START)
    shown(Requested(1, "auto"))
    shown.grow(live.Delta("The first half"))
    assert "The first half" in drawn(shown)[2]
    shown(WAIT)
    assert len(drawn(shown)) == 2
    shown.grow(live.Delta("Anew"))
    assert "thinking" in drawn(shown)[0]
    assert drawn(shown)[2] == "Anew"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_r7_a_wait_for_the_api_shows_the_time_left_and_the_reason(clock, view, width):
    """The seconds count down if they are known; the end of the wait, or a piece of the reply, removes the line."""
    shown = view(width)
    for event in (START, Requested(1, "auto"), Waiting("started", 59.2, "the API answered 429: not\x1b[2J now")):
        shown(event)
    assert "waiting 60 s · the API answered" in drawn(shown, width)[0]
    assert "\x1b" not in drawn(shown, width)[0]
    clock.now += 58
    assert "waiting 2 s · " in drawn(shown, width)[0]
    clock.now += 5
    assert "waiting · the API" in drawn(shown, width)[0]
    shown(Waiting("finished", 63.0, "the API answered 429: not now"))
    assert "thinking" in drawn(shown, width)[0]
    shown(ChildTold("run-2", "second", Waiting("started", None, "4 requests at once")))
    assert "second: waiting · 4 requests at once" in drawn(shown, 80)[0]
    shown(ChildTold("run-2", "second", Waiting("finished", 3.0, "4 requests at once")))
    assert "waiting" not in drawn(shown, 80)[0]


def test_w2_a_wait_of_a_child_has_its_name(clock, view):
    """The wait of a child, or of its child, is shown under the name of the one that waits."""
    shown = view(80)
    shown(START)
    shown(ChildTold("run-2", "second", Retrying(None, 4.0, 1, "cannot reach http://x")))
    assert "second: retry 1 in 4 s · cannot reach http://x" in drawn(shown)[0]
    shown(ChildTold("run-2", "second", ChildTold("run-3", "third", Retrying(None, 4.0, 1, "cannot reach http://x"))))
    assert "third: retry 1 in 4 s" in drawn(shown)[0]
    shown(ChildTold("run-2", "second", Called("started", "c", "read", {"path": "a"})))
    assert "second: read" in drawn(shown)[0]


def test_tokens_and_cost_are_those_of_all_requests():
    """Replies, summaries, children and what was spent before the run was resumed are added up."""
    total = RunningTotal()
    total.add(Resumed("run-1", {}, "", 1_000, 0.5))
    total.add(replied(100, 0.25))
    total.add(ChildTold("run-2", "second", ChildTold("run-3", "third", replied(20, 0.125))))
    total.add(Summarized("", 1, 2, 3, Usage(3, 0, 0, 0), 0.0625))
    assert (total.tokens, total.cost_usd) == (1_123, 0.9375)
    total.add(replied(1, None))
    total.add(replied(1, 1.0))
    assert (total.tokens, total.cost_usd) == (1_125, None)


@pytest.mark.parametrize("cost", [None, 0.0])
def test_an_unknown_cost_and_none_are_not_shown(cost):
    """A price that is not known is not mentioned all the time, and offline nothing is billed."""
    line = gauge(BudgetSpent("tool_calls", 30, 3, 27, "silent"), 3, 4, RunningTotal(12_345, cost), 45, 80).plain
    assert line.endswith(" 3 of 30 tool calls  turn 4 · 12,345 tokens · 45 s")


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (200, f"{'━' * 24} 3 of 30 tool calls  turn 4 · 12,345 tokens · $0.01 · 45 s"),
        (80, f"{'━' * 22} 3 of 30 tool calls  turn 4 · 12,345 tokens · $0.01 · 45 s"),
        (60, f"{'━' * 24} 3/30  12,345 tokens · $0.01 · 45 s"),
        (40, f"{'━' * 5} 3/30  12,345 tokens · $0.01 · 45 s"),
        (25, " 3/30  12,345 tokens · $…"),
    ],
)
def test_the_gauge_fits_the_width(width, text):
    """The bar gets what the text leaves; a narrower terminal shows less text."""
    budget = BudgetSpent("tool_calls", 30, 3, 27, "silent")
    assert gauge(budget, 3, 4, RunningTotal(12_345, 0.0123), 45, width).plain == text


def ordinary(text):
    """Return what a terminal shows of a text without its colors."""
    return re.sub(r"\x1b\[\?25[lh]", "", text)


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("widths", list(itertools.permutations([100, 60, 40, 33], 3)), ids=str)
@pytest.mark.parametrize("late", [False, True])
def test_a_resize_leaves_no_traces(clock, monkeypatch, widths, late):
    """After any resizes each line is there once, also if frames were drawn before the program knew the new width."""
    terminal, paper = ReflowingTerminal(widths[0]), io.StringIO()
    console = Console(file=paper, width=widths[0], highlight=False, force_terminal=True, legacy_windows=False)
    shown = LiveView(console)
    shown._live.auto_refresh = False

    def show():
        terminal.write(ordinary(paper.getvalue()))
        paper.seek(0)
        paper.truncate()

    with shown:
        for event in (START, Requested(1, "auto"), replied(12_345, 0.0123), WAIT):
            shown(event)
        shown._live.refresh()
        show()
        for width in widths[1:]:
            terminal.resize(width)
            if late:
                shown._live.refresh()
                show()
            console.width = width
            shown._live.refresh()
            show()
            assert [line for line in terminal.lines if "retry 2" in line] == terminal.lines[1:2]
            assert len(terminal.lines) == 3
            assert max(map(len, terminal.lines)) <= width
    show()
    assert terminal.lines == ["looker · haiku"]
