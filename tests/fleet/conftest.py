"""A PostgreSQL server, a project with a specialist, a scripted model, and batches in the queue."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress

import pytest

from bench.fleet.model import Model, serving
from run_specialist.fleet import worker as worker_module
from run_specialist.fleet.batches import Control, Root, freeze
from run_specialist.fleet.queue import Queue
from run_specialist.fleet.worker import Worker
from run_specialist.specialist.loader import load
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from tests.postgres_server import postgres_server
from tests.unit.store.records import ask, change

BATCH = "b00000001"
PATIENCE = 60
"""Timeout, after which a hanging worker fails the test [s]."""
TABLES = """select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables
    where schemaname like 'run_specialist%' and tablename <> 'alembic_version'"""
FILE = "---\nname: finder\ndescription: Finds.\ntools: [grep]\nmodel: claude-sonnet-4-5\n---\nFind notes.\n"


@pytest.fixture(scope="session")
def server():
    """A server for all tests of this folder."""
    with postgres_server() as running:
        yield running


@pytest.fixture
async def url(server):
    """The URL of a database with an empty queue."""
    async with Control(server.url) as control:
        await control.set_up()
    ((tables,),) = ask(server.url, TABLES)
    change(server.url, f"truncate {tables} restart identity")
    return server.url


@pytest.fixture
def model(monkeypatch):
    """A model that calls a tool twice and then answers."""
    with serving(Model(turns=3, delay=0.0)) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{running.url}/1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        yield running


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project named `notes`."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "notes"
    (root / "specialists").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "owls.md").write_text("Owls eat mice.\n")
    (root / "specialists" / "finder.md").write_text(FILE)
    return root


def run_id(number):
    """Return the id of the run of an item."""
    return f"{BATCH}-{number:016x}"


async def put_batch(url, batch_id, frozen, count=1, first=1):
    """Put a batch with so many items; the numbers in their questions begin with `first`. Return how many are new."""
    batch = StoredBatch(batch_id, "finder", "What do owls eat?", time.time(), frozen)
    with BatchWriter(url) as writer:
        numbers = range(first, first + count)
        items = [StoredItem(f"{batch_id}-{n:016x}", n, f"item {n}", f"What do owls eat? ITEM{{{n}}}") for n in numbers]
        writer.put(batch, items)
    async with Control(url) as control:
        return await control.put(batch_id)


@pytest.fixture
def frozen(root):
    """The frozen values of a healthy batch."""
    return freeze(load(root / "specialists" / "finder.md"), root, {}).model_dump()


@pytest.fixture
def put(url, root):
    """Return a function that puts so many items into the queue."""

    def put_items(count, **changed):
        frozen = freeze(load(root / "specialists" / "finder.md"), root, {}).model_dump()
        return put_batch(url, BATCH, frozen | changed, count)

    return put_items


@pytest.fixture
async def queue(url):
    """Another worker's access to the queue."""
    queue = Queue(url)
    yield queue
    await queue.close()


@pytest.fixture
def working(url, root, monkeypatch):
    """Return a context manager with a worker at work; what it says is in `said`."""
    monkeypatch.setattr(worker_module, "_POLL", 0.1)

    @asynccontextmanager
    async def start(**options):
        said = []
        roots = {name: Root(path) for name, path in ({"notes": root} | options.pop("roots", {})).items()}

        def say(text, *, level="info", item=None):
            if level != "info":
                said.append(text if item is None else f"{item} {text}")

        worker = Worker(url, roots, say, **({"at_once": 4} | options))
        worker.said = said
        task = asyncio.create_task(worker.work())
        try:
            yield worker, task
        finally:
            worker.stop(after_turn=False)
            async with asyncio.timeout(PATIENCE):
                with suppress(asyncio.CancelledError):
                    await task

    return start


async def until(condition):
    """Wait until a function returns something true; return it."""
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):  # noqa: ASYNC110 - the worker changes a database
            await asyncio.sleep(0.05)
        return found
