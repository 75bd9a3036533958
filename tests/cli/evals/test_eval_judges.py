"""Judges in `specialists eval`: separate stored runs, whose cost is shown separately."""

import json

import pytest

from tests.cli.evals.eval_model import is_judge, looks, policy, runs_of
from tests.wire.simulator.faults import ApiError

JUDGED = """\
cases:
- name: owls
  inputs: What about owls?
  evaluators: [Judge: It names the prey., Judge: {specialist: answer-judge, rubric: It is about animals.}]
- name: toads
  inputs: What about toads?
  evaluators: [Judge: It names the prey.]
"""


def test_e6_judges_are_asked_once_and_are_shown_apart(api, eval_, cases):
    """A judge is a run of its own that is stored; it has its own part of the bill."""
    simulator = api(looks)
    cases(JUDGED)
    result = eval_("--json")
    runs = runs_of(result)
    owls, toads = runs["owls", "as it is", 1], runs["toads", "as it is", 1]
    assert [(one["name"], one["value"]) for one in owls["checks"]] == [
        ("Judge: It names the prey.", True),
        ("Judge: It is about animals.", True),
    ]
    assert [(one["value"], one["reason"]) for one in toads["checks"]] == [(False, "no mice")]
    assert owls["judge_cost_usd"] > toads["judge_cost_usd"] > 0
    assert sum(map(is_judge, simulator.requests)) == 3
    assert " · judges $0.00" in eval_().stdout
    assert sum(map(is_judge, simulator.requests)) == 3, "stored verdicts are used again"
    assert result.exit_code == 0
    repeated = [*runs_of(eval_("--json", "--case", "toads", "--repeat", "2")).values()]
    assert sum(map(is_judge, simulator.requests)) == 3, "equal answers have one judge"
    assert [run["judge_cost_usd"] > 0 for run in repeated] == [True, False], "and one bill"


def test_e5_a_judge_that_fails_is_an_error_and_not_a_verdict(api, eval_, cases, notes):
    """The check is missing, the run did not pass, no score is shown, and the exit code says so."""
    cases(JUDGED)
    api(policy(lambda request: ApiError(400, "invalid_request_error", "no") if is_judge(request) else None))
    result = eval_("--json", "--case", "toads")
    run = runs_of(result)["toads", "as it is", 1]
    assert (run["checks"], run["unmade_checks"], run["passed"]) == ([], 1, False)
    assert run["error"].startswith("Judge: answer-judge gave no verdict: ")
    assert result.exit_code == 4
    shown = eval_("--case", "toads", "--min-score", "0.5", "--page", "page.html")
    assert [line.split() for line in shown.stdout.splitlines()[1:3]] == [["toads", "fail", "–"], ["score", "–"]]
    assert shown.exit_code == 4
    assert ">1.00<" not in (notes / "page.html").read_text()


def test_e7_the_forecast_has_the_judges_whose_past_runs_are_known(api, eval_, cases):
    """Their cost is shown separately, and counts for --confirm-above; without past runs it is unknown."""
    api(looks)
    cases(JUDGED)
    assert json.loads(eval_("--dry-run", "--json").stdout)["forecast"]["judges_cost_usd"] is None
    first = eval_("--json")
    assert first.stderr.splitlines()[0].endswith(" · judges cost extra")
    paid = sum(run["judge_cost_usd"] for run in runs_of(first).values())
    found = json.loads(eval_("--fresh", "--dry-run", "--json").stdout)["forecast"]
    assert found["judges_cost_usd_90"] >= found["judges_cost_usd"] == pytest.approx(paid, rel=0.1)
    together = found["total_cost_usd_90"] + found["judges_cost_usd_90"]
    refused = eval_("--fresh", "--confirm-above", str(together * 0.99))
    assert (refused.exit_code, "judges about $" in refused.stderr) == (2, True)


@pytest.mark.exhaustive
def test_e7_the_cost_limit_holds_for_runs_and_judges_together(api, eval_, cases):
    """A limit that is too small for another run leaves it out, and says so; nothing is lost."""
    cases(JUDGED)
    simulator = api(looks)
    result = eval_("--cost-limit", "0", "--json")
    assert result.exit_code == 4
    assert {run["status"] for run in runs_of(result).values()} == {"not run"}
    assert simulator.requests == []


@pytest.mark.parametrize("line", ["effort: low", "output_schema: {type: object, properties: {mark: {type: string}}}"])
def test_e6_a_specialist_without_a_verdict_is_no_judge(line, api, eval_, cases, write):
    """It is refused with its place in the file with the cases, before anything is asked."""
    simulator = api(looks)
    write("poet", "model: haiku", "tools: []", line)
    cases("cases:\n- inputs: What about owls?\n  evaluators: [Judge: {specialist: poet, rubric: a}]\n")
    result = eval_()
    assert result.exit_code == 2
    assert "finder.evals.yaml:3:16: Judge: poet is not a judge: its file has no `output_schema`" in result.stderr
    assert simulator.requests == []
