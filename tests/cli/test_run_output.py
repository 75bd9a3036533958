"""The command `run-specialist`: machine-readable output, `--help`, and completion of names."""

import json

import pytest

from run_specialist.providers import models
from run_specialist.record.messages import Usage
from tests.contracts.tables import SHAPES
from tests.contracts.tables import faults as shape_faults
from tests.wire.simulator import faults, policies
from tests.wire.simulator.replies import answers, calls, says

LOOK = calls("search", {"query": "owls"})
QUOTES = [
    {"source": "notes/owls.md:3", "quote": "Owls eat mice at night."},
    {"source": "notes/owls.md:9", "quote": "Owls eat cheese."},
]


ENDINGS = {
    "answered": ([LOOK, answers("yes", evidence=QUOTES, gaps=["toads"])], [], 0),
    "landed": ([LOOK, answers("yes")], ["--tool-calls-limit", "1"], 0),
    "partial": ([LOOK], ["--tool-calls-limit", "1", "--landing", "stop"], 0),
    "failed": ([LOOK, faults.not_found()], [], 3),
    "empty": ([says(), says()], [], 4),
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("script", "flags", "exit_code"), ENDINGS.values(), ids=ENDINGS)
def test_json_output_matches_its_table_for_every_ending(api, write, call, script, flags, exit_code):
    """Stdout is one JSON object with the documented keys and types, even without an answer."""
    write("finder")
    api(script)
    result = call("finder", "What?", "--json", *flags)
    assert result.exit_code == exit_code
    assert list(shape_faults(json.loads(result.stdout), SHAPES["PRINTED_OUTCOME"])) == []


def test_json_has_usage_evidence_and_cost(api, write, call):
    """Usage is the sum over the requests, each quote is verified, and the cost follows the price list."""
    write("finder", "tool_calls_limit: 7")
    simulator = api([LOOK, calls("read", {"path": "nowhere.md"}), answers("yes", evidence=QUOTES, gaps=["toads"])])
    outcome = json.loads(call("finder", "What?", "--json").stdout)
    assert (outcome["specialist"], outcome["model"], outcome["status"]) == ("finder", "claude-sonnet-5-5", "answered")
    assert (outcome["answer"], outcome["gaps"], outcome["landing"]) == ("yes", ["toads"], None)
    assert outcome["evidence"] == [{**QUOTES[0], "verified": True}, {**QUOTES[1], "verified": False}]
    assert outcome["tool_calls"] == {"used": 2, "limit": 7, "failed": 1, "skipped": 0}
    assert outcome["limits"]["tool_calls"] == {"used": 2, "limit": 7}
    assert outcome["limits"]["turns"] == {"used": 3, "limit": None}
    billed = [
        Usage(**{kind: request.usage.get(kind, 0) for kind in outcome["usage"]}) for request in simulator.requests
    ]
    assert outcome["cost_usd"] == pytest.approx(
        sum(models.cost(usage, "claude-sonnet-5-5", "anthropic") for usage in billed)
    )
    assert outcome["cost_usd"] > 0
    assert outcome["limits"]["cost"] == {"used": outcome["cost_usd"], "limit": None}
    for kind, told in outcome["usage"].items():
        assert told == sum(request.usage.get(kind, 0) for request in simulator.requests), kind
    (warning,) = outcome["warnings"]
    assert "Owls eat cheese." in warning


def test_an_unknown_price_is_null(api, write, call):
    """An unknown price is null, neither a guess nor 0, in the total and among the limits."""
    write("finder", "model: claude-mythos-preview")
    api([LOOK, answers("yes")])
    outcome = json.loads(call("finder", "What?", "--json").stdout)
    assert (outcome["cost_usd"], outcome["limits"]["cost"]) == (None, {"used": None, "limit": None})


def test_json_describes_the_landing(api, write, call):
    """The landing has the limit that was reached, the method, the number of requests, and their usage and cost."""
    write("finder", "model: haiku", "tool_calls_limit: 2")
    simulator = api(policies.always_tool("search", calls_per_turn=3))
    outcome = json.loads(call("finder", "What?", "--json").stdout)
    landing, usage = outcome["landing"], simulator.requests[-1].usage
    assert (landing["reason"], landing["how"], landing["requests"]) == ("tool_calls", "force", 1)
    assert landing["usage"] == {kind: usage.get(kind, 0) for kind in landing["usage"]}
    assert 0 < landing["cost_usd"] < outcome["cost_usd"]
    assert outcome["tool_calls"] == {"used": 2, "limit": 2, "failed": 0, "skipped": 1}


def test_s3_7_events_are_one_json_object_a_line(api, write, call):
    """The first event is `started`, the last is `finished` with the outcome; calls and landing are in between."""
    write("finder", "model: haiku", "tool_calls_limit: 2")
    api(policies.always_tool("search", calls_per_turn=3))
    result = call("finder", "What\nof it?", "--events")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [event["event"] for event in events][:2] == ["started", "request"]
    assert events[0]["question"] == "What\nof it?"
    assert events[-1]["event"] == "finished"
    assert list(shape_faults(events[-1]["outcome"], SHAPES["OUTCOME"])) == []
    assert sum(event["event"] in ("started", "finished") for event in events) == 2
    phases = [event["phase"] for event in events if event["event"] == "tool_call"]
    assert sorted(phases) == ["finished", "finished", "skipped", "started", "started"]
    assert [(e["reason"], e["how"]) for e in events if e["event"] == "landing"] == [("tool_calls", "force")]


def test_s3_7_events_end_with_the_outcome_of_a_failed_run_too(api, write, call):
    """Exit code 3, and the last event is `finished` with the gathered evidence."""
    write("finder")
    api([LOOK, faults.unauthorised()])
    result = call("finder", "What?", "--events")
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.exit_code, last["event"], last["outcome"]["status"]) == (3, "finished", "failed")
    assert "Owls eat mice at night." in last["outcome"]["answer"]


def test_an_answer_is_printed_in_any_encoding(api, write, call):
    """Characters outside the terminal's encoding are escaped, without a traceback."""
    write("finder")
    api([answers("Käuzchen 🦉")])
    result = call("finder", "What?", charset="ascii")
    assert (result.exit_code, result.stdout) == (0, "K\\xe4uzchen \\U0001f989\n")


@pytest.mark.parametrize("flag", ["--json", "--events"])
def test_json_is_valid_in_any_encoding(api, write, call, flag):
    """Characters outside the terminal's encoding are JSON escapes, so that the answer can be parsed unchanged."""
    write("finder")
    api([answers("Käuzchen 🦉")])
    result = call("finder", "What?", flag, charset="ascii")
    last = json.loads(result.stdout if flag == "--json" else result.stdout.splitlines()[-1])
    assert last.get("outcome", last)["answer"] == "Käuzchen 🦉"
