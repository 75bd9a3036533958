"""An eval uses a stored run again only if the texts that are added to its prompt are the same."""

import pytest

from tests.cli.evals.eval_model import looks


@pytest.mark.exhaustive
def test_changed_notes_and_instructions_ask_again(api, eval_, notes, write):
    """A stored run is used again only if its prompt would begin with the same texts today."""
    simulator = api(looks)
    write(
        "finder", "model: haiku", "tools: search, read", "patience: 0", "project_instructions: true", "memory: project"
    )
    (notes / "AGENTS.md").write_text("Be brief.\n")
    eval_("--case", "owls")
    assert "nothing to ask" in eval_("--case", "owls").stderr
    (notes / "AGENTS.md").write_text("Be long.\n")
    assert "1 run again, because files have changed" in eval_("--case", "owls").stderr
    kept = notes / ".run-specialist" / "memory" / "finder" / "MEMORY.md"
    kept.parent.mkdir(parents=True)
    kept.write_text("- owls: notes/owls.md\n")
    assert "1 run again, because files have changed" in eval_("--case", "owls").stderr
    assert len(simulator.requests) == 6
