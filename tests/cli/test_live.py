"""The live view: a streaming answer, nested specialists, waits, in any width."""

import io
import re

import pytest
from rich.console import Console

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind, Rung
from run_specialist.cli import live
from run_specialist.cli.live import ANSWER_LINES, CallLines, LiveView, RunningTotal, gauge
from run_specialist.cli.tables import summary
from run_specialist.providers.base import Delta
from run_specialist.providers.knowledge import CALLS_AS_TEXT
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Finished,
    Landed,
    Replied,
    Requested,
    Resumed,
    Retrying,
    Started,
    Summarized,
    Waiting,
    Warned,
)
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, ToolCalls
from tests.loop_jobs import Clock
from tests.screen import ReflowingTerminal, screen
from tests.unit.record.outcomes import outcome as make_outcome
from tests.wire.simulator.replies import answers, calls, says, tool_use


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_newest_lines_of_the_answer_are_shown(monkeypatch, width):
    """A long paragraph is wrapped, and its end is on the screen; when the view ends, nothing of it is left."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLUMNS", "LINES", "XTERM_VERSION"):
        monkeypatch.delenv(name, raising=False)
    paper = io.StringIO()

    def seen():
        """Return the screen; a terminal puts a carriage return before each line feed."""
        return screen(paper.getvalue().replace("\n", "\r\n"), width)

    with LiveView(Console(file=paper, force_terminal=True, width=width, height=40, highlight=False)) as view:
        view(Started("r", "finder", "haiku", "Why?", (), {"tool_calls": 30}))
        view.grow(Delta(" ".join(f"word{number}" for number in range(300))))
        view._live.refresh()
        lines = seen()
    newest = lines[-ANSWER_LINES:]
    assert newest[-1].endswith("word299")
    assert all(len(line) <= width for line in lines)
    assert " ".join(newest).split() == [f"word{number}" for number in range(300)][-len(" ".join(newest).split()) :]
    assert seen() == ["finder · haiku"]


TIMES = re.compile(r"[0-9]+\.[0-9] s")
MONEY = re.compile(r"\$[0-9.]+")
TOKENS = re.compile(r"[0-9,]+ tokens")


def ask(name, query):
    """Return a call of `delegate`."""
    return tool_use("delegate", {"specialist": name, "query": query})


def plain(text):
    """Return a text with placeholders for the figures that differ from run to run."""
    return TOKENS.sub("N tokens", MONEY.sub("$0.00", TIMES.sub("0.0 s", text)))


def family(request):
    """Reply for three nested specialists: the first asks the second and an unknown one, the second asks the third."""
    made = request.calls_so_far
    if (request.tool_choice or {}).get("type") == "tool":
        return answers("So far.")
    if "You are first" in str(request.body["system"]):
        wanted = [
            tool_use("read", {"path": "notes/owls.md"}),
            ask("second", "What do owls eat?"),
            ask("nobody", "What?"),
        ]
        return says(wanted[made]) if made < len(wanted) else answers("Mice.")
    if "You are second" in str(request.body["system"]):
        return says(ask("third", "Is it at night?")) if made == 0 else answers("Mice, at night.")
    return calls("read", {"path": "notes/owls.md", "offset": made + 1})


@pytest.fixture
def files(write):
    """Write the three specialist files."""
    write("first", "tools: read", "agents: [second]", "tool_calls_limit: 8", body="You are first.")
    write("second", "tools: read", "agents: [third]", body="You are second.")
    write("third", "tools: read", "tool_calls_limit: 2", body="You are third.")


async def test_x_11_child_lines_follow_the_delegate_call(api, files, notes):
    """Lines of a child run follow the delegate call, with the child's name, countdown, landing and result."""
    api(family)
    paper = io.StringIO()
    view = LiveView(Console(file=paper, width=120, highlight=False))
    async with Runner(model="haiku", store="none") as runner:
        outcome = await (await runner.prepare("first", "What do owls eat?", listener=view)).outcome()
    lines = plain(paper.getvalue()).splitlines()
    refused = lines.pop(-2)
    assert re.match(r"   3  delegate nobody query=What\?  delegate failed: invalid arguments: specialist: ", refused)
    assert lines == [
        "first · claude-haiku-5-5",
        "   1  read    notes/owls.md",
        "   2  delegate second  What do owls eat?",
        "      2.1  second  delegate third  Is it at night?",
        "        2.1.1  third  read    notes/owls.md offset=1  1 remaining",
        "        2.1.2  third  read    notes/owls.md offset=2  0 remaining",
        "        2.1  third  limit of tool calls reached: it must call respond now",
        "      2.1  third landed · 2 of 2 tool calls · N tokens · $0.00 · 0.0 s  3 remaining",
        "   2  second answered · 3 of 6 tool calls · N tokens · $0.00 · 0.0 s  3 remaining",
        "",
    ]
    assert outcome.tool_calls.used == 6
    assert plain(summary(outcome)).endswith(" · 1 specialist asked: 3 tool calls, N tokens, $0.00, included")


def test_a_warning_that_the_live_view_has_shown_is_not_printed_again(api, write, call, monkeypatch):
    """It stands above the answer once; one that only the end of the run brings is printed after it."""
    write("finder", "tools: grep")
    api([says('{"name": "grep", "arguments": {"pattern": "mice"}}'), answers("Mice.", evidence=[QUOTE])])
    paper = io.StringIO()
    console = Console(file=paper, width=200, highlight=False)
    monkeypatch.setattr("run_specialist.cli.ask._view", lambda output: LiveView(console))
    said = call("finder", "What do owls eat?", "--model", "haiku", "--store", "none")
    assert [text.count(CALLS_AS_TEXT) for text in (paper.getvalue(), said.stderr)] == [1, 0]
    assert [text.count("Bread.") for text in (paper.getvalue(), said.stderr)] == [0, 1]


QUOTE = {"source": "notes/owls.md:3", "quote": "Bread."}


def outcome_of(name, **fields):
    """Return the outcome of a child that answered after one call."""
    usual = {"run_id": name, "specialist": name, "status": "answered", "tool_calls": ToolCalls(1, None, 0, 0)}
    return make_outcome(**(usual | fields))


def call(phase, number, name="delegate", text="", **given):
    """Return an event of a tool call."""
    return Called(phase, f"call-{number}", name, given, text=text)


def began(run_id, name, question):
    """Return the first event of a child run."""
    return ChildTold(run_id, name, Started(run_id, name, "haiku", question, (), {}))


def lines_of(*events, width=100):
    """Return the lines printed for some events."""
    paper = io.StringIO()
    call_lines = CallLines(Console(file=paper, width=width, highlight=False))
    for event in events:
        call_lines.add(event)
    return paper.getvalue().splitlines()


SILENT = BudgetSpent("tool_calls", 30, 1, 29, "silent")


def test_two_children_at_once_stay_readable():
    """Each line has the number of its call and a specialist name, even if both children have the same name."""
    told = lines_of(
        call("started", 1, specialist="owls", query="Why?"),
        call("started", 2, specialist="owls", query="When?"),
        began("b", "owls", "When?"),
        began("a", "owls", "Why?"),
        ChildTold("a", "owls", call("finished", 1, "search", query="a")),
        ChildTold("b", "owls", call("finished", 1, "search", query="b")),
        ChildTold("b", "owls", SILENT),
        ChildTold("a", "owls", BudgetSpent("tool_calls", 2, 1, 1, "countdown")),
        ChildTold("b", "owls", Warned("odd\nthing")),
        ChildTold("b", "owls", Finished(outcome_of("owls"))),
        call("finished", 2, specialist="owls", query="When?"),
        SILENT,
        ChildTold("a", "owls", Finished(outcome_of("owls", status="failed", error="no\nmore"))),
        call("failed", 1, text="[owls: failed]", specialist="owls", query="Why?"),
        BudgetSpent("tool_calls", 9, 8, 1, "countdown"),
    )
    assert told == [
        "   1  delegate owls  When?",
        "   2  delegate owls  Why?",
        "      1.1  owls  search  b",
        "      2.1  owls  search  a  1 remaining",
        "      1  owls  odd thing",
        "   1  owls answered · 1 tool call · 1.0 s",
        "   2  owls failed · 1 tool call · 1.0 s  no more  1 remaining",
    ]


def test_g_8_arguments_that_are_null_are_not_shown():
    """A constrained model writes null for arguments that it does not need; control characters are replaced."""
    told = lines_of(call("skipped", 1, "grep", pattern="owl", path=None, context=0, ignore_case=False, glob=""))
    assert told == ["   -  grep    owl context=0 ignore_case=False glob=  not run"]
    told = lines_of(
        began("a", "o\x1bwl", "Why\x1b[2J\nnot?"),
        ChildTold("a", "o\x1bwl", call("skipped", 1, "se\x07arch", query="x\x1b]0;")),
    )
    assert told == ["   1  delegate o�wl  Why�[2J not?", "      1.-  o�wl  se�arch x�]0;  not run"]


def test_the_summary_counts_only_direct_children():
    """Each includes its descendants; unknown prices are omitted; the live total adds up all requests and past ones."""
    inner = Child("c", "owls", "answered", 2, Usage(100), 0.01)
    one = Child("a", "owls", "answered", 5, Usage(1_000), 0.02, children=(inner,))
    two = Child("b", "toads", "landed", 9, Usage(0, 0, 0, 234), 0.03)
    assert summary(outcome_of("x", children=(one, two))).endswith(
        "2 specialists asked: 14 tool calls, 1,234 tokens, $0.05, included"
    )
    unpriced = Child("b", "toads", "landed", 1, Usage(10), None)
    assert summary(outcome_of("x", children=(unpriced,))).endswith(
        "1 specialist asked: 1 tool call, 10 tokens, included"
    )
    total = RunningTotal()
    total.add(Resumed("run-1", {}, "", 1_000, 0.5))
    total.add(replied(100, 0.25))
    total.add(ChildTold("run-2", "second", ChildTold("run-3", "third", replied(20, 0.125))))
    total.add(Summarized("", 1, 2, 3, Usage(3, 0, 0, 0), 0.0625))
    assert (total.tokens, total.cost_usd) == (1_123, 0.9375)
    total.add(replied(1, None))
    total.add(replied(1, 1.0))
    assert (total.tokens, total.cost_usd) == (1_125, None)


PATH = "thoughts/shared/decisions/landing-reserve.md"


@pytest.mark.parametrize(("width", "shown"), [(200, PATH), (50, "…/landing-reserve.md"), (30, "…/la")])
def test_a_line_of_the_live_view_shows_the_end_of_a_path(width, shown):
    """A terminal with room shows the whole path, a narrow one its end; each rung of a landing has a line."""
    called = Called("finished", "call_1", "read", {"path": PATH, "offset": 54})
    (line,) = lines_of(called, BudgetSpent("tool_calls", 30, 1, 29, "silent"), width=width)
    assert line.startswith(f"   1  read    {shown}")
    assert len(line) <= width
    for rung in Rung:
        (line,) = lines_of(Landed(Kind.TOOL_CALLS, rung))
        assert line.startswith("  limit of tool calls reached: ")


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


def view(width=80):
    """Return a view of some width."""
    return LiveView(Console(file=io.StringIO(), width=width, highlight=False))


def drawn(view, width=80):
    """Return the lines at the bottom of the terminal."""
    paper = io.StringIO()
    Console(file=paper, width=width, highlight=False).print(view._render())
    return paper.getvalue().splitlines()


def test_w2_w6_a_wait_shows_the_time_left_and_the_reason(clock):
    """The seconds count down; a child's wait has its name; what streamed before is gone, the next piece ends it."""
    shown = view()
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
    lost = Retrying(None, 4.0, 1, "cannot reach http://x")
    shown(ChildTold("run-2", "second", lost))
    assert "second: retry 1 in 4 s · cannot reach http://x" in drawn(shown)[0]
    shown(ChildTold("run-2", "second", ChildTold("run-3", "third", lost)))
    assert "third: retry 1 in 4 s" in drawn(shown)[0]
    shown(ChildTold("run-2", "second", Called("started", "c", "read", {"path": "a"})))
    assert "second: read" in drawn(shown)[0]
    shown = view()
    shown(START)
    shown(Requested(1, "auto"))
    shown.grow(live.Delta("The first half"))
    assert "The first half" in drawn(shown)[2]
    shown(WAIT)
    assert len(drawn(shown)) == 2
    shown.grow(live.Delta("Anew"))
    assert ("thinking" in drawn(shown)[0], drawn(shown)[2]) == (True, "Anew")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_r7_a_wait_for_the_api_shows_the_time_left_and_the_reason(clock, width):
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


@pytest.mark.parametrize(
    ("width", "cost", "text"),
    [
        (200, 0.0123, f"{'━' * 24} 3 of 30 tool calls  turn 4 · 12,345 tokens · $0.01 · 45 s"),
        (80, 0.0123, f"{'━' * 22} 3 of 30 tool calls  turn 4 · 12,345 tokens · $0.01 · 45 s"),
        (80, None, f"{'━' * 24} 3 of 30 tool calls  turn 4 · 12,345 tokens · 45 s"),
        (80, 0.0, f"{'━' * 24} 3 of 30 tool calls  turn 4 · 12,345 tokens · 45 s"),
        (60, 0.0123, f"{'━' * 24} 3/30  12,345 tokens · $0.01 · 45 s"),
        (40, 0.0123, f"{'━' * 5} 3/30  12,345 tokens · $0.01 · 45 s"),
        (25, 0.0123, " 3/30  12,345 tokens · $…"),
    ],
)
def test_the_gauge_fits_the_width(width, cost, text):
    """The bar gets what the text leaves, a narrower terminal less text; an unknown cost and none are not shown."""
    budget = BudgetSpent("tool_calls", 30, 3, 27, "silent")
    assert gauge(budget, 3, 4, RunningTotal(12_345, cost), 45, width).plain == text


def ordinary(text):
    """Return what a terminal shows of a text without its colors."""
    return re.sub(r"\x1b\[\?25[lh]", "", text)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("widths", [(100, 40, 60), (60, 33, 100), (40, 100, 33)], ids=str)
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
