"""The official conformance suite judges `specialists mcp --http`, in both eras of the protocol.

TEST_INSPECTOR names the folder where npm has installed it, as for the Inspector. conformance.yaml has the checks that
do not apply and the reason for each.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, LATEST_PROTOCOL_VERSION

from run_specialist import run_sync
from tests.cli.specialists_command import call as specialists
from tests.docs.markdown import page
from tests.wire.conftest import NODE_PACKAGES
from tests.wire.serving import PATIENCE, owl_project, write_specialist
from tests.wire.simulator import Gate, MessagesSimulator, faults, policies, replies

EXCLUDED = Path(__file__).with_name("conformance.yaml")
ROOT = EXCLUDED.parents[2]
CODE = f"import sys; sys.argv[0] = 'specialists'; sys.path.append({str(ROOT)!r}); import tests.wire.suite_fixtures"
SPECIALISTS = (
    "failing_job",
    "slow_compute",
    "test_error_handling",
    "test_logging_tool",
    "test_prompt_with_arguments",
    "test_simple_prompt",
    "test_simple_text",
    "test_streaming_elicitation",
    "test_tool_with_progress",
)
"""The tools and prompts that the suite asks for and that can be specialists."""
WORKS = policies.works_then_answers("search", calls=1)


def model(request):
    """Play the model of a specialist: it fails, is held until the test ends, or searches once and answers."""
    asked = str(request.messages)
    if "You fail." in str(request.body["system"]):
        return faults.invalid("no")
    return replies.says("late", gate=HELD) if "seconds=60" in asked else WORKS(request)


HELD = Gate()


@pytest.mark.exhaustive
def test_every_check_that_applies_passes(node_program, program, tmp_path, monkeypatch):
    """Every check passes but for the excluded ones, and no excluded one passes."""
    root = owl_project(tmp_path, monkeypatch)
    (root / "notes" / "count.md").write_text("# Count\n\n123 owls were counted in 2026.\n")
    for name in SPECIALISTS:
        body = "You fail." if name == "failing_job" else "You look."
        write_specialist(root, name, "paths: [notes]", body=body)
    stored = run_sync("finder", "Were 123 owls counted?", model="offline")
    monkeypatch.setenv("STORED_RUN", stored.run_id)
    suite = [*node_program("conformance"), "server", "--expected-failures", str(EXCLUDED)]
    with MessagesSimulator(model) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        url = program("--http", "0", "--no-token", code=CODE).url()

        def judged(*given: str) -> tuple[list[str], str]:
            """Return the scenarios that fail, and what the suite says if it is not content."""
            run = [*suite, "--url", url, *given]
            done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, check=False)
            text = done.stdout[-8_000:] + done.stderr if done.returncode else ""
            return re.findall(r"^  ✗ ([\w-]+)", text, re.MULTILINE), text

        told = []
        # Without a revision, most scenarios use the newest one with a handshake.
        for revision in ([], ["--spec-version", LATEST_PROTOCOL_VERSION]):
            failed, text = judged("--suite", "all", *revision)
            # A busy machine misses some of the suite's time limits, the shortest of which is half a second.
            again = [judged("--scenario", name, *revision)[1] for name in {*failed}]
            told += [*filter(None, again)] if failed else [text]
        HELD.open()
    assert not any(told), told


def test_each_exclusion_has_a_reason():
    """The line above each group of exclusions says why they do not apply; CI installs the version they are for."""
    groups = EXCLUDED.read_text().strip().split("\n\n")[2:]
    assert all(re.match(r"( *# .+\n)+( +- \S+\n?)+$", group) for group in groups)
    excluded = yaml.safe_load(EXCLUDED.read_text())["server"]
    assert len(excluded) == len(set(excluded)) > 0
    script = (ROOT / ".ci" / "run").read_text()
    assert all(f'"{package}"' in script for package in NODE_PACKAGES)


def test_the_revisions_of_the_protocol_are_those_of_the_library():
    """`specialists mcp --help` and the docs name each revision that the library serves."""
    for text in (specialists("mcp", "--help").stdout, page("agents")):
        assert re.findall(r"\b20\d\d-\d\d-\d\d\b", text) == [*KNOWN_PROTOCOL_VERSIONS]
