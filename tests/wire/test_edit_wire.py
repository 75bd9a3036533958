"""Runs that change files, on the Messages API: the tools in requests, trust, events, children, replays, dry runs."""

import json

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from tests.wire.serving import write_specialist
from tests.wire.simulator.replies import answers, calls

pytestmark = pytest.mark.anyio
READ = calls("read", {"path": "docs/a.md"})
EDIT = calls("edit", {"path": "docs/a.md", "old": "two", "new": "2"})


@pytest.fixture
def editor(project):
    """Write a specialist of the current folder that may edit one folder, and a file in it."""
    (project / "docs").mkdir()
    (project / "docs/a.md").write_text("one\ntwo\n")
    write_specialist(project, "editor", "tools: read, MultiEdit, Write", "writable: docs/", "tool_calls_limit: 4")
    return project


async def asked(api, name="editor", *, trust=True, store="none", **options):
    """Ask a specialist of the current folder; return the outcome and the events."""
    events = []
    async with (
        make_client(base_url=api.base_url, api_key="test", max_retries=0) as client,
        Runner(provider=AnthropicProvider("haiku", client), trust=trust, store=store, **options) as runner,
    ):
        return await runner.run(name, "Write numbers as digits.", listener=events.append), events


def offered(api):
    """Return the names of the tools in the first request."""
    return [tool["name"] for tool in api.requests[0].body["tools"]]


async def test_a_change_is_made_counted_and_reported(messages_api, editor):
    """The result is the diff, the event comes before the end of its call, and the same `read` is not repeated.

    A password beside the change stays in the file, and is masked everywhere else.
    """
    hidden = 'password = "hunter2-Zq81x"'
    (editor / "docs/a.md").write_text(f"one\ntwo\n{hidden}\n")
    api = messages_api([READ, EDIT, READ, answers("done")])
    outcome, events = await asked(api)
    assert offered(api) == ["edit", "read", "respond", "write"]
    (shown,), (again,) = (request.results.values() for request in (api.requests[2], api.requests[3]))
    assert "-two\n+2" in shown
    assert shown.endswith("2 tool calls remaining")
    assert again.startswith("     1\tone\n     2\t2\n")
    assert (editor / "docs/a.md").read_text() == f"one\n2\n{hidden}\n"
    (change,) = (event for event in events if event.event == "file_changed")
    assert "[redacted]" in change.diff
    assert "hunter2" not in str([shown, again, change, outcome])
    names = [event.event for event in events]
    assert names[names.index("file_changed") + 1] == "tool_call"
    assert (outcome.tool_calls.used, outcome.patch, outcome.warnings) == (3, None, ())


async def test_a_file_that_is_not_trusted_runs_without_them(messages_api, editor):
    """Without trust the tools are not in the requests, and the outcome says what they would do."""
    api = messages_api([READ, answers("nothing")])
    outcome, _ = await asked(api, trust=False)
    assert offered(api) == ["read", "respond"]
    warnings = [one for one in outcome.warnings if "it would change files: docs/; allow it once, with --trust" in one]
    assert len(warnings) == 2


async def test_without_writable_they_are_not_offered_and_one_warning_says_why(messages_api, editor):
    """The key is named once, by the check of the file."""
    write_specialist(editor, "editor", "tools: read, Edit")
    api = messages_api([READ, answers("nothing")])
    outcome, _ = await asked(api)
    assert offered(api) == ["read", "respond"]
    (warning,) = outcome.warnings
    assert "not available here: Edit; `Edit` requires the key `writable`" in warning


async def test_a_dry_run_and_its_children_make_one_patch(messages_api, editor):
    """Nothing on the disk is changed; the outcome has the changes of both, and a resumed run makes no further ones."""
    write_specialist(editor, "lead", "tools: write", "writable: docs/", "agents: editor")
    delegate = calls("delegate", {"specialist": "editor", "query": "Digits."})
    new = calls("write", {"path": "docs/b.md", "content": "new\n"})
    api = messages_api([delegate, READ, EDIT, answers("child"), new, answers("done")])
    store = f"sqlite:///{editor}/runs.db"
    outcome, events = await asked(api, "lead", dry_run=True, store=store)
    assert (editor / "docs/a.md").read_text() == "one\ntwo\n"
    assert not (editor / "docs/b.md").exists()
    assert outcome.patch.count("diff --git") == 2
    assert json.loads(json.dumps(outcome.as_json()))["patch"] == outcome.patch
    told = [event.told for event in events if event.event == "child" and event.told.event == "file_changed"]
    assert [(one.path, one.dry_run) for one in told] == [("docs/a.md", True)]
    again = messages_api([new, answers("done")])
    async with (
        make_client(base_url=again.base_url, api_key="test", max_retries=0) as client,
        Runner(provider=AnthropicProvider("haiku", client), trust=True, store=store) as runner,
    ):
        await (await runner.resume(outcome.run_id, "And now?")).outcome()
    (refused,) = again.requests[1].results.values()
    assert "this run continues a dry run" in refused
    assert not (editor / "docs/b.md").exists()
