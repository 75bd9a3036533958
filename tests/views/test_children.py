"""Child runs on the page of their parent, in the page data and in a browser."""

import html
import json
from dataclasses import replace

import pytest

from run_specialist.loop.run import Run
from run_specialist.record.events import FileChanged
from run_specialist.record.journal import Ended
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, Spent
from run_specialist.store.stored import StoredEvent
from run_specialist.tools.text_edit import diff_of
from run_specialist.views.report import MOST_LINES, data, kin, report
from tests.journals import Notebook, load, stored
from tests.loop.replies import ANSWER, GONE, THREE, chained, looks
from tests.loop_jobs import job
from tests.scripted_provider import says
from tests.stored_runs import StoredRunHarness
from tests.views.full import full_run
from tests.views.odd import ODD, odd_run
from tests.views.recording import Did, recorded, turn

OWLS = Child(
    "a", "owls", "landed", 5, Usage(1_000), 0.02, children=(Child("c", "mice", "answered", 2, Usage(300), 0.01),)
)
SAME = Child("b", "owls", "failed", 1, Usage(0, 0, 0, 50), 0.001)


def ask(query, seconds, **others):
    """Return a call of `delegate`."""
    return Did("delegate", {"specialist": "owls", "query": query}, "[owls]", seconds, **others)


def parent(*children):
    """Return a run that asked two children in one turn; its usage includes theirs."""
    asked = turn("I ask.", ask("When?", 1.0, is_error=True), ask("Why?", 3.0))
    records = recorded(
        asked,
        turn("", Did("respond", {"answer": "So."})),
        tool_calls_limit=16,
        total_tokens_limit=100_000,
        share_budget=True,
    )
    run, outcome = stored(records), next(one.outcome for one in records if isinstance(one, Ended))
    usage = sum((one.usage for one in children), outcome.usage)
    calls = outcome.tool_calls.used + sum(one.tool_calls for one in children)
    limits = {**outcome.limits, "tool_calls": Spent(calls, 16), "tokens": Spent(usage.total_tokens, 100_000)}
    outcome = replace(outcome, children=children, usage=usage, limits=limits, cost_usd=0.5)
    return replace(run, children=children, outcome=json.loads(json.dumps(outcome.as_json())))


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


def test_x_11_the_tree_has_each_with_its_figures_which_are_counted_once(shown):
    """Each child with question, figures and the call that started it; its spending counts once."""
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
    """They and its own children are in the parent's outcome; markup in a child's texts is shown as text."""
    run = replace(parent(OWLS), children=())
    shown = data(run)
    (owls,) = shown["children"]["asked"]
    assert (owls["kept"], owls["question"], owls["calls"], owls["call"]) == (False, None, 5, 1)
    assert [one["run_id"] for one in owls["asked"]] == ["c"]
    assert "This run is no longer stored." in report(run)
    odd = Child("a", ODD, "partial", 1, Usage(1), None)
    page = report(parent(odd), {"a": replace(odd_run(), run_id="a", specialist=ODD)})
    assert page.count("<script>") == page.count("</script>") == 1
    assert ("<img" in page, html.escape("{{ 7*7 }}") in page) == (False, True)


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


def changed(run, at, path, before, after, *, call_id="none", **others):
    """Return a run that has changed a file."""
    diff = diff_of(path, before, after)
    event = FileChanged(call_id, path, diff.text, diff.added, diff.removed, before is None, **others)
    return replace(run, events=(*run.events, StoredEvent(len(run.events) + 1, at, event.as_json())))


def test_each_change_is_a_diff_with_its_call():
    """In the order in which they were made; a child's change names the child; a long one is cut."""
    run = full_run()
    first = run.calls[0]
    run = changed(run, 2.0, "a<b>.md", "one\ntwo\n", "one\n<i>2</i>\n", call_id=first.call.id)
    child = changed(replace(full_run(), run_id="child", specialist="helper", events=()), 1.0, "new.md", None, "-- x\n")
    of_child, own = data(run, {"child": child})["changes"]
    assert (of_child["path"], of_child["by"], of_child["call"], of_child["is_new"]) == ("new.md", "helper", None, True)
    assert [(line["kind"], line["text"]) for line in of_child["lines"]] == [
        ("place", "@@ -0,0 +1 @@"),
        ("new", "+-- x"),
    ]
    assert (own["by"], own["call"], own["added"], own["removed"]) == (None, first.number, 1, 1)
    assert [line["kind"] for line in own["lines"]] == ["place", "same", "old", "new"]
    page = report(run)
    assert "+&lt;i&gt;2&lt;/i&gt;</span>" in page
    assert "<i>2</i>" not in page
    assert f'<a href="#call-{first.number}">call {first.number}</a>' in page
    assert "This was a dry run" in report(changed(full_run(), 1.0, "a.md", "a\n", "b\n", dry_run=True))
    assert "Changes of files" not in report(full_run())
    run = changed(full_run(), 1.0, "a.md", "", "x\n" * (MOST_LINES + 50))
    (change,) = data(run)["changes"]
    assert (len(change["lines"]), change["left_out"]) == (MOST_LINES, 51)


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


async def test_f_3_f_4_the_page_bills_only_what_the_fork_has_requested(tmp_path):
    """Figures leave the copied turns out; the budget begins with what they spend; the source may be gone."""
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
    _, fork = await pair(tmp_path)
    (shown,) = data(fork)["comparison"]
    before, after = shown["sides"]
    assert (before["run_id"], before["kept"], before["model"]) == (fork.forked_from, False, "scripted")
    assert after["kept"]
    assert "It is no longer stored." in report(fork)


async def test_m_2_the_report_says_which_model_answered_what():
    """The models, the change between the turns, and why the cache was not read."""
    cached = replace(looks(1), usage=Usage(10, 0, 5_000, 5))
    later = replace(looks(2), usage=Usage(10, 0, 5_000, 5))
    last = replace(ANSWER, usage=Usage(10, 5_000, 0, 5))
    chain, _ = chained([cached, GONE], [later, last])
    notebook = Notebook()
    await Run(job(chain), journal=notebook).outcome()
    run = stored(notebook.records)
    found = data(run)
    assert [(one["model"], one["turns"]) for one in found["models"]] == [("a", 1), ("b", 2)]
    (mark,) = [one for one in found["timeline"]["marks"] if one["kind"] == "changed"]
    assert (mark["before"], mark["words"]) == (2, "Continues with b")
    assert mark["text"].startswith("a cannot answer: the API answered 404")
    assert found["requests"]["sentences"][0] == "Turn 1 was requested from a: 5,015 tokens, $0.05."
    (lost,) = found["requests"]["losses"]
    assert "it went to another model" in lost["words"]
    assert "a, then b" in report(run)
