"""The section of a report with the changes of files: diffs in colors, also those of child runs, escaped."""

from dataclasses import replace

from run_specialist.record.events import FileChanged
from run_specialist.store.stored import StoredEvent
from run_specialist.tools.text_edit import diff_of
from run_specialist.views.report import MOST_LINES, data, report
from tests.views.full import full_run


def changed(run, at, path, before, after, *, call_id="none", **others):
    """Return a run that has changed a file."""
    diff = diff_of(path, before, after)
    event = FileChanged(call_id, path, diff.text, diff.added, diff.removed, before is None, **others)
    return replace(run, events=(*run.events, StoredEvent(len(run.events) + 1, at, event.as_json())))


def test_each_change_is_a_diff_with_its_call():
    """In the order in which they were made; a child's change names the child."""
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


def test_a_long_diff_is_cut():
    """With the number of lines that are left out."""
    run = changed(full_run(), 1.0, "a.md", "", "x\n" * (MOST_LINES + 50))
    (change,) = data(run)["changes"]
    assert (len(change["lines"]), change["left_out"]) == (MOST_LINES, 51)
