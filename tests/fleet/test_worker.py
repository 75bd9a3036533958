"""Workers on a real PostgreSQL server with a scripted model that counts its requests."""

import json
import os
import re
import socket
from datetime import UTC, datetime

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from run_specialist.fleet import queue as queue_module
from run_specialist.fleet import worker as worker_module
from run_specialist.fleet.batches import Control, freeze
from run_specialist.fleet.worker_log import HealthFile, LineLog
from run_specialist.record.outcome import Exit
from run_specialist.specialist.loader import load
from run_specialist.specialist.project import packaged
from run_specialist.store.batches import BatchWriter
from tests.fleet.conftest import BATCH, FILE, put_batch, run_id, until
from tests.unit.store.records import ask, change

pytestmark = pytest.mark.exhaustive


def states(url):
    """Return how many items are in each state."""
    return dict(ask(url, "select state, count(*) from run_specialist.items group by state"))


def statuses(url):
    """Return how many runs have each status."""
    return dict(ask(url, "select status, count(*) from run_specialist.runs group by status"))


async def test_two_workers_answer_a_batch(put, working, model, url):
    """Each item has one outcome, no request is sent twice, and the queue is empty."""
    await put(8)
    async with working(), working():
        await until(lambda: states(url) == {"ended": 8})
    assert statuses(url) == {"answered": 8}
    assert (len(model.requests), model.paid_again().total()) == (24, 0)
    assert ask(url, "select count(*) from run_specialist_queue.pgqueuer") == [(0,)]


async def test_a_batch_that_a_worker_cannot_run_is_refused(working, model, url, root, frozen):
    """Each has one line with the reason: its root, no copy of the file, no fixed model, or a model that is required."""
    (root / "specialists" / "finder.md").write_text(FILE.replace("model: claude-sonnet-4-5\n", ""))
    without_model = freeze(load(root / "specialists" / "finder.md"), root, {}).model_dump()
    reasons = {
        "b0": (frozen | {"root": "elsewhere"}, "; start it with --root elsewhere=PATH"),
        "b1": (frozen | {"content": None}, "was not made for a queue"),
        "b2": (without_model, "its model was not fixed when it was put into the queue"),
        "b3": (without_model | {"model": "offline", "require_model": True}, "the model of this run is offline"),
    }
    for batch_id, (content, _) in reasons.items():
        await put_batch(url, batch_id, content)
    async with working() as (worker, _):
        await until(lambda: len(worker.said) == len(reasons))
    for line in worker.said:
        batch_id = line.removeprefix("refused: batch ").split()[0]
        assert reasons[batch_id][1] in line
    assert (states(url), model.requests) == ({"waiting": 4}, [])


async def test_a_worker_that_lacks_a_file_leaves_the_items_to_others(put, working, model, url, root, tmp_path):
    """It says so once, and no item fails; a worker that has the file answers them."""
    (root / "specialists" / "finder.md").write_text(FILE.replace("tools", "output_schema: shape.json\ntools"))
    (root / "specialists" / "shape.json").write_text('{"type": "object"}')
    await put(2)
    other = tmp_path / "other"
    other.mkdir()
    async with working(roots={"notes": other}) as (worker, _):
        (line,) = await until(lambda: worker.said)
        assert line.startswith(f"refused: batch {BATCH} cannot run here: ")
        assert "shape.json: cannot be read" in line
        assert (states(url), model.requests) == ({"waiting": 2}, [])
        async with working():
            await until(lambda: states(url) == {"ended": 2})
        assert worker.said == [line]


async def test_p1_who_writes_the_tables_has_no_command_run(put, working, model, url, root, tmp_path):
    """A batch with a server to start is refused, even with the file of a packaged specialist at its absolute place."""
    file = packaged() / "thoughts-analyzer.md"
    (root / "thoughts").mkdir()
    (root / "thoughts" / "owls.md").write_text("Owls eat mice.\n")
    frozen = {"name": "thoughts-analyzer", "content": file.read_text(), "digest": load(file).digest, "place": str(file)}
    servers = {"evil": {"command": "sh", "args": ["-c", f"touch {tmp_path}/mark"]}}
    await put(1, **frozen, settings={"mcp_servers": servers})
    async with working() as (worker, _):
        await until(lambda: model.requests or any(line.startswith("refused: batch ") for line in worker.said))
    assert (states(url), model.requests) == ({"waiting": 1}, [])
    assert not (tmp_path / "mark").exists()


async def test_a_worker_that_stops_pays_nothing_twice(put, working, model, url):
    """The replies under way are stored, the items go back, and the next worker continues them."""
    model.delay = 0.3
    await put(6)
    async with working() as (worker, task):
        await until(lambda: len(model.requests) >= 5)
        worker.stop()
        assert await task == Exit.OK
    assert set(states(url)) <= {"waiting", "ended"}
    assert states(url)["waiting"]
    async with working():
        await until(lambda: states(url) == {"ended": 6})
    assert (statuses(url), len(model.requests), model.paid_again().total()) == ({"answered": 6}, 18, 0)


async def test_a_run_that_another_worker_has_sends_no_more_requests(put, working, model, url):
    """The owner in the row fences the worker that lost it, before its next request."""
    model.delay = 0.3
    await put(1)
    async with working() as (worker, task):
        await until(lambda: model.requests)
        change(url, "update run_specialist.runs set owner = 'another'")
        change(url, "update run_specialist_queue.pgqueuer set queue_manager_id = gen_random_uuid(), heartbeat = now()")
        await until(lambda: not worker._under_way)
        worker.stop()
        await task
    assert len(model.requests) == 1
    assert states(url) == {"begun": 1}


async def test_an_item_at_work_is_left_alone(put, working, model, url, monkeypatch):
    """By its own worker, if its heartbeats are late, and by others, which hand it back; nothing is paid twice."""
    monkeypatch.setattr(queue_module, "SILENCE", 0.0)
    monkeypatch.setattr(worker_module, "AT_WORK_DELAY", 0.2)
    model.delay = 0.5
    await put(2)
    async with working():
        await until(lambda: len(model.requests) == 4)
        async with working():
            await until(lambda: states(url) == {"ended": 2})
    assert ask(url, "select sum(takeovers) from run_specialist.items") == [(0,)]
    assert (len(model.requests), model.paid_again().total()) == (6, 0)


async def test_an_item_that_ends_its_workers_is_given_up(put, working, model, url, queue, monkeypatch):
    """After three takeovers without a turn it is dead; nothing is sent, and the others are answered."""
    await put(2)
    (job,) = await queue.take({BATCH: 0}, 1)
    for _ in range(worker_module.MAX_TAKEOVERS):
        await queue.begin(job)
    monkeypatch.setattr(queue_module, "SILENCE", 0.0)
    async with working():
        await until(lambda: states(url) == {"ended": 1, "dead": 1})
    assert {request.item for request in model.requests} == {2}
    async with Control(url) as control:
        assert (await control.status(BATCH))[0].items == {"answered": 1, "dead": 1}


async def test_a_batch_waits_for_its_endpoint_and_then_goes_on(put, working, model, url, monkeypatch):
    """No credit: no item fails; the first item after the pause opens the gate."""
    monkeypatch.setattr(queue_module, "FIRST_PAUSE", 0.2)
    model.refusal = "quota"
    await put(3)
    async with working():
        await until(lambda: ask(url, "select failures from run_specialist.gates where failures > 1"))
        model.refusal = ""
        await until(lambda: states(url) == {"ended": 3})
    assert statuses(url) == {"answered": 3}
    assert ask(url, "select count(*) from run_specialist.gates") == [(0,)]


async def test_a_refusal_that_no_retry_mends_stops_the_worker_or_pauses_the_batch(put, working, model, url):
    """A wrong key is one worker's, a missing model the batch's; its items wait until a person resumes it."""
    await put(2)
    model.refusal = "credentials"
    async with working() as (worker, task):
        assert await task == Exit.PROVIDER
    assert worker.said[0].startswith("this worker stops: ")
    model.refusal = "model_missing"
    async with working() as (worker, _):
        await until(lambda: ask(url, "select 1 from run_specialist.batches where state = 'paused'"))
        await until(lambda: not worker._under_way)
    assert states(url) == {"waiting": 2}
    assert f"batch {BATCH} is paused: " in worker.said[0]
    model.refusal = ""
    with BatchWriter(url) as writer:
        writer.put_back(BATCH, [])
    async with working() as (worker, task):
        worker.stop()
        await task
    assert model.requests == []
    async with Control(url) as control:
        await control.resume(BATCH)
    async with working():
        await until(lambda: states(url) == {"ended": 2})


async def test_a_cancelled_batch_ends_after_the_turn(put, working, model, url):
    """Items at work end as cancelled, the others are not run."""
    # Longer than a worker waits before it looks at the queue again; a run takes three requests.
    model.delay = 0.4
    await put(6)
    async with working():
        await until(lambda: len(model.requests) >= 4)
        async with Control(url) as control:
            await control.cancel(BATCH)
        await until(lambda: states(url).get("cancelled") == 6)
    assert ask(url, "select count(*) from run_specialist_queue.pgqueuer") == [(0,)]
    assert model.paid_again().total() == 0


async def test_an_item_that_cannot_begin_fails_alone(put, working, model, url):
    """A question that differs from the one stored under its id is an error of the item, with its reason."""
    await put(2)
    async with working():
        await until(lambda: states(url) == {"ended": 2})
    with BatchWriter(url) as writer:
        for number in (1, 2):
            writer.mark(BATCH, run_id(number), "waiting")
    first = "select question from run_specialist.items where number = 1"
    change(url, f"update run_specialist.items set question = ({first}) where number = 2")  # noqa: S608 - a constant
    await put_again(url)
    async with working() as (worker, _):
        await until(lambda: states(url) == {"ended": 2})
        assert [line.split(": ")[0] for line in worker.said] == [f"{run_id(2)} failed"]
    assert ask(url, "select number from run_specialist.items where error is not null") == [(2,)]
    assert len(model.requests) == 6


async def put_again(url):
    """Put the items of the batch that wait into the queue."""
    async with Control(url) as control:
        await control.put(BATCH)


async def test_the_operator_sees_refused_requests(put, working, model, url, tmp_path):
    """Each retry is one line with its item, time, level, host and process; the health file counts them to the end."""
    file = tmp_path / "health.json"
    model.refusal = "rate_limited"
    await put(2)
    async with working(health=HealthFile(file)) as (worker, _):
        await until(lambda: [line for line in worker.said if "HTTP 429, " in line])
        model.refusal = ""
        await until(lambda: states(url) == {"ended": 2})
        await until(lambda: not worker._under_way)
    ids = (run_id(1), run_id(2))
    assert any(line.startswith(ids) and " HTTP 429, " in line and "; retry 1 in " in line for line in worker.said)
    health = json.loads(file.read_text())
    keys = ("state", "ended", "at_work", "exit_code")
    assert [health[key] for key in keys] == ["stopped", {"answered": 2}, 0, 0]
    # After the first refusal, requests are sent one at a time.
    assert health["endpoint_refusals"] >= 1
    assert (health["pid"], health["host"]) == (os.getpid(), socket.gethostname())
    lines = []
    LineLog(lines.append)("what\nhappened", level="warning", item="b1-2")
    (line,) = lines
    found = re.fullmatch(r"(\S+Z) warning host=(\S+) pid=(\d+) item=b1-2 what happened", line)
    assert found
    assert found.groups()[1:] == (socket.gethostname(), str(os.getpid()))
    assert datetime.fromisoformat(found[1]).tzinfo is UTC


async def test_a_worker_without_a_key_takes_nothing(url, root, frozen, working, model, monkeypatch):
    """It answers no item offline and fails none: it refuses the batch, and a worker with a key answers it."""
    (root / "specialists" / "finder.md").write_text(FILE.replace("model: claude-sonnet-4-5\n", ""))
    fixed = freeze(load(root / "specialists" / "finder.md"), root, {}, "claude-sonnet-4-5").model_dump()
    await put_batch(url, BATCH, fixed, 4)
    base = os.environ["ANTHROPIC_BASE_URL"]
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name)
    async with working() as (worker, _):
        (line,) = await until(lambda: worker.said)
    assert line.startswith(f"refused: batch {BATCH} cannot run here: no credentials for claude-sonnet-4-5")
    assert (states(url), statuses(url)) == ({"waiting": 4}, {})
    monkeypatch.setenv("ANTHROPIC_BASE_URL", base)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("SPECIALIST_MODEL", "claude-haiku-4-5")
    async with working():
        await until(lambda: states(url) == {"ended": 4})
    assert ask(url, "select distinct status, model from run_specialist.runs") == [("answered", "claude-sonnet-4-5")]


# What workers do beside their items: prune the log of the queue, and count for OpenTelemetry.
def figures(reader):
    """Return the value of each metric by its name and attributes."""
    data = reader.get_metrics_data()
    return {
        (metric.name.removeprefix("run_specialist.fleet."), *map(str, point.attributes.values())): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


async def test_old_entries_of_the_log_are_pruned_unless_their_job_is_in_the_queue(put, queue, url):
    """Entries older than a week go once their job has ended; younger ones, and those of jobs that wait, stay."""
    await put(3)
    jobs = await queue.take({BATCH: 0}, 2)
    for job in jobs:
        await queue.begin(job)
        await queue.finish(job, "ended")
    log = "select job_id, count(*) from run_specialist_queue.pgqueuer_log group by 1 order by 1"
    before = dict(ask(url, log))
    ended, recent = (job.job_id for job in jobs)
    assert await queue.prune_log() == 0
    age = "update run_specialist_queue.pgqueuer_log set created = now() - interval '8 days' where job_id <> "
    change(url, f"{age} {recent}")
    assert await queue.prune_log() == before[ended]
    assert dict(ask(url, log)) == {job: count for job, count in before.items() if job != ended}


async def test_a_worker_counts_for_a_meter_provider(put, working, model, url, monkeypatch):
    """Items by state, those of the worker, the oldest heartbeat and the cost are gauges; nothing raises without one."""
    reader = InMemoryMetricReader()
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: MeterProvider([reader], shutdown_on_exit=False))
    monkeypatch.setattr("run_specialist.fleet.worker.COUNT", 0.1)
    model.delay = 0.5
    await put(4)
    change(url, "update run_specialist.batches set cost_limit = 2.5")
    async with working():
        seen = await until(lambda: (now := figures(reader)).get(("items", BATCH, "finder", "begun")) == 4 and now)
        assert seen["items.at_work",] == 4
        assert (seen["cost.limit", BATCH, "finder"], seen["requests.waiting",]) == (2.5, 0)
        assert 0 <= seen["heartbeat.age", BATCH, "finder"] < 60
        spent = await until(lambda: figures(reader).get(("cost", BATCH, "finder")))
        assert spent >= 0.00045
        final = await until(lambda: (now := figures(reader)).get(("items", BATCH, "finder", "answered")) == 4 and now)
        assert final["cost", BATCH, "finder"] >= spent, "the final counts stay when the batch has left the queue"
        monkeypatch.setattr("run_specialist.fleet.worker.FINAL", 0.0)
        await until(lambda: ("cost", BATCH, "finder") not in figures(reader))
    async with Control(url) as control:
        assert await control.status() == []
