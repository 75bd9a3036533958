"""`specialists worker`, `specialists fleet` and `map --queue` as commands, with a real PostgreSQL server."""

import json
import signal

import pytest

from bench.fleet.model import Model, serving
from run_specialist.cli import map_run
from run_specialist.store.batch_reader import StoredBatches
from tests.cli.specialists_command import MAIN
from tests.cli.specialists_command import call as specialists
from tests.postgres_server import postgres_server
from tests.unit.store.records import change

WORKER = f"import run_specialist.fleet.worker as one; one._POLL = 0.2\n{MAIN}"
PATIENCE = 60
"""Timeout, after which a hanging worker fails the test [s]."""


@pytest.fixture(scope="module")
def running():
    """A server for all tests of this file."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def server(running, monkeypatch):
    """A server whose empty database is the store."""
    change(running.url, "drop schema if exists run_specialist cascade")
    change(running.url, "drop schema if exists run_specialist_queue cascade")
    monkeypatch.setenv("SPECIALIST_STORE", running.url)
    monkeypatch.setattr(map_run, "LOOK", 0.2)
    return running


def written(write, count, *keys):
    """Write a specialist and a file with so many items, set the queue up, and return the file."""
    path = write("finder", "tools: [grep]", *keys).parent.parent / "items.txt"
    path.write_text("".join(f"owls ITEM{{{n}}}\n" for n in range(1, count + 1)))
    specialists("fleet", "setup")
    return path


@pytest.fixture
def model(monkeypatch):
    """A model that calls a tool once and then answers."""
    with serving(Model(turns=2, delay=0.0)) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{running.url}/1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        yield running


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("worker", "--store", "runs.db"), "a queue needs a PostgreSQL store, got "),
        (("fleet", "status", "--store", "runs.db"), "a queue needs a PostgreSQL store, got "),
        (("map", "finder", "items.txt", "--wait"), "it needs --queue"),
        (("map", "finder", "items.txt", "--priority", "3"), "it needs --queue"),
        (("map", "finder", "-", "--queue", "--wait"), "name a file instead of standard input"),
        (("worker",), "a queue needs the extra `fleet`; "),
    ],
)
def test_a_queue_needs_a_server_its_extra_and_items_that_can_be_read_again(write, model, monkeypatch, words, reason):
    """The line says what to do instead, before anything is put or sent."""
    if words == ("worker",):
        monkeypatch.setattr("run_specialist.cli.console.find_spec", lambda _name: None)
    (write("finder").parent.parent / "items.txt").write_text("owls ITEM{1}\n")
    done = specialists(*words)
    assert (done.exit_code, reason in done.stderr, model.requests) == (2, True, []), done.stderr


@pytest.mark.exhaustive
def test_a_batch_goes_through_the_queue(server, model, write, program):
    """Set up, put, put again, work, wait with answers, SIGTERM: nothing is sent twice, and the queue is empty."""
    path = write("finder", "tools: [grep]", "model: claude-sonnet-4-5").parent.parent / "items.txt"
    path.write_text("".join(f"owls ITEM{{{n}}}\n" for n in range(1, 6)))
    put = ("map", "finder", "items.txt", "--question", "What of {item}?", "--queue")
    refused = specialists(*put)
    assert (refused.exit_code, "the queue is not set up; run `specialists fleet setup`" in refused.stderr) == (2, True)
    assert specialists("fleet", "setup").exit_code == 0
    assert "nothing was sent" in specialists(*put, "--dry-run").stdout
    assert "5 items, 5 new in the queue" in specialists(*put).stderr
    assert "5 items, 0 new in the queue" in specialists(*put).stderr
    (batch,) = json.loads(specialists("fleet", "status", "--json").stdout)["batches"]
    assert (batch["state"], batch["items"], batch["queued"]) == ("open", {"waiting": 5}, 5)
    waiting = program(*put, "--wait", "--out", "answers.jsonl", code=WORKER)
    hint = "0 of 5 items done · no worker has any now; `specialists worker` starts one"
    assert any(hint in line for line in waiting.stderr)
    worker = program("worker", code=WORKER)
    _, err = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0, err
    rows = [json.loads(line) for line in (path.parent / "answers.jsonl").read_text().splitlines()]
    assert {(row["number"], row["state"]) for row in rows} == {(n, "answered") for n in range(1, 6)}
    assert (len(model.requests), model.paid_again().total()) == (10, 0)
    (batch,) = json.loads(specialists("fleet", "status", batch["batch_id"], "--json").stdout)["batches"]
    # Reading the answers leaves the batch as the fleet needs it.
    assert (batch["state"], batch["items"]) == ("open", {"answered": 5})
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=PATIENCE)
    said = "SIGTERM: completing the current replies, items go back to the queue"
    assert (worker.returncode, said in err) == (0, True)
    assert specialists("fleet", "status").stderr.endswith("no batch is in the queue\n")


@pytest.mark.exhaustive
def test_a_batch_in_the_queue_has_a_cost_limit_and_failed_items_are_retried(server, model, write, program):
    """The rest is not run, and the same call with a higher limit continues; `--retry failed` resumes failed items."""
    written(write, 4, "model: claude-sonnet-4-5")
    put = ("map", "finder", "items.txt", "--question", "What of {item}?", "--queue", "--wait", "--yes", "--json")
    worker = program("worker", "--at-once", "1", code=WORKER)
    done = specialists(*put, "--cost-limit", "0.002")
    summary = json.loads(done.stdout)
    assert (done.exit_code, summary["ended_because"]) == (4, "cost_limit")
    assert summary["counts"]["not_run"] > 0
    assert 0 < summary["cost_usd"] <= 0.002
    (batch,) = json.loads(specialists("fleet", "status", summary["batch"], "--json").stdout)["batches"]
    assert (batch["state"], batch["cost_limit"], batch["granted_usd"]) == ("ended", 0.002, 0.0)
    assert batch["cost_usd"] == pytest.approx(summary["cost_usd"])
    shown = specialists("fleet", "status", summary["batch"]).stdout
    assert " / $0.002 " in shown
    assert "the cost limit of $0.002 leaves too little for another item" in shown
    model.refusal = "invalid"
    done = specialists(*put, "--cost-limit", "1")
    counts = json.loads(done.stdout)["counts"]
    failed = {"invalid_request": summary["counts"]["not_run"]}
    assert (done.exit_code, counts["not_run"], counts["failed"]) == (4, 0, failed)
    model.refusal = ""
    done = specialists(*put, "--cost-limit", "1", "--retry", "failed")
    assert (done.exit_code, json.loads(done.stdout)["counts"]["failed"]) == (0, {}), done.stderr
    assert f"{counts['failed']['invalid_request']} to retry" in done.stderr
    assert model.paid_again().total() == 0
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE)


def frozen(server, batch):
    """Return what is fixed for all items of a batch."""
    with StoredBatches(server.url) as stored:
        return stored.find(batch).frozen


@pytest.mark.exhaustive
def test_what_the_fleet_gave_up_is_counted_and_the_other_answers_are_written(server, model, write, monkeypatch):
    """An item that is dead, or failed at its endpoint, is not run here, which needs no credentials; exit code 4."""
    path = written(write, 1, "model: claude-sonnet-4-5")
    words = ("map", "finder", "items.txt", "--question", "What of {item}?")
    assert specialists(*words).exit_code == 0
    path.write_text("owls ITEM{1}\ntoads ITEM{2}\nbats ITEM{3}\n")
    model.refusal = "credentials"
    assert specialists(*words, "--at-once", "1").exit_code == 3
    model.refusal = ""
    sent = len(model.requests)
    put = json.loads(specialists(*words, "--queue", "--at-once", "3", "--json").stdout)
    assert (put["items"], put["added"], put["retried"]) == (3, 3, 0)
    assert frozen(server, put["batch"])["at_once"] == 3
    for number, state in enumerate(("ended", "ended", "dead"), 1):
        change(server.url, f"update run_specialist.items set state = '{state}' where number = {number}")  # noqa: S608
    change(server.url, "delete from run_specialist_queue.pgqueuer")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name)
    done = specialists(*words, "--queue", "--wait", "--out", "answers.jsonl", "--json")
    summary = json.loads(done.stdout)
    assert (done.exit_code, summary["ended_because"]) == (4, "fleet")
    again = f"`specialists fleet retry {put['batch']}`, then the same command"
    assert summary["problem"] == f"the fleet has left items without an outcome, 1 dead; {again}"
    counts = summary["counts"]
    assert (counts["answered"], counts["not_run"] + sum(counts["failed"].values())) == (1, 2)
    rows = [json.loads(line) for line in (path.parent / "answers.jsonl").read_text().splitlines()]
    assert [row["number"] for row in rows if row["state"] == "answered"] == [1]
    assert len(model.requests) == sent
    assert frozen(server, put["batch"])["at_once"] == 0, "any number"


@pytest.mark.exhaustive
def test_a_batch_keeps_its_model_and_is_paused_resumed_and_cancelled(server, write, monkeypatch):
    """Without a model nothing is queued, and a later call does not change it; `status` shows what each command did."""
    written(write, 2)
    put = ("map", "finder", "items.txt", "--queue", "--json")
    refused = specialists(*put)
    assert (refused.exit_code, "a batch in the queue needs a named model: use --model" in refused.stderr) == (2, True)
    monkeypatch.setenv("SPECIALIST_MODEL", "claude-haiku-4-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    name = json.loads(specialists(*put).stdout)["batch"]
    monkeypatch.setenv("SPECIALIST_MODEL", "offline")
    specialists(*put)
    assert frozen(server, name)["model"] == "claude-haiku-4-5"
    assert specialists("fleet", "pause", name).stderr.endswith(f"batch {name} is paused\n")
    assert f"{name}: paused by `specialists fleet pause`" in specialists("fleet", "status").stdout
    assert specialists("fleet", "resume", name).stderr.endswith(f"batch {name} is resumed\n")
    assert specialists("fleet", "cancel", name).stderr.endswith("2 items removed from the queue\n")
    (ended,) = json.loads(specialists("fleet", "status", name, "--json").stdout)["batches"]
    assert (ended["state"], ended["items"]) == ("cancelled", {"cancelled": 2})
    unknown = specialists("fleet", "retry", "nothing")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
