"""Batches in the queue: freeze them, put them in, control them, and find what they need on a host."""

import asyncio
import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from run_specialist.api.config_files import server_of
from run_specialist.api.preview import effective_of
from run_specialist.api.runner import Runner
from run_specialist.batch.item import Input, InputRecord
from run_specialist.batch.questions import Template, asked
from run_specialist.errors import RunNotFound, RunSpecialistError, StoreUnusable, UsageError, errors_as, on_error
from run_specialist.fleet import queue as queue_sql
from run_specialist.fleet.queue import LARGEST, UNREADABLE, Queue, QueueAway
from run_specialist.fleet.worker_log import Log
from run_specialist.providers.choose import check_usable, named_models, why_offline
from run_specialist.providers.local_servers import WEIGHTS, prefix_of
from run_specialist.providers.models import check_spelling
from run_specialist.record.outcome import OFFLINE
from run_specialist.safety.git import ask_git
from run_specialist.safety.safe_files import read_content
from run_specialist.spawning.availability import ModelRule, check_paths
from run_specialist.specialist.checks import split_models
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_path, project_root
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import Data, resolve
from run_specialist.store.batch_reader import StoredBatches
from run_specialist.store.batches import BatchWriter, StoredBatch, StoredItem
from run_specialist.store.location import shown as location_shown
from run_specialist.store.rows import unpack

if TYPE_CHECKING:
    from run_specialist.batch.item import Lend
    from run_specialist.loop.run import EndedRun, Run


async def put(  # noqa: PLR0913 - what a call of `map` has
    runner: Runner,
    url: str,
    specialist: str,
    items: Iterable[Input | InputRecord],
    *,
    batch_id: str,
    question: str | None = None,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    at_once: int = 0,
    cost_limit: float | None = None,
    typical_cost: float = 0.0,
    require_model: bool | None = None,
    priority: int | None = None,
) -> tuple[int, int]:
    """Put a batch into the queue; return the numbers of its items and of the new ones in the queue.

    Calling it again adds only missing items.
    url: a PostgreSQL store, with a queue.
    items: questions, or fields by name for `question`.
    batch_id: that of `Runner.map` for the same call.
    question: a template such as `What does {path} say?`.
    model: the model of all runs; None = that of the file, otherwise the one that a run of this host would have. It
        stays the model of the batch, whatever the workers or later calls have.
    settings: keys of the file to override in every run.
    at_once: how many items the whole fleet may work on at the same time; 0 = any number.
    cost_limit: of all items together, earlier calls included; None = no limit [USD].
    typical_cost: cost of an item, from past runs; 0 = unknown [USD].
    require_model: refuse to answer offline, on all workers; None = as SPECIALIST_REQUIRE_MODEL says here.
    priority: batches with a higher one are taken first; None = 0, or that of an earlier call.
    Raises UsageError.
    """
    file = runner.registry.find(specialist)
    if not file.digest:
        raise UsageError(f"{file.path}: a batch for a queue needs a specialist with a file")
    # The config files of this host are not read by the workers.
    defaults = {key: one.value for key, one in file.defaults.items() if key not in file.lines}
    settings = {**defaults, **(settings or {})}
    # A worker would refuse the batch, because others may write to the queue.
    resolve(file, {}, data=Data(settings, lambda _: "--queue"))
    rule, settled = ModelRule.of(require_model), resolve(file, settings).settings

    def write() -> int:
        """Write the batch; return the number of its items."""
        before: Mapping[str, Any] = {}
        with suppress(StoreUnusable, RunNotFound), StoredBatches(url) as stored:
            found = stored.find(batch_id)
            before = found.frozen if found.batch_id == batch_id and "root" in found.frozen else {}
        fixed = _fixed_model(file, settled, model or before.get("model"), runner.default_model, rule)
        frozen = freeze(
            file,
            runner.root,
            settings,
            fixed,
            at_once=at_once,
            typical_cost=typical_cost,
            require_model=rule.is_required or before.get("require_model") is True,
            priority=before.get("priority", 0) if priority is None else priority,
        )
        project, values = project_path(runner.root), frozen.model_dump()
        row = StoredBatch(batch_id, file.name, question or "", time.time(), values, model, project, cost_limit)
        template = None if question is None else Template(question)
        rows = (
            StoredItem(f"{batch_id}-{one.key}", one.number, one.input, one.question) for one in asked(items, template)
        )
        with BatchWriter(url) as writer:
            return writer.put(row, rows)

    count = await asyncio.to_thread(write)
    async with Control(url) as control:
        return count, await control.put(batch_id)


def _fixed_model(
    file: SpecialistFile, settings: Specialist, model: str | None, default: str | None, rule: ModelRule
) -> str | None:
    """Return the model that all workers use; None for the one that the file names.

    Raises UsageError if no model is named and this host has no credentials, or if a required model is missing.
    """
    if why := why_offline(model, settings.model, default):
        rule.check(file, settings, why)
    if model is not None or settings.model not in {None, "inherit"}:
        return model
    is_named = bool(os.environ.get("SPECIALIST_MODEL") or default)
    if why and not is_named:
        raise UsageError(
            f"{settings.name}: {why}; the workers have their own environment, so a batch in the queue needs a named "
            "model: use `model`"
        )
    return ", ".join(named_models(None, None, default))


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch in the queue."""

    batch_id: str
    specialist: str
    state: str
    """`open`, `paused`, `cancelled` or `ended`."""
    reason: str | None
    """The reason for its state, or for a pause of its endpoint; None if there is none."""
    closed_until: float | None
    """Time until which no worker takes its items, after refused requests [seconds since 1970]; None = now."""
    items: dict[str, int]
    """Items by state: `waiting`, `begun`, `dead`, `cancelled`, or the status of the run."""
    queued: int
    at_work: int
    """Items that a worker holds."""
    workers: int
    silent: float | None
    """Age of the oldest heartbeat [s]; None = no worker holds an item."""
    cost_usd: float
    """Known cost of all its runs so far [USD]."""
    cost_limit: float | None
    """Of all items together; None = no limit [USD]."""
    granted_usd: float
    """The amount that the items in progress may still spend of the limit [USD]."""


class Control(AbstractAsyncContextManager["Control"]):
    """Access to the queue for one command.

    Its methods raise UsageError if the batch is unknown, and StoreUnusable if the database cannot be used.
    """

    def __init__(self, url: str) -> None:
        """Connect on first use.

        url: a PostgreSQL store.
        """
        self._url = url
        self._queue = Queue(url)

    async def set_up(self) -> None:
        """Create or upgrade the tables of store and queue."""
        await asyncio.to_thread(lambda: BatchWriter(self._url).close())
        await self._queue.set_up()

    async def put(self, batch_id: str) -> int:
        """Put the items of a stored batch that have not ended into the queue; return how many were not there yet."""
        return await self._put(batch_id, (), await self._queue.fetch(queue_sql.TO_DO, batch_id))

    async def status(self, batch_id: str | None = None) -> list[BatchStatus]:
        """Return the state of one batch, or of all batches that have jobs."""
        named = [] if batch_id is None else [batch_id]
        found = await statuses(self._queue, named, with_jobs=batch_id is None)
        if named and not found:
            raise UsageError(f"there is no batch {batch_id} in {location_shown(self._url)}")
        return found

    async def pause(self, batch_id: str) -> None:
        """Pause a batch: no more of its items start, and items in progress continue."""
        await self._set_state(batch_id, "paused", "paused by `specialists fleet pause`")

    async def resume(self, batch_id: str) -> None:
        """Let workers take the items of a batch again, even if its endpoint refused requests a moment ago."""
        await self._set_state(batch_id, "open")
        await self._queue.fetch(queue_sql.OPEN, batch_id, True)

    async def cancel(self, batch_id: str) -> int:
        """End a batch: items that have not begun are not run, others end after their turn; return how many have not."""
        await self._set_state(batch_id, "cancelled", "cancelled by `specialists fleet cancel`")
        return len(await self._queue.fetch(queue_sql.CANCEL, batch_id, None))

    async def retry(self, batch_id: str, statuses: Sequence[str]) -> int:
        """Put abandoned items, and items without a run, into the queue again; return how many.

        statuses: also those whose runs ended with one of these; such runs are resumed.
        """
        await self.status(batch_id)
        items = await self._queue.fetch(queue_sql.TO_RETRY, batch_id, [*statuses])

        def put_back() -> None:
            with BatchWriter(self._url) as writer:
                writer.put_back(batch_id, [row["run_id"] for row in items])

        await asyncio.to_thread(put_back)
        if items:
            await self._set_state(batch_id, "open")
        return await self._put(batch_id, statuses, items)

    async def _put(self, batch_id: str, retry: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> int:
        priority = None
        with suppress(UsageError):
            priority = (await self._queue.frozen(batch_id)).get("priority")
        run_ids = [row["run_id"] for row in rows]
        return await self._queue.put(batch_id, run_ids, retry, priority if isinstance(priority, int) else 0)

    async def _set_state(self, batch_id: str, state: str, reason: str | None = None) -> None:
        await self.status(batch_id)
        await asyncio.to_thread(set_state, self._url, batch_id, state, reason)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._queue.close()
        if isinstance(error, QueueAway):
            raise StoreUnusable(f"{location_shown(self._url)}: {error}") from error


async def statuses(queue: Queue, named: Collection[str] = (), *, with_jobs: bool = True) -> list[BatchStatus]:
    """Return the state of batches; unknown ones are left out.

    with_jobs: also that of all batches that have jobs.
    """
    found = []
    for row in await queue.fetch(queue_sql.STATUS, [*named], with_jobs):
        packed, reason = row.pop("packed"), row.pop("closed_by")
        if isinstance(packed, bytes):
            try:
                reason = unpack(packed, LARGEST)
            except UNREADABLE:
                reason = "its reason cannot be read"
        found.append(BatchStatus(reason=reason, **row))
    return found


def set_state(url: str, batch_id: str, state: str, reason: str | None) -> None:
    """Set the state of a batch; blocks. Raises StoreUnusable."""
    with BatchWriter(url) as writer:
        writer.set_state(batch_id, state, reason)


MOST_AT_ONCE = 1_000_000
"""Maximum number of items that a batch may ask the fleet to work on at the same time."""


class FrozenBatch(BaseModel):
    """The part of a batch that is the same on every host."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    name: str
    """Name of the specialist."""
    content: str
    """Content of the specialist's file."""
    digest: str
    """SHA-256 of the file."""
    place: str
    """Path of the file, relative to the root if it is below it."""
    root: str
    """Name of the root folder; its path differs between workers."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the call, by key."""
    model: str | None = None
    """The model of all runs, one or several names; None = the one that the file names."""
    require_model: bool = False
    """Whether no item may be answered offline."""
    root_ids: list[str] = Field(default_factory=list)
    """Ids of the root where the batch was put into the queue, see `roots.root_ids`."""
    at_once: Annotated[int, Field(ge=0, le=MOST_AT_ONCE)] = 0
    """How many items the whole fleet may work on at the same time; 0 = any number."""
    typical_cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Cost of an item, from past runs; 0 = unknown [USD]."""
    priority: int = 0
    """Batches with a higher priority are taken first."""

    @classmethod
    def from_json(cls, frozen: Mapping[str, Any], batch_id: str) -> "FrozenBatch":
        """Return the batch that the store keeps as `model_dump`; raises UsageError for other values."""
        unfit = f"batch {batch_id} was not made for a queue"
        try:
            batch = cls.model_validate(frozen)
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(f"{unfit}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        if hashlib.sha256(batch.content.encode()).hexdigest() != batch.digest:
            raise UsageError(f"{unfit}: the content of its file does not have its digest")
        return batch

    def file_on_this_host(self, registry: Registry, root: Path, copies: Path) -> SpecialistFile:
        """Return the specialist's file: the same one below the root or of this host, else a copy, which is data.

        Others may have written to the queue, so a copy gets no power, even with trust.
        registry: of the specialists of this host.
        copies: folder for the copy, which contains no other specialist.
        Raises UsageError for a place outside of the root.
        """
        place = PurePosixPath(self.place.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or "\0" in self.place or Path(self.place).anchor:
            raise UsageError(f"the place of its file, {shown(self.place)}, is not below the root")
        data = self.content.encode()
        # A place may also be a FIFO or a device, which would be read for ever.
        with suppress(OSError, ValueError):
            if read_content(root, str(place), len(data)) == data:
                return registry.find(str(root / place))
        with suppress(UsageError):
            if (known := registry.find(self.name)).digest == self.digest:
                return known
        copies.mkdir(parents=True, exist_ok=True)
        copy = copies / (place.name or "specialist.md")
        copy.write_bytes(data)
        return replace(load(copy, copies), given_origin="data")


def freeze(
    file: SpecialistFile,
    root: Path,
    settings: Mapping[str, Any],
    model: str | None = None,
    **others: Any,  # noqa: ANN401 - other fields of the batch
) -> FrozenBatch:
    """Return the frozen values of a specialist's file; raises UsageError if it cannot be frozen.

    root: the root folder of the file tools; other hosts know it by its name.
    """
    data = file.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != file.digest:
        raise UsageError(f"{file.path}: changed while it was read; call the command again")
    try:
        content = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file.path}: is not UTF-8 text, which a batch for a queue needs; convert it") from None
    path, top = file.path.resolve(), root.resolve()
    return FrozenBatch(
        name=file.name,
        content=content,
        digest=file.digest,
        place=path.relative_to(top).as_posix() if path.is_relative_to(top) else path.name,
        root=root_name(root),
        settings=dict(settings),
        model=model,
        root_ids=root_ids(root),
        **others,
    )


# Time limit of a git command; after it the repository has no id [s].
_GIT_TIME = 10.0
COMMIT, PLACE = "commit:", "place:"
"""Prefixes of ids: of the first commits of a repository, and of one folder of one host."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of this host."""

    path: Path
    ids: frozenset[str] = frozenset()
    """Ids of the repository and of the folder, as `root_ids` returns them."""
    is_named: bool = True
    """Whether the operator named it with `--root`; otherwise it is the project of the worker's folder."""


def roots_of(given: Sequence[str], start: Path) -> dict[str, Root]:
    """Return folders by name: those given as `NAME=PATH`, otherwise the project of a folder, under its own name.

    Raises UsageError for another form, a duplicate name, and a path that is not a folder.
    """
    if not given:
        project = project_root(start)
        return {root_name(project): Root(project, frozenset(root_ids(project)), is_named=False)}
    roots: dict[str, Root] = {}
    for one in given:
        name, sign, path = one.partition("=")
        if not name or not sign or not path:
            raise UsageError(f"--root: got {one!r}; use NAME=PATH")
        if name in roots:
            raise UsageError(f"--root: {name} is given twice")
        folder = Path(path).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"--root: {name}={path} is not a folder")
        roots[name] = Root(folder, frozenset(root_ids(folder)))
    return roots


def find_root(roots: Mapping[str, Root], name: str, ids: Collection[str], batch_id: str) -> Path:
    """Return the folder of this host for the root of a batch; raises UsageError.

    A folder that the operator named is refused only if it is known to be another repository. The project of the
    worker's folder must have an id of the batch's root, because other projects have the same name.
    ids: those of the root where the batch was put into the queue.
    """
    if (root := roots.get(name)) is None:
        why = f"this worker has {', '.join(sorted(roots)) or 'none'}"
    elif not root.ids.isdisjoint(ids):
        return root.path
    elif not root.is_named:
        why = f"{root.path} is not known to be the same project"
    elif all(any(one.startswith(COMMIT) for one in some) for some in (root.ids, ids)):
        why = f"{root.path} is another repository"
    else:
        return root.path
    raise UsageError(f"batch {batch_id} needs the root {name}, and {why}; start it with --root {name}=PATH")


def root_name(root: Path) -> str:
    """Return the name by which other hosts know a root: that of its folder."""
    return root.resolve().name or "root"


def root_ids(root: Path) -> list[str]:
    """Return the ids of a root: of the first commits of its repository, if git knows them, and of the folder itself."""
    real = root.resolve()
    info = real.stat()

    def digest(*parts: str) -> str:
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def git(*arguments: str) -> str:
        """Return the output of a git command; empty if it fails."""
        with suppress(UsageError):
            done = ask_git(real, *arguments, seconds=_GIT_TIME)
            return "" if done.returncode else done.stdout.decode("ascii", "replace").strip()
        return ""

    ids = [PLACE + digest(socket.gethostname(), str(real), str(info.st_dev), str(info.st_ino))]
    # The oldest commits of a shallow clone are not those of the repository.
    if git("rev-parse", "--is-shallow-repository") == "false":
        commits = sorted(git("rev-list", "--max-parents=0", "HEAD").split())
        ids += [COMMIT + digest(*commits)] if commits else []
    return ids


# Time limit of the search for a file that the specialist can read; after it the worker takes items anyway [s].
_SEARCH_TIME = 5.0


class BatchHere:
    """Takes up the runs of one batch."""

    def __init__(
        self, batch_id: str, content: Mapping[str, Any], roots: Mapping[str, Root], store: str, *, trust: bool
    ) -> None:
        """Prepare a Runner; nothing is started.

        content: the frozen values of the batch.
        roots: folders of this host by name.
        store: the PostgreSQL store of the queue.
        Raises UsageError for a batch that this worker cannot work on.
        """
        self.frozen = frozen = FrozenBatch.from_json(content, batch_id)
        root = find_root(roots, frozen.root, frozen.root_ids, batch_id)
        self._copies = tempfile.TemporaryDirectory(prefix="run-specialist-")
        with errors_as(UsageError, f"batch {batch_id} cannot run here", UsageError), on_error(self._copies.cleanup):
            here = Runner(root=root)
            self._allowed = here.environments.models.allowed
            self._file = frozen.file_on_this_host(here.registry, root, Path(self._copies.name))
            by_file, model = self._file.specialist, frozen.model
            self._named = () if by_file is None or by_file.model is None else (by_file.model, *by_file.fallback_models)
            self._runner = Runner(
                root=root,
                # The models of the file stay those of the file, which may need trust.
                model=None if model is None or split_models(model) == self._named else model,
                store=store,
                # Without its store a run must not continue: another worker may have taken it over by then.
                on_lost="abort",
                trust=trust,
                require_model=frozen.require_model or None,
            )
        # Others may have written to the queue, so its settings are not those of a caller.
        self._data = Data(frozen.settings, lambda _: "its settings")

    async def check(self) -> None:
        """Check that this host has everything that the runs need; sends no request, imports nothing, starts no server.

        The environment of the worker chooses no model, and a model that cannot be asked is not replaced.
        Raises UsageError if a file, an agent, a permission or the credentials are missing, or nothing can be read.
        """
        runner, file, model = self._runner, self._file, self.frozen.model
        settled = resolve(file, {}, data=self._data).settings
        if model is None and settled.model in {None, "inherit"}:
            raise UsageError("its model was not fixed when it was put into the queue; repeat the command that did so")
        first = named_models(model, settled.model, None, settled.fallback_models)[0]
        check_spelling(first)
        check_usable(first)
        if first == OFFLINE:
            rule = ModelRule.of(self.frozen.require_model or None)
            rule.check(file, settled, why_offline(model, settled.model))
        # The models of the agents that the file lists.
        to_check, checked = [settled], {"*"}
        while to_check:
            for name in {*to_check.pop().agents} - checked:
                checked.add(name)
                agent = runner.registry.find(name, file).specialist
                if agent is not None:
                    to_check.append(agent)
                    if agent.model not in {None, "inherit"}:
                        check_usable(named_models(None, agent.model)[0])
        if model is not None and split_models(model) != self._named:
            # A model that neither the file nor this host names must be of a server that this host uses.
            servers = {server_of(one) for one in self._allowed} - {WEIGHTS}
            for one in split_models(model):
                is_of_file = one in self._named and prefix_of(one) is None
                if not is_of_file and one not in self._allowed and server_of(one) not in servers:
                    raise UsageError(f"the model {shown(one)} is not allowed here; name it in SPECIALIST_MODEL")
        found = await effective_of(runner, file, {}, model, self._data)
        if found.cannot_run:
            raise UsageError("; ".join(found.cannot_run))
        # A longer search does not prove anything, and would block the loop of the worker, whose heartbeats then stop.
        seconds = min(settled.tool_timeout, _SEARCH_TIME)
        await check_paths(file, settled.model_copy(update={"tool_timeout": seconds}), runner.root)

    async def take_up(
        self, run_id: str, question: str, retry: Sequence[str], lend: "Lend | None" = None
    ) -> "Run | EndedRun":
        """Begin or resume the run of an item, as `Runner.take_up` does."""
        asked = self._runner.maker.asked(self._file, question, {}, self._data)
        return await self._runner.maker.take_up(replace(asked, lend=lend), run_id, retry)

    async def aclose(self) -> None:
        """Close connections, and remove the copy of the file; an error does not end the worker."""
        with suppress(Exception):
            await self._runner.aclose()
        with suppress(OSError):
            self._copies.cleanup()


def cannot_run(batch_id: str, error: Exception) -> str:
    """Return why a worker takes no items of a batch, in one line."""
    known = isinstance(error, RunSpecialistError)
    reason = str(error) if known else f"{type(error).__name__}: {' '.join(str(error).split())}"
    return f"batch {batch_id} cannot run here: {reason}; fix that and restart this worker"


class KnownBatches:
    """Opens each batch once, and checks that its runs can begin on this host."""

    def __init__(self, queue: Queue, roots: Mapping[str, Root], log: Log, *, trust: bool) -> None:
        """Start without batches; the parameters are those of `Worker`."""
        self._queue, self._roots, self._log, self._trust = queue, dict(roots), log, trust
        self.opened: dict[str, BatchHere] = {}
        """The batches that this worker can work on, by their ids."""
        self.refused: dict[str, str] = {}
        """Why this worker takes no items of a batch, by its id."""

    async def usable(self, batch_id: str) -> BatchHere | None:
        """Return a batch that this worker can work on; otherwise print the reason once, and leave its items to others.

        Raises QueueAway.
        """
        if batch_id in self.refused or batch_id in self.opened:
            return self.opened.get(batch_id)
        batch: BatchHere | None = None
        try:
            content = await self._queue.frozen(batch_id)
            batch = BatchHere(batch_id, content, self._roots, self._queue.url, trust=self._trust)
            await batch.check()
        except (QueueAway, StoreUnusable):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a batch must not cost the other batches
            is_told = batch is None and isinstance(error, UsageError)
            self.refuse(batch_id, str(error) if is_told else cannot_run(batch_id, error))
            if batch is not None:
                await batch.aclose()
            return None
        self.opened[batch_id] = batch
        return batch

    def refuse(self, batch_id: str, reason: str) -> None:
        """Take no more items of a batch, which stay in the queue for other workers; say why, once."""
        if batch_id not in self.refused:
            self.refused[batch_id] = reason
            self._log(f"refused: {reason}", level="error")

    async def forget_all_but(self, kept: Collection[str] = ()) -> None:
        """Close the batches that have no more jobs."""
        self.refused = {one: reason for one, reason in self.refused.items() if one in kept}
        for batch_id in {*self.opened} - {*kept}:
            await self.opened.pop(batch_id).aclose()
