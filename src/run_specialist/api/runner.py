"""The Python API: `Runner`, `run`, `run_sync`, `Stream`, the options of a run, and the preview of one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from run_specialist.api.children import RunEnvironments
from run_specialist.api.event_loop import with_bounded_cleanup, with_signal_wakeup
from run_specialist.api.model_choice import ModelChoice, ProviderPool
from run_specialist.api.run_maker import RunMaker
from run_specialist.api.run_store import RunStore
from run_specialist.budget import Preset, Style
from run_specialist.errors import UsageError
from run_specialist.loop.job import Augmenter
from run_specialist.loop.run import EndedRun, Run
from run_specialist.providers.base import Provider, Watch
from run_specialist.record.events import Event, Listener
from run_specialist.record.outcome import OnLost, Outcome
from run_specialist.safety.redact import passwords
from run_specialist.spawning.availability import ModelRule
from run_specialist.spawning.resuming import ResumeRequest
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.fields import Limits, OtherLimits, OtherSettings, Settings, Specialist
from run_specialist.specialist.loader import NO_DEFAULTS, Defaults
from run_specialist.specialist.project import is_same, places, project_root
from run_specialist.specialist.registry import Registry
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp import McpClients
from run_specialist.tools.python_tools import as_tools

if TYPE_CHECKING:
    from run_specialist.api.batch_maker import BatchMaker
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import Input, InputRecord, Lend


class CommonOptions(TypedDict, total=False):
    """Keyword arguments of every call that starts or resumes one run."""

    question: str | None
    """Another name of `query`."""
    listener: Listener | None
    """Called with each event of the run, in order."""
    watch: Watch | None
    """Called with the pieces of a reply while it streams."""


class RunOptions(CommonOptions, Settings, total=False):
    """Keyword arguments of a call that starts a run, with the settings to override."""

    model: str | None
    """An alias, a full id or `offline`; None for the model of the `Runner`."""


class CallOptions(RunOptions, total=False):
    """Keyword arguments of `run` and `run_sync`: those of a run, and those of `Runner` that matter for only one."""

    root: Path | str | None
    """The folder that the file tools can read; None for the project root."""
    dir: Path | str | None
    """A folder to search for specialist files before the default folders."""
    store: Path | str | None
    """Location of stored runs: a file, `sqlite:///FILE`, `postgresql://...`, or `none`.

    None for SPECIALIST_STORE, else a file in the user's data directory.
    """
    on_lost: OnLost
    """If the store can no longer be written, `go_on` warns and continues unstored; `abort` ends the run."""
    trust: bool
    """Allow the file to start the commands and import the functions it declares, and remember this."""
    require_model: bool | None
    """Refuse to answer offline, without a model; None for SPECIALIST_REQUIRE_MODEL."""


class ResumeOptions(CommonOptions, Limits, total=False):
    """Keyword arguments of a call that resumes a run, with new totals of the limits."""


class ForkOptions(ResumeOptions, total=False):
    """Keyword arguments of a call that forks a run, in addition to limits, which include the copied turns."""

    landing: Style
    preset: Preset | None


class MapOptions(OtherLimits, OtherSettings, total=False):
    """Keyword arguments of a call that asks about many items, in addition to the settings to override in every run."""

    model: str | None
    """An alias, a full id or `offline`; None for the model of the `Runner`."""
    at_once: int
    """Maximum number of items in progress; default 8."""
    cost_limit: float | None
    """Cost limit of all items together, including earlier calls; None = no limit [USD]."""
    typical_cost: float
    """Typical cost of an item; no item begins if less than this is left of the limit; 0 = unknown [USD]."""
    retry: Sequence[str]
    """Statuses of earlier outcomes to resume: any of `failed`, `aborted`, `partial`.

    Aborted runs, and those that failed because of the endpoint, are resumed in any case.
    """
    batch: str | None
    """Id of the batch; None = derived from the other arguments, so that the same call has the same id."""
    source: str
    """Source of the items, used as a part of the batch id."""
    breaker: int
    """Number of consecutive endpoint failures of the same kind that pause the batch; default 3."""
    pause_limit: float
    """Maximum duration of a pause, after which the batch ends; default one hour [s]."""


_Call = TypeVar("_Call", bound=Callable[..., Any])


def _with_options(options: type) -> Callable[[_Call], _Call]:
    """Return a decorator that lists the keyword arguments of a call in its docstring, for `help`."""

    def listed(call: _Call) -> _Call:
        names = fill(", ".join(options.__annotations__), 80)
        call.__doc__ = f"{cleandoc(call.__doc__ or '')}\n\nAll options, see `{options.__name__}`:\n{names}\n"
        return call

    return listed


Prepare = Callable[[], Awaitable[Run]]
"""Prepares a run without starting it."""


class Stream:
    """A run that yields its events; created by `Runner.stream`.

    async with runner.stream("thoughts-analyzer", "Why SQLite?") as stream:
        async for event in stream:
            print(event.event)
    print(stream.outcome.answer)

    Leaving the block early, also by an exception, aborts the run and waits for its end. Leaving an `async for` without
    a block also aborts the run, once the iterator is garbage-collected. Unread events are buffered without a bound:
    they are small, and the budget of the run limits their number.
    """

    def __init__(self, prepare: Prepare) -> None:
        """Create a stream; the run starts when the block is entered or the first event is read.

        prepare: called once, e.g. `lambda: runner.resume("last")`.
        """
        self._prepare = prepare
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._run: Run | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._starting = asyncio.Lock()

    @property
    def run(self) -> Run:
        """The run; raises UsageError before it has started."""
        if self._run is None:
            raise UsageError("the run has not started; enter the `async with` block or read the first event first")
        return self._run

    @property
    def outcome(self) -> Outcome:
        """The outcome, available after the last event or after the block; raises UsageError before that."""
        outcome = self.run.ended
        if outcome is None:
            raise UsageError("the run has no outcome yet; read all events or leave the `async with` block first")
        return outcome

    def abort(self, *, after_turn: bool = False) -> None:
        """Stop the run as soon as possible; the remaining events, up to `finished`, can still be read.

        after_turn: complete the current turn first, as `Run.abort` describes.
        """
        self.run.abort(after_turn=after_turn)

    async def aclose(self) -> None:
        """Abort the run if it has not ended, and wait for its end."""
        task = self._task
        if task is None:
            return
        if not task.done():
            self.run.abort()
            # Cancelling this wait does not cancel the run, which is about to end.
            await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            raise error

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield each event as it happens, the last one with the outcome."""
        await self._started()
        try:
            while (event := await self._events.get()) is not None:
                yield event
            # A second iteration ends, too, instead of waiting forever.
            self._events.put_nowait(None)
        finally:
            await self.aclose()

    async def _started(self) -> None:
        # Concurrent readers share one run.
        async with self._starting:
            if self._task is None:
                self._run = await self._prepare()
                self._run.listen(self._events.put_nowait)
                self._task = asyncio.create_task(self._run.outcome())
                self._task.add_done_callback(lambda _: self._events.put_nowait(None))


class Runner(AbstractAsyncContextManager["Runner"]):
    """Runs specialists; runs with the same model share connections."""

    def __init__(  # noqa: PLR0913 - keyword arguments, all optional
        self,
        *,
        root: Path | str | None = None,
        dir: Path | str | None = None,  # noqa: A002 - the flag's name
        model: str | None = None,
        strict: bool = False,
        provider: Provider | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        augmenters: Sequence[Augmenter] = (),
        store: Path | str | None = None,
        on_lost: OnLost = "go_on",
        trust: bool = False,
        max_depth: int = 2,
        secrets: Sequence[str] = (),
        require_model: bool | None = None,
        defaults: Defaults = NO_DEFAULTS,
        requests_at_once: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Configure a runner; files and connections are opened on first use.

        root: the folder that the file tools can read; None for the project root.
        dir: a folder to search for specialist files before the default folders.
        model: an alias, a full id or `offline`; None for the model in the file or the environment.
        provider: used instead of a provider for the model.
        tools: added to the tools of every specialist; functions become tools.
        augmenters: can add a line to each tool result, before the countdown.
        store: location of stored runs: a file, `sqlite:///FILE`, `postgresql://...`, or `none`; None for
            SPECIALIST_STORE, else a file in the user's data directory.
        on_lost: reaction if the store can no longer be written: `go_on` warns and continues unstored; `abort` ends the
            run
            before its next request, and refuses to start a run that cannot be stored.
        trust: allow the files that are run to start the commands and import the functions they declare; remembered.
        max_depth: maximum depth of nested specialists below a run; 0 = a run may call no specialist.
        secrets: credentials to redact in every tool result; credentials in the environment are always redacted.
        require_model: refuse to answer offline, without a language model; None = as SPECIALIST_REQUIRE_MODEL says.
        defaults: settings and a model for specialists whose files do not contain them; the commands pass those of the
            config files, which the Python API does not read.
        requests_at_once: maximum concurrent requests per endpoint and key; None = SPECIALIST_REQUESTS_AT_ONCE.
        dry_run: change no file; `Outcome.patch` contains the changes that a run would have made.
        """
        given_root = None if root is None else Path(root).absolute()
        project = project_root(Path.cwd(), given_root)
        found = places(project, None if dir is None else Path(dir), meant=is_same(project, given_root))
        self.root, self.registry = given_root or project, Registry(found, defaults=defaults.settings)
        self.default_model = defaults.model
        self.store = None if store is None else str(store)
        self.secrets = (*secrets, *passwords(self.store or ""))
        """Redacted in every tool result, in addition to credentials in the environment."""
        permissions = Trust(given=trust, on_allowed=self._report_allowed)
        self._providers, rule = ProviderPool(requests_at_once), ModelRule.of(require_model)
        fixed = None if provider is None else self._providers.limited(provider)
        models = ModelChoice(
            model, fixed, self._providers, rule, permissions, self._report_loading, self.root, defaults.model
        )
        self.environments = RunEnvironments(
            self.root,
            self.registry,
            models,
            RunStore(self.store, on_lost),
            permissions,
            McpClients(),
            as_tools(tools),
            augmenters,
            self.secrets,
            strict,
            max_depth,
            dry_run,
        )
        """Makes the environment of each run."""
        self.maker = RunMaker(self.environments)
        """Makes runs, and checks which specialists can work here."""
        self.loading: Callable[[str], None] | None = None
        """Called from a thread, with a line of text, when loading the weights of a `local:` model begins."""
        self.allowed: Callable[[str], None] | None = None
        """Called from a thread, with a line of text, for each action that `trust` allows for the first time."""

    async def prepare(
        self,
        specialist: str | Path | Specialist,
        query: str | None = None,
        *,
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> Run:
        """Return a new run, ready to be started or aborted.

        specialist: a name, the path of a file, or a `Specialist`.
        query: the question; `question` is another name of this argument.
        model: an alias, a full id or `offline`; None for the model of the `Runner`.
        run_id: the id of the run, stored before its first request; None for a new one. See `take_up`.
        listener: called with each event of the run, in order.
        watch: called with the pieces of a reply while it streams.
        options: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit. A `preset` overrides
            the keys of the file that it sets, and the other settings override the preset.
        Raises UsageError before any request is sent to a model.
        """
        return await self.maker.begin(self.maker.asked(specialist, query, options), run_id)

    async def resume(
        self, run_id: str, query: str | None = None, *, force: bool = False, **options: Unpack[ResumeOptions]
    ) -> Run:
        """Return a stored run, ready to continue where it stopped.

        run_id: an id, an unambiguous prefix, or `last`: the newest run of this project.
        query: an additional question; `question` is another name of this argument.
        force: resume even if the specialist's file has changed, or another model cannot take the whole transcript.
        listener: called with each event of the run, in order.
        watch: called with the pieces of a reply while it streams.
        options: new totals of limits, e.g. `tool_calls_limit=50`; None means no limit.
        Raises RunNotFound, NotResumable with the reason, or another UsageError, before any request is sent to a model.
        """
        return await self.maker.continued(run_id, ResumeRequest(query, force=force), options)

    async def fork(
        self,
        run_id: str,
        query: str | None = None,
        *,
        at: int,
        model: str | None = None,
        force: bool = False,
        **options: Unpack[ForkOptions],
    ) -> Run:
        """Return a new run that begins with the first turns of a stored one, which is not changed.

        run_id: as for `resume`; the new run has an id of its own, and is stored before this returns.
        query: an additional question; `question` is another name of this argument.
        at: number of turns to copy, with the results of their calls; 0 = only the question.
        model: an alias, a full id or `offline`; None for the model of the `Runner`, else that of the run.
        force: fork even if the specialist's file has changed, or tools of the program are missing.
        listener, watch: called with the events of the new run, and with the pieces of its replies while they stream.
        options: new totals of limits, which include the copied turns; `landing` and `preset`.
        Raises RunNotFound, NotResumable with the reason, or another UsageError, before any request is sent to a model.
        """
        return await self.maker.continued(run_id, ResumeRequest(query, force=force, at=at), options, model)

    async def take_up(  # noqa: PLR0913 - keyword arguments, all optional
        self,
        run_id: str,
        specialist: str | Path | Specialist,
        query: str | None = None,
        *,
        force: bool = False,
        retry: Sequence[str] = (),
        lend: "Lend | None" = None,
        **options: Unpack[RunOptions],
    ) -> Run | EndedRun:
        """Return the run with this id: a new run if none is stored, otherwise the stored one, resumed if unfinished.

        An ended run is returned with its stored outcome; nothing is sent.
        run_id: 1 to 100 letters, digits, `.`, `_` and `-`.
        specialist: a name, the path of a file, or a `Specialist`; the same content in each call with this id.
        query: the question, the same in each call; `question` is another name of this argument.
        model: an alias, a full id or `offline`; None for the model of the `Runner`.
        force: resume even if the specialist's file or the settings have changed since the run began.
        retry: statuses of ended runs to resume: any of `failed`, `aborted`, `partial`.
        lend: returns the share of a common limit that the run may spend, see `batch.item.Lend`.
        listener, watch: called with the events of the run, and with the pieces of its replies while they stream.
        options: keys of the file to override, the same in each call.
        Raises AtWork if another process works on the run, UsageError with each difference from the stored run,
        NotResumable with the reason, before any request is sent to a model.
        """
        asked = self.maker.asked(specialist, query, options)
        return await self.maker.take_up(replace(asked, lend=lend), run_id, retry, force=force)

    @_with_options(RunOptions)
    async def run(
        self, specialist: str | Path | Specialist, query: str | None = None, **options: Unpack[RunOptions]
    ) -> Outcome:
        """Ask a specialist a question and return its outcome.

        specialist: a name, the path of a file, or a `Specialist`.
        query: the question; `question` is another name of this argument.
        model: an alias, a full id or `offline`; None for the model of the `Runner`.
        listener: called with each event of the run, in order.
        watch: called with the pieces of a reply while it streams.
        options: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit.
        Raises UsageError before any request is sent to a model; later failures are in the outcome.
        """
        run = await self.prepare(specialist, query, **options)
        return await run.outcome()

    def stream(
        self, specialist: str | Path | Specialist, query: str | None = None, **options: Unpack[RunOptions]
    ) -> Stream:
        """Return a `Stream` of the run's events, whose `outcome` is set at the end.

        specialist: a name, the path of a file, or a `Specialist`.
        query: the question; `question` is another name of this argument.
        model: an alias, a full id or `offline`; None for the model of the `Runner`.
        listener: called with each event of the run, in order.
        watch: called with the pieces of a reply while it streams.
        options: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit.
        """
        return Stream(lambda: self.prepare(specialist, query, **options))

    @_with_options(MapOptions)
    def map(
        self,
        specialist: str | Path | Specialist,
        items: "Iterable[Input | InputRecord]",
        question: str | None = None,
        **options: Unpack[MapOptions],
    ) -> "Batch":
        """Ask about each of many items, a few at a time; iterate over the returned batch with `async for`.

        specialist: a name, the path of a file, or a `Specialist`.
        items: questions, or mappings of fields for `question`; read lazily, and twice if they have a length.
        question: a template such as `What does {path} say?`; a text item is its field `item`.
        options: `at_once`, `cost_limit` of all items together, and the others of `MapOptions`.
        Raises UsageError; sends nothing before the iteration begins.
        """
        return self.batches.make(specialist, items, question, options)

    @cached_property
    def batches(self) -> "BatchMaker":
        """Makes batches; `map` covers the common case, in which items differ only in their questions."""
        from run_specialist.api.batch_maker import BatchMaker  # noqa: PLC0415 - only batches need it

        return BatchMaker(self.maker)

    def _report_loading(self, line: str) -> None:
        if self.loading is not None:
            self.loading(line)

    def _report_allowed(self, line: str) -> None:
        if self.allowed is not None:
            self.allowed(line)

    async def aclose(self) -> None:
        """Close all connections, the MCP servers, and the store."""
        async with AsyncExitStack() as parts:
            # Callbacks run in reverse: the store closes last, so that events during shutdown are stored.
            parts.push_async_callback(self.environments.store.aclose)
            parts.push_async_callback(self._providers.aclose)
            parts.push_async_callback(self.environments.clients.aclose)
            if "batches" in self.__dict__:
                parts.push_async_callback(self.batches.aclose)

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@_with_options(CallOptions)
async def run(specialist: str | Path | Specialist, query: str | None = None, **options: Unpack[CallOptions]) -> Outcome:
    """Ask a specialist one question and return the outcome.

    specialist: a name, the path of a file, or a `Specialist`.
    query: the question; `question` is another name of this argument.
    options: `model`, `root`, `dir`, `store`, `on_lost`, `trust` and `require_model` as in `Runner`, `listener` and
        `watch` as in `Runner.run`, and keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit. A
        `preset` overrides the keys of the file that it sets, and the other settings override the preset.
    Raises UsageError before any request is sent to a model; later failures are in the outcome.
    """
    given: dict[str, Any] = {**options}
    of_runner = {"model", *(CallOptions.__annotations__.keys() - RunOptions.__annotations__.keys())}
    async with Runner(**{name: given.pop(name) for name in of_runner & given.keys()}) as runner:
        return await runner.run(specialist, query, **given)


@_with_options(CallOptions)
def run_sync(specialist: str | Path | Specialist, query: str | None = None, **options: Unpack[CallOptions]) -> Outcome:
    """Ask a specialist one question in a new event loop and return the outcome.

    Ctrl-C aborts the run, stores its findings, and then raises KeyboardInterrupt.
    specialist: a name, the path of a file, or a Specialist.
    query: the question; `question` is another name of this argument.
    options: as in `run`.
    Raises UsageError before any request is sent to a model, also if an event loop already runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(with_bounded_cleanup(with_signal_wakeup(run(specialist, query, **options))))
    raise UsageError("run_sync() cannot run inside a running event loop; await run() instead")
