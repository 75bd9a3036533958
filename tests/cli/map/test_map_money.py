"""What `map` says about money before it begins, and how it keeps to a cost limit."""

import json

import pytest

from tests.cli.map.map_model import about, items_of
from tests.cli.specialists_command import call
from tests.wire.simulator.faults import ApiError

SIX = ["owls", "toads", "mice", "newts", "bats", "moles"]


@pytest.fixture
def past(api, items, map_):
    """Ask about six items, so that there are past runs, and return the simulator."""
    simulator = api(about())
    assert map_(str(items(SIX, "past.txt"))).exit_code == 0
    return simulator


def cost_of(map_, path="past.txt"):
    """Return the cost of a batch that is done."""
    return json.loads(map_(path, "--json").stdout)["cost_usd"]


def test_a_dry_run_shows_questions_and_forecast_and_sends_nothing(past, items, map_):
    """The first three questions, what is answered already, and what the rest may cost."""
    before = len(past.requests)
    result = map_(str(items([*SIX, "hares", "foxes"], "past.txt")), "--dry-run")
    assert (result.exit_code, result.stderr, len(past.requests)) == (0, "", before)
    head, *rest = result.stdout.splitlines()
    assert head.startswith("8 items, 6 of them with an outcome already · 9 of 10 past runs took at most ")
    assert " · about $0.00" in head
    assert head.endswith(" at 8 at once")
    assert "    What about toads?" in rest
    assert "    What about newts?" not in rest
    assert rest[-1].endswith("nothing was sent")


def test_what_the_endpoint_failed_is_asked_again_and_confirmed(api, items, map_):
    """Failed runs that the same call resumes count as items to ask about, also for `--confirm-above`."""
    refused: dict[str, object] = {}
    simulator = api(about(refused))
    assert map_(str(items(SIX, "past.txt"))).exit_code == 0
    refused["hares"] = ApiError(429, "rate_limit_error", "slow down", {"retry-after": "7200"})
    path = str(items(["hares"], "more.txt"))
    before = len(simulator.requests)
    assert map_(path, "--pause-limit", "0", "--breaker", "1").exit_code == 3
    assert len(simulator.requests) == before + 1, "one failure is enough"
    before = len(simulator.requests)
    result = map_(path, "--confirm-above", "0.000001")
    assert (result.exit_code, len(simulator.requests)) == (2, before)
    assert ": 1 item · 9 of 10 past runs took at most " in result.stderr
    assert "more than --confirm-above" in result.stderr


def test_without_a_terminal_a_dear_batch_is_refused_only_if_asked_for(past, items, map_):
    """`--confirm-above` that is given refuses it with exit code 2; `--yes` and a low `--cost-limit` do not."""
    before = len(past.requests)
    path = str(items(["hares"], "more.txt"))
    result = map_(path, "--confirm-above", "0.000001")
    assert (result.exit_code, result.stdout, len(past.requests)) == (2, "", before)
    assert "more than --confirm-above" in result.stderr
    assert "nothing was sent" in result.stderr
    assert map_(path, "--confirm-above", "0.000001", "--yes").exit_code == 0
    assert map_(path, "--confirm-above", "0.000001").exit_code == 0, "everything has an outcome: nothing to confirm"
    assert map_(str(items(["foxes"], "more.txt"))).exit_code == 0, "below a dollar"


def test_the_cost_limit_of_a_batch_leaves_items_not_run(past, items, map_):
    """Within the limit items are answered; the others are not run; a higher limit asks them alone."""
    limit = cost_of(map_) / 6 * 2.5
    before = len(past.requests)
    path = str(items(["hares", "foxes", "stoats", "otters"], "more.txt"))
    result = map_(path, "--cost-limit", f"{limit:.6f}", "--at-once", "1", "--json")
    summary = json.loads(result.stdout)
    done = summary["counts"]["answered"] + summary["counts"]["landed"]
    assert (result.exit_code, summary["ended_because"]) == (4, "cost_limit")
    assert 1 <= done < 4
    assert summary["counts"]["not_run"] == 4 - done
    assert summary["cost_usd"] <= limit
    assert "leaves too little for another item" in result.stderr
    assert len(set(items_of(past.requests[before:]))) == done
    assert "to continue, raise --cost-limit" in result.stderr
    result = map_(path, "--cost-limit", f"{10 * limit:.6f}", "--json")
    assert (result.exit_code, json.loads(result.stdout)["earlier"]) == (0, done), result.stderr


def test_a_cost_limit_without_a_price_is_refused(write, chat, items, store):
    """Before anything is sent, one line says that the cost of the model is not known."""
    write("finder", "tools: search, read")
    simulator = chat([], all_used=False)
    result = call("map", "finder", str(items(["owls"])), "--model", "openai:nobodys-model", "--cost-limit", "1")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert "cost_limit: the price of openai:nobodys-model is unknown" in result.stderr
