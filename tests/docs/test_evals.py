"""The page on evals matches the code: flags, evaluators, verdicts, scores, and its examples run."""

import json
import re
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from run_specialist.cli.manage import app
from run_specialist.evals.comparison import Verdict, fewest_cases
from tests.docs.markdown import ROOT, blocks, page, table
from tests.evals.test_own_sets import MARGIN, MEASURED

PAGE = page("evals")
CASES = next(text for text in blocks(PAGE, "yaml") if "# looks-up.evals.yaml" in text)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with a note, a specialist and the cases of the page."""
    for folder in (".git", "notes", "specialists"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes/herons.md").write_text("# Herons\n\nHerons eat fish and frogs.\n\nHerons nest in a tree.\n")
    (tmp_path / "specialists/looks-up.md").write_text("---\nname: looks-up\ndescription: Looks up.\n---\nYou look.\n")
    (tmp_path / "specialists/looks-up.evals.yaml").write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate(*words):
    """Call the command offline in this process."""
    return CliRunner().invoke(app, ["eval", "looks-up", "--model", "offline", *words], catch_exceptions=False)


def test_every_flag_on_the_page_exists():
    """Each flag in the text and in the commands is one of the command."""
    told = CliRunner().invoke(app, ["eval", "--help"]).stdout
    text = re.sub(r"```yaml\n# \.github.*?```", "", PAGE, flags=re.DOTALL)
    assert [flag for flag in sorted(set(re.findall(r"--[a-z][a-z-]+", text))) if f"{flag} " not in told] == []
    workflow = yaml.safe_load(next(one for one in blocks(PAGE, "yaml") if ".github" in one))
    (run,) = (step["run"] for step in workflow["jobs"]["evals"]["steps"] if "run" in step)
    flags = set(re.findall(r"--[a-z][a-z-]+", run.split("specialists eval")[1]))
    assert len(flags) > 5
    assert [flag for flag in sorted(flags) if f"{flag} " not in told] == []


def test_every_evaluator_has_its_row():
    """The table has each evaluator of this package once."""
    from run_specialist.evals.evaluators import OWN

    told = [re.match(r"`(\w+)", row[0])[1] for row in table(PAGE, "## Evaluators")]
    assert sorted(told) == sorted(one.__name__ for one in OWN)


def test_the_verdicts_are_those_of_the_code():
    """The second table of the comparison has each verdict, and the text has the minimum number of cases."""
    assert all(f"\n| {verdict} | " in PAGE for verdict in get_args(Verdict))
    assert fewest_cases(0.05) == 6, "the page says: fewer than six"


def test_the_scores_of_our_sets_are_those_that_the_tests_hold():
    """The table has the measured scores, and the text the largest allowed drop."""
    measured = (ROOT / "bench/answers.md").read_text(encoding="utf-8")
    rows = {row[0].strip("`"): row[1:3] for row in table(measured, "### The sets of this repository")}
    assert rows == {name: [f"{one.score:.2f}", f"{one.passed} of 8"] for name, one in MEASURED.items()}
    assert f"falls by more than {MARGIN}" in " ".join(measured.split())


def test_the_example_of_the_page_runs_and_passes(project):
    """The cases of the page load, run offline, and pass with a note that contains the answers."""
    result = evaluate("--store", f"{project}/runs.db", "--quiet", "--json")
    assert result.exit_code == 0
    names = [case["name"] for case in yaml.safe_load(CASES)["cases"]]
    assert [run["case"] for run in json.loads(result.stdout)["runs"] if run["passed"]] == names


def test_the_errors_of_the_page_are_those_of_the_command(project):
    """A misspelt evaluator and a missing question give the lines of the page."""
    broken = CASES.replace("- CitesPath:", "- CitesPaths:").replace("    inputs: How do penguins keep warm?\n", "")
    (project / "specialists/looks-up.evals.yaml").write_text(broken)
    result = evaluate()
    told = next(text for text in blocks(PAGE, "text") if "CitesPaths" in text)
    said = result.stderr.partition(": ")[2].replace(f"{project}/", "")
    assert (result.exit_code, said) == (2, told)
