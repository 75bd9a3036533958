"""Live view of nested specialists: the tree, parallel children, and the resources they used."""

import io
import re

import pytest
from rich.console import Console

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind, Rung
from run_specialist.cli.live import CallLines, LiveView, summary
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.record.events import BudgetSpent, Called, ChildTold, Finished, Landed, Started, Warned
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, ToolCalls
from tests.unit.record.outcomes import outcome as make_outcome
from tests.wire.simulator.replies import answers, calls, says, tool_use

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


async def shown(simulator, root, width=120):
    """Return the lines that a terminal of a given width shows for a run, and the run's outcome."""
    paper = io.StringIO()
    view = LiveView(Console(file=paper, width=width, highlight=False))
    async with make_client(base_url=simulator.base_url, api_key="test", max_retries=0) as client:
        runner = Runner(root=root, dir=root / "specialists", provider=AnthropicProvider("haiku", client))
        outcome = await (await runner.prepare("first", "What do owls eat?", listener=view)).outcome()
    return plain(paper.getvalue()).splitlines(), outcome


@pytest.mark.anyio
async def test_x_11_child_lines_follow_the_delegate_call(api, files, notes):
    """Lines of a child run follow the delegate call, with the child's name, countdown, landing and result."""
    lines, outcome = await shown(api(family), notes)
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
    assert plain(summary(outcome)).endswith(" · 1 specialist asked, included")


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


def test_control_characters_of_a_child_are_replaced():
    """Control characters in a child's tool names and arguments are replaced."""
    told = lines_of(
        began("a", "o\x1bwl", "Why\x1b[2J\nnot?"),
        ChildTold("a", "o\x1bwl", call("skipped", 1, "se\x07arch", query="x\x1b]0;")),
    )
    assert told == ["   1  delegate o�wl  Why�[2J not?", "      1.-  o�wl  se�arch x�]0;  not run"]


def test_g_8_arguments_that_are_null_are_not_shown():
    """A constrained model writes null for each argument that it does not need; 0, false and empty texts are shown."""
    told = lines_of(call("skipped", 1, "grep", pattern="owl", path=None, context=0, ignore_case=False, glob=""))
    assert told == ["   -  grep    owl context=0 ignore_case=False glob=  not run"]


def test_the_summary_counts_only_direct_children():
    """Only direct children are counted."""
    inner = Child("c", "owls", "answered", 2, Usage(100), 0.01)
    one = Child("a", "owls", "answered", 5, Usage(1_000), 0.02, children=(inner,))
    two = Child("b", "toads", "landed", 9, Usage(0, 0, 0, 234), 0.03)
    assert summary(outcome_of("x", children=(one, two))).endswith(" · 2 specialists asked, included")


@pytest.mark.parametrize("rung", Rung)
def test_each_rung_of_a_landing_has_a_line(rung):
    """The line of every rung names the limit and what happens now."""
    (line,) = lines_of(Landed(Kind.TOOL_CALLS, rung))
    assert line.startswith("  limit of tool calls reached: ")
