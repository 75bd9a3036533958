"""What `specialists check` says about tools that need trust."""

import pytest

from run_specialist.spawning.availability import with_trust_noted
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.loader import load
from tests.projects import project


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """Return a function that writes a specialist and returns its notices."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with project(tmp_path / "project") as made:

        def notices(*lines, trust=None):
            trusting = trust or Trust(folder=tmp_path / "trusted")
            (file,) = with_trust_noted([load(made.specialist(*lines))], made.root, trusting)
            assert file.status == "ok"
            return [(one.line, one.key, one.text) for one in file.problems if "--trust" in one.text]

        yield notices


def test_each_tool_that_needs_trust_is_named_with_what_it_would_do(noted):
    """One notice for each, at its key; tools that only read need none."""
    offered = "is offered once it is allowed with --trust: it would"
    assert noted("tools: read, WebFetch", "allowed_domains: example.com", "memory: project") == [
        (4, "tools", f"`fetch` {offered} fetch pages of example.com"),
        (6, "memory", f"`memory` {offered} write notes in .run-specialist/memory/finder"),
    ]
    assert noted("tools: read, Edit", "writable: docs") == [(4, "tools", f"`edit` {offered} change files: docs")]
    assert noted("tools: read, todo, think") == []
    assert noted("memory: project", "disallowed_tools: memory") == []


def test_what_is_allowed_already_is_not_said(noted, tmp_path):
    """A permission that is stored holds for the check too."""
    lines = ("tools: read", "memory: local")
    assert len(noted(*lines)) == 1

    class Known(Trust):
        def is_known(self, claim):
            return bool(claim.demands)

    assert noted(*lines, trust=Known(folder=tmp_path / "other")) == []
