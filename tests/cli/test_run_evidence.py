"""The command `run-specialist` with `--evidence`: statuses, exit codes, warnings and the summary line."""

import json

import pytest

from tests.wire.simulator.replies import answers, calls

LOOK = calls("search", {"query": "owls"})
INVENTED = {"source": "notes/owls.md:9", "quote": "Owls eat cheese."}
QUESTION = ("finder", "What do owls eat?")


def test_g_5_a_second_one_is_partial_with_exit_code_0(api, write, call):
    """The flag beats the file; the reason says how many quotes were found."""
    write("finder", "evidence: off")
    api([LOOK, answers("cheese", evidence=[INVENTED]), answers("cheese!", evidence=[INVENTED])])
    result = call(*QUESTION, "--evidence", "require")
    assert (result.exit_code, result.stdout) == (0, "cheese!\n")
    assert "no quote of the answer was found in what was read: 0 of 1 quotes found" in result.stderr


def test_g_5_require_is_refused_before_the_first_request_where_the_answer_has_no_place_for_quotes(api, write, call):
    """The flag and the key are refused with the line of the file and exit code 2, and `check` reports the key."""
    path = write("finder", "output_schema: {type: object}")
    simulator = api([])
    result = call(*QUESTION, "--evidence", "require")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert f"{path}:4:1: evidence: require needs quotes" in result.stderr
    write("finder", "output_schema: {type: object}", "evidence: require")
    result = call(*QUESTION)
    assert (result.exit_code, simulator.requests) == (2, [])
    assert f"{path}:5:11: evidence: require needs quotes" in result.stderr


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("preset", ["soft-landing", "soft-warning", "finalize", "budget-notice", "openai-loop"])
@pytest.mark.parametrize("limit", ["1", "3", "none"])
def test_g_5_the_offline_provider_satisfies_require(write, call, preset, limit):
    """Its quotes are verbatim, in every preset and also where the answer is a text at the limit."""
    write("finder", "evidence: require", f"preset: {preset}")
    result = call(*QUESTION, "--model", "offline", "--json", "--tool-calls-limit", limit)
    outcome = json.loads(result.stdout)
    assert outcome["status"] in {"answered", "landed"}
    assert any(quote["verified"] for quote in outcome["evidence"])
