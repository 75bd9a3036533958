"""P.8: a worker without privileges, or whose version of the tables does not fit, takes nothing, says why and ends."""

import asyncio
import re
from pathlib import Path

import psycopg
import pytest

from run_specialist.errors import StoreUnusable
from run_specialist.fleet.batches import Root
from run_specialist.fleet.queue import Queue
from run_specialist.fleet.worker import Worker
from run_specialist.record.outcome import Exit
from run_specialist.store.location import VERSION
from tests.fleet.conftest import BATCH, until
from tests.unit.store.records import ask, change

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive]
ROLE = "fleet_worker"
DOCS = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()


@pytest.fixture
def role(url):
    """The URL of a role without privileges in the same database."""
    change(url, f"create role {ROLE} login password 'secret'")
    yield re.sub(r"//[^@]*@", f"//{ROLE}:secret@", url)
    change(url, f"drop owned by {ROLE}")
    change(url, f"drop role {ROLE}")


def work_as(url, root, said):
    """Return a worker that connects as another role."""
    return Worker(url, {"notes": Root(root)}, lambda text, **_: said.append(text), at_once=4)


@pytest.mark.parametrize("source", ["the error", "the docs"])
async def test_a_worker_without_privileges_names_the_grants_and_they_suffice(put, role, root, model, url, source):
    """One line has all statements, as docs/fleet.md has; executed, the worker answers, and can change no batch."""
    await put(3)
    with pytest.raises(StoreUnusable) as refused:
        await work_as(role, root, []).work()
    line = str(refused.value)
    assert ("\n" in line, "lacks privileges" in line, "secret" in line) == (False, True, False)
    (block,) = re.findall(r"```sql\ncreate role .*?;(.*?)```", DOCS, re.DOTALL | re.IGNORECASE)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in re.findall(r"(?i)\bgrant [^;]*;", line if source == "the error" else block):
            connection.execute(statement)
    worker = work_as(role, root, [])
    task = asyncio.create_task(worker.work())
    await until(lambda: ask(url, "select count(*) from run_specialist.items where state = 'ended'") == [(3,)])
    worker.stop()
    assert await task == Exit.OK
    assert model.paid_again().total() == 0
    for statement in (
        "update run_specialist.batches set frozen = ''",
        "update run_specialist.batches set cost_limit = null",
        "delete from run_specialist.runs",
        "insert into run_specialist_queue.pgqueuer default values",
        "create table run_specialist.more ()",
    ):
        with psycopg.connect(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


async def test_a_privilege_that_is_revoked_ends_the_worker(put, role, root, model, url):
    """It says which one in one line, and ends with 2; nothing more is taken."""
    queue, theirs = Queue(url), Queue(role)
    with pytest.raises(StoreUnusable) as refused:
        await theirs.check_access()
    await theirs.close()
    for statement in re.findall(r"GRANT [^;]*;", str(refused.value)):
        change(url, statement)
    said = []
    worker = work_as(role, root, said)
    task = asyncio.create_task(worker.work())
    await put(1)
    await until(lambda: ask(url, "select 1 from run_specialist_queue.pgqueuer") == [] and worker._ended)
    change(url, f"revoke select on run_specialist.gates from {ROLE}")  # noqa: S608
    assert await task == Exit.USAGE
    assert "permission denied for table gates" in said[-1]
    assert await queue.waiting() == {}
    await queue.close()


@pytest.mark.parametrize(("version", "advice"), [("0999", "update run-specialist"), ("0000", "fleet setup")])
async def test_a_worker_of_another_version_does_not_start(put, root, model, url, version, advice):
    """The reason is one line, and no item is taken."""
    await put(2)
    change(url, f"update run_specialist.alembic_version set version_num = '{version}'")  # noqa: S608 - a constant
    with pytest.raises(StoreUnusable, match=advice):
        await work_as(url, root, []).work()
    assert (ask(url, "select distinct state from run_specialist.items"), model.requests) == ([("waiting",)], [])


async def test_a_worker_ends_when_the_tables_are_upgraded(put, working, model, url):
    """Runs under way end after their turn and go back, nothing more is taken, and the exit code is 2."""
    model.delay = 1.0
    await put(12)
    async with working() as (worker, task):
        await until(lambda: len(model.requests) >= 4)
        change(url, "update run_specialist.alembic_version set version_num = '0999'")
        assert await task == Exit.USAGE
    assert worker.said[0].startswith("this worker stops: ")
    assert "its tables are of version 999" in worker.said[0]
    assert {request.item for request in model.requests} <= {1, 2, 3, 4}
    assert ask(url, "select count(*) from run_specialist_queue.pgqueuer where status = 'picked'") == [(0,)]
    change(url, f"update run_specialist.alembic_version set version_num = '{VERSION:04}'")  # noqa: S608
    model.delay = 0.0
    async with working():
        await until(lambda: ask(url, f"select 1 from run_specialist_queue.pgqueuer where entrypoint = '{BATCH}'") == [])  # noqa: S608
    assert model.paid_again().total() == 0
