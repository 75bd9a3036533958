"""What workers do beside their items: prune the log of the queue, and count for OpenTelemetry."""

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from run_specialist.fleet import worker as fleet_metrics
from run_specialist.fleet.batches import Control
from tests.fleet.conftest import BATCH, until
from tests.unit.store.records import ask, change

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]


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


def test_without_a_meter_provider_there_is_no_meter():
    """The provider that waits for another one is none."""
    assert fleet_metrics.find_meter() is None
