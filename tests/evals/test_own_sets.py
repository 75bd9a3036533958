"""The eval sets of the specialists that come along keep the scores that were measured when they were written.

They run offline; `fact-checker` and `change-impact`, whose answers are judgements, refuse that.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from run_specialist.cli.manage import app
from run_specialist.tools import files
from run_specialist.tools.sandbox import Sandbox
from run_specialist.tools.search import SearchIndex
from tests.docs.markdown import README, ROOT

SPECIALISTS = ROOT / "specialists"
MARGIN = 0.08
"""How far a score may fall. The answers depend on all files of this repository, and a case that fails costs its set
0.02 to 0.04; so three may fail that did not before."""


@dataclass(frozen=True)
class Measured:
    """What a set scored when it was written, before any change to the engine or to the set."""

    score: float
    passed: int
    """Of eight cases."""


MEASURED = {
    # 23 November 2026, on the commit that added the sets.
    "codebase-analyst": Measured(0.87, 4),
    "error-tracer": Measured(0.89, 5),
    "thoughts-analyzer": Measured(0.92, 5),
    "thoughts-locator": Measured(0.92, 6),
}
NAMES = {*MEASURED, "change-impact", "fact-checker"}


@pytest.fixture(scope="module")
def one_index_per_sandbox() -> Iterator[None]:
    """Let runs with the same root and `paths` share one search index, since no file changes meanwhile."""
    known: dict[tuple[Path, str], SearchIndex] = {}

    def index(sandbox: Sandbox, *more: Any) -> SearchIndex:
        return known.setdefault((sandbox.root, repr(sandbox._named.paths)), SearchIndex(sandbox, *more))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "SearchIndex", index)
        yield


def test_e14_every_specialist_has_a_set_with_eight_cases():
    """Two of them without an answer in this repository; the wheel carries the specialists without their sets."""
    assert {path.name.removesuffix(".evals.yaml") for path in SPECIALISTS.glob("*.evals.yaml")} == NAMES
    for name in NAMES:
        cases = yaml.safe_load((SPECIALISTS / f"{name}.evals.yaml").read_text(encoding="utf-8"))["cases"]
        kinds = [{one if isinstance(one, str) else next(iter(one)) for one in case["evaluators"]} for case in cases]
        assert (len(cases), sum("Gap" in kind for kind in kinds)) == (8, 2)
        assert all("CitesPath" in kind or "Gap" in kind for kind in kinds)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    listed = re.findall(r"`([a-z-]+)`", " ".join(README.split()).split("The package includes ", 1)[1].split(". ", 1)[0])
    # Not the files in the folder: a user adds others there.
    assert packed == {f"specialists/{name}.md": f"run_specialist/specialists/{name}.md" for name in listed}
    assert all((ROOT / name).is_file() for name in packed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MEASURED)
def test_e14_a_set_keeps_its_score(name, one_index_per_sandbox, tmp_path, monkeypatch):
    """A set runs whole through the command, and scores about as much as when it was written."""
    measured = MEASURED[name]
    monkeypatch.chdir(ROOT)
    words = ["eval", name, "--json", "--quiet", "--model", "offline", "--store", f"{tmp_path}/runs.db"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    runs = json.loads(result.stdout)["runs"]
    # An offline answer that hardly matches is partial, and says so.
    reasons = {str(run["error"] or "").partition(" match: ")[0] for run in runs}
    assert (len(runs), reasons - {"", "weak", "no"}) == (8, set())
    score = sum(run["score"] for run in runs) / len(runs)
    passed = [run["case"] for run in runs if run["passed"]]
    print(f"{name}: {score:.3f}, {len(passed)} of {len(runs)} passed")  # noqa: T201 - the next measurement
    assert score >= measured.score - MARGIN, passed
    assert len(passed) >= measured.passed - 3, passed


EXAMPLES = ROOT / "examples/specialists"
WITHOUT_MODEL = {
    "release-notes": set(),
    "runbook-reader": set(),
    "test-explainer": {"discount"},
    "upgrade-scout": set(),
}
"""The examples that can be asked offline, with the cases that need a model."""


def test_the_examples_load_without_warnings_and_their_cases_parse(monkeypatch):
    """`check --strict` accepts all five, and each has cases; their page names each, on at most 40 lines."""
    monkeypatch.chdir(ROOT)
    checked = json.loads(CliRunner().invoke(app, ["check", "--strict", "--json", str(EXAMPLES)]).stdout)["files"]
    names = {*WITHOUT_MODEL, "inbox-sorter"}
    assert {file["name"]: file["status"] for file in checked} == dict.fromkeys(names, "ok")
    words = ["eval", "inbox-sorter", "--dir", str(EXAMPLES), "--root", "examples", "--dry-run", "--model", "sonnet"]
    assert CliRunner().invoke(app, words, env={"ANTHROPIC_API_KEY": "none"}).exit_code == 0
    text = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert {*re.findall(r"\(specialists/([a-z-]+)\.md\)", text)} == names
    assert len(text.splitlines()) <= 40


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_the_examples_answer_their_cases_offline(name, tmp_path, monkeypatch):
    """Each case that needs no model passes, on the data that comes along."""
    monkeypatch.chdir(ROOT)
    places = ["--dir", str(EXAMPLES), "--root", "examples", "--store", f"{tmp_path}/runs.db"]
    result = CliRunner().invoke(app, ["eval", name, "--json", "--quiet", "--model", "offline", *places])
    assert result.exit_code == 0, result.stderr
    assert {run["case"] for run in json.loads(result.stdout)["runs"] if not run["passed"]} == WITHOUT_MODEL[name]
