"""Child runs on the page of their parent, in the page data and in a browser."""

import html
import json
from dataclasses import replace

import pytest

from run_specialist.budget import Kind
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child
from run_specialist.views.report import data, report
from tests.views.full import full_run
from tests.views.odd import ODD, odd_run
from tests.views.recording import Did
from tests.views.runs import Tape

OWLS = Child(
    "a", "owls", "landed", 5, Usage(1_000), 0.02, children=(Child("c", "mice", "answered", 2, Usage(300), 0.01),)
)
SAME = Child("b", "owls", "failed", 1, Usage(0, 0, 0, 50), 0.001)


def ask(name, query, seconds=2.0, **others):
    """Return a call of `delegate`."""
    return Did("delegate", {"specialist": name, "query": query}, f"[{name}]", seconds, **others)


def parent(*children, shared=True):
    """Return a run that asked two children in one turn; its usage includes theirs."""
    tape = Tape({Kind.TOOL_CALLS: 16, Kind.TOKENS: 100_000})
    tape.turn("I ask.", ask("owls", "When?", 1.0, is_error=True), ask("owls", "Why?", 3.0))
    tape.ask("", [Did("respond", {"answer": "So."}, "")], stop="answered")
    own = sum((turn.reply.usage for turn in tape.turns), Usage())
    if shared:
        for one in children:
            tape.budget = tape.budget.spend(one.tool_calls).spend(one.usage.total_tokens, Kind.TOKENS)
    outcome = tape.outcome("answered", "So.", children=children)
    outcome = replace(outcome, usage=sum((one.usage for one in children), own), cost_usd=0.5)
    run = tape.end(outcome)
    frozen = {**run.frozen, "settings": {**run.frozen["settings"], "share_budget": shared}}
    return replace(run, children=children, frozen=frozen, outcome=json.loads(json.dumps(run.outcome)))


def kept(child, question, parent_id):
    """Return the stored run of a child."""
    return replace(
        full_run(),
        run_id=child.run_id,
        parent_id=parent_id,
        specialist=child.specialist,
        status=child.status,
        question=question,
        children=child.children,
    )


RUNS = {"a": kept(OWLS, "Why?", "p"), "b": kept(SAME, "When?", "p"), "c": kept(OWLS.children[0], "Who eats whom?", "a")}


@pytest.fixture
def shown():
    """Provide the page data of a run with all three children."""
    return data(parent(OWLS, SAME), RUNS)


def test_x_11_the_tree_has_each_with_its_question_and_figures(shown):
    """The tree shows each child with question, figures and the call that started it, also for parallel children."""
    owls, same = shown["children"]["asked"]
    assert [(one["run_id"], one["question"], one["call"]) for one in (owls, same)] == [
        ("a", "Why?", 2),
        ("b", "When?", 1),
    ]
    assert (owls["status"], owls["calls"], owls["limit"], owls["tokens"], owls["cost_usd"]) == (
        "landed",
        5,
        full_run().outcome["tool_calls"]["limit"],
        1_000,
        0.02,
    )
    (mice,) = owls["asked"]
    assert (mice["run_id"], mice["question"], mice["call"], mice["tokens"]) == ("c", "Who eats whom?", None, 300)
    assert len(owls["did"]) == len(full_run().calls)
    assert [call["child"] for turn in shown["turns"] for call in turn["calls"]] == ["b", "a", None]
    assert json.loads(json.dumps(shown)) == shown


def test_x_11_spending_of_children_is_counted_once(shown):
    """The children's spending counts once in the figures and the chart, and is listed separately from the requests."""
    own = shown["requests"]["total"]["total"]
    took = shown["children"]
    assert (took["calls"], took["tokens"], took["cost_usd"]) == (6, 1_050, pytest.approx(0.021))
    assert shown["facts"]["tokens"] == own + 1_050
    assert shown["facts"]["calls"] == 2 + 6
    (line,) = next(kind["lines"] for kind in shown["budget"]["kinds"] if kind["kind"] == "tool_calls")
    assert sorted({share * 16 for _, share in line}) == [0, 1, 2, 3, 8]
    (tokens,) = next(kind["lines"] for kind in shown["budget"]["kinds"] if kind["kind"] == "tokens")
    assert tokens[-1][1] == pytest.approx((own + 1_050) / 100_000, abs=1e-4)


def test_a_deleted_child_keeps_its_figures():
    """A deleted child still has its figures and its own children, taken from the parent's outcome."""
    run = replace(parent(OWLS), children=())
    shown = data(run)
    (owls,) = shown["children"]["asked"]
    assert (owls["kept"], owls["question"], owls["calls"], owls["call"]) == (False, None, 5, 1)
    assert [one["run_id"] for one in owls["asked"]] == ["c"]
    assert "This run is no longer stored." in report(run)


def test_markup_in_texts_of_a_child_is_escaped():
    """Markup in a child's name, question, answer, quotes and calls is shown as text."""
    odd = Child("a", ODD, "partial", 1, Usage(1), None)
    hostile = replace(odd_run(), run_id="a", specialist=ODD)
    page = report(parent(odd), {"a": hostile})
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page
    assert html.escape("{{ 7*7 }}") in page


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1280, 360])
def test_links_lead_from_a_call_to_its_child_and_back(tab, tmp_path, width):
    """Links lead from a call to its child and back and open their target; nothing overflows, no request is made."""
    path = tmp_path / "page.html"
    path.write_text(report(parent(OWLS, SAME), RUNS), encoding="utf-8")
    tab.open(path, "#run-c", width=width)
    assert tab.run("document.getElementById('run-c').open")
    tab.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.run("document.documentElement.scrollWidth") <= width
    links = "[...document.querySelectorAll('#run-a a, #call-2 a')].map((one) => one.getAttribute('href'))"
    assert {"#call-2", "#run-a"} <= set(tab.run(links))
    every = "[...document.querySelectorAll('a[href^=\"#\"]')].map((one) => one.getAttribute('href').slice(1))"
    assert tab.run(f"{every}.filter((id) => !document.getElementById(id))") == []
    inset = "document.getElementById('run-{}').getBoundingClientRect().left"
    assert tab.run(inset.format("c")) > tab.run(inset.format("a")) == tab.run(inset.format("b"))
    assert tab.complaints == []
    assert tab.requests == [path.as_uri()]
