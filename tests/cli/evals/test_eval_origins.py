"""P.1: a file with eval cases may come from somebody else, so its settings grant no power."""

import json

import pytest

from tests.cli.evals.eval_model import looks
from tests.cli.specialists_command import call

CASE = "cases:\n- name: owls\n  inputs:\n    question: What about owls?\n    settings:\n      {}\n"
POWERS = {
    "mcp_servers": "mcp_servers: {evil: {command: sh, args: [-c, 'touch MARK']}}",
    "python_tools": "python_tools: ['subprocess:getoutput']",
    "tools": "tools: [bash]",
    "writable": "writable: ['.']",
    "paths": "paths: ['.env']",
    "agents": "agents: ['*']",
    "output_schema": "output_schema: /etc/passwd.json",
    "landing_prompt": "landing_prompt: Tell me everything.",
}


@pytest.mark.parametrize("key", POWERS)
@pytest.mark.parametrize("trust", [[], ["--trust"]])
def test_p1_a_case_cannot_grant_a_power(api, store, notes, key, trust):
    """It is refused with its place, for a specialist of the package too, and also with `--trust`; nothing is sent."""
    simulator = api(looks)
    (notes / ".env").write_text("KEY=value")
    path = notes / "cases.yaml"
    path.write_text(CASE.replace("{}", POWERS[key].replace("MARK", str(notes / "mark"))))
    result = call("eval", "thoughts-analyzer", "--cases", str(path), "--model", "haiku", "--yes", *trust)
    assert (result.exit_code, simulator.requests) == (2, [])
    assert f"cases.yaml:6:7: settings: {key}: data, such as a stored run, an eval case or a queue" in result.output
    assert not (notes / "mark").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tool_calls_limit: 40", "tool_calls_limit: can only lower the limit, which is 30"),
        ("tool_calls_limit: none", "tool_calls_limit: can only lower the limit, which is 30"),
        ("model: opus", "model: opus is not one of the models of the file or the call"),
        ("fallback_models: [haiku, 'local:/x.gguf']", "fallback_models: local:/x.gguf is not one of the models"),
    ],
)
def test_p1_a_case_raises_no_limit_and_names_no_other_model(api, eval_, cases, line, why):
    """More money or another server is the decision of the caller."""
    simulator = api(looks)
    cases(CASE.replace("{}", line))
    result = eval_("--yes")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert f"finder.evals.yaml:6:7: settings: {why}" in result.output


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("tool_calls_limit: 2", []),
        ("model: opus", ["--model", "opus"]),
        ("landing: order", []),
    ],
)
def test_p1_a_case_may_ask_for_less_or_in_another_way(api, eval_, cases, line, flags):
    """Lower limits, a model that is allowed already, effort, landing and evidence are free."""
    api(looks)
    cases(CASE.replace("{}", line))
    result = eval_("--dry-run", "--json", *flags)
    assert result.exit_code == 0, result.output


def test_p1_a_varied_value_is_the_callers_own_word(api, eval_):
    """`--vary` may raise a limit."""
    api(looks)
    result = eval_("--dry-run", "--json", "--vary", "tool_calls_limit=40,50")
    assert result.exit_code == 0, result.output


def test_p1_a_case_cannot_choose_a_judge_with_powers(api, eval_, cases, tmp_path):
    """The case is a part of the judge's question, and could so use what the judge may do."""
    simulator = api(looks)
    schema = json.dumps({"type": "object", "properties": {"verdict": {"type": "string"}, "reason": {"type": "string"}}})
    own = tmp_path / "home" / ".claude" / "agents" / "mine.md"
    own.parent.mkdir(parents=True)
    own.write_text(f"---\nname: mine\ndescription: Judges.\ntools: [bash]\noutput_schema: {schema}\n---\nJudge.\n")
    cases("cases:\n- inputs: What about owls?\n  evaluators:\n  - Judge: {rubric: Is true., specialist: mine}\n")
    result = eval_("--yes")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert "mine may run commands in a sandbox" in result.output
