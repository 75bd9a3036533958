"""`Runner`: runs specialists and reuses connections, tool servers and the store between runs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from run_specialist.api.batch_maker import BatchMaker
from run_specialist.api.ended_run import EndedRun
from run_specialist.api.model_choice import ModelChoice
from run_specialist.api.price_check import check_price
from run_specialist.api.project_files import find_project
from run_specialist.api.provider_pool import ProviderPool
from run_specialist.api.run_maker import RunMaker
from run_specialist.api.run_options import ForkOptions, MapOptions, ResumeOptions, RunOptions
from run_specialist.api.run_store import RunStore
from run_specialist.api.stream import Stream
from run_specialist.api.taking_up import begin, fork, resume, take_up
from run_specialist.api.working_specialists import WorkingSpecialists
from run_specialist.batch.item_run import Lend
from run_specialist.loop.executed import Augmenter
from run_specialist.loop.run import Run
from run_specialist.providers.base import Provider
from run_specialist.record.journal import OnLost
from run_specialist.record.outcome import Outcome
from run_specialist.redaction import passwords
from run_specialist.spawning.model_rule import ModelRule
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.agent_graph import MAX_DEPTH
from run_specialist.specialist.defaults import NO_DEFAULTS, Defaults
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool
from run_specialist.tools.decorator import as_tools
from run_specialist.tools.mcp.clients import McpClients

if TYPE_CHECKING:
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import Input, InputRecord


class Runner:
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
        max_depth: int = MAX_DEPTH,
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
        self.root, self.registry = find_project(root, dir, defaults)
        self.default_model = defaults.model
        permissions = Trust(given=trust, on_allowed=self._report_allowed)
        self._clients = McpClients()
        self._providers = ProviderPool(requests_at_once)
        rule = ModelRule.of(require_model)
        self._models = ModelChoice(
            model, provider, self._providers, rule, permissions, self._report_loading, self.root, defaults.model
        )
        self.working = WorkingSpecialists(self.registry, self.root, self._models)
        """Checks which specialists can work here."""
        self.store = None if store is None else str(store)
        self._store = RunStore(self.store, on_lost)
        self.secrets = (*secrets, *passwords(self.store or ""))
        """Redacted in every tool result, in addition to credentials in the environment."""
        self._maker = RunMaker(self.root, self.registry, self._models, self.working, self._store, strict=strict)
        self.environments = self._maker.equip(
            max_depth, permissions, self._clients, as_tools(tools), augmenters, self.secrets, dry_run=dry_run
        )
        """Makes the environment of each run."""
        self.batches = BatchMaker(self._maker)
        """Makes batches; `map` covers the common case, in which items differ only in their questions."""
        self.loading: Callable[[str], None] | None = None
        """Called from a thread, with a line of text, when loading the weights of a `local:` model begins."""
        self.allowed: Callable[[str], None] | None = None
        """Called from a thread, with a line of text, for each action that `trust` allows for the first time."""

    async def prepare(
        self,
        specialist: str | Path | Specialist,
        query: str | None = None,
        *,
        model: str | None = None,
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
        asked = self._maker.asked(specialist, query, model, options)
        return await (self._maker.new(asked) if run_id is None else begin(self._maker, asked, run_id))

    async def resume(
        self,
        run_id: str,
        query: str | None = None,
        *,
        force: bool = False,
        **options: Unpack[ResumeOptions],
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
        return await resume(self._maker, run_id, query, options, force=force)

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
        return await fork(self._maker, run_id, query, options, at=at, model=model, force=force)

    async def take_up(  # noqa: PLR0913 - keyword arguments, all optional
        self,
        run_id: str,
        specialist: str | Path | Specialist,
        query: str | None = None,
        *,
        model: str | None = None,
        force: bool = False,
        retry: Sequence[str] = (),
        lend: Lend | None = None,
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
        lend: returns the share of a common limit that the run may spend, see `batch.item_run.Lend`.
        listener, watch: called with the events of the run, and with the pieces of its replies while they stream.
        options: keys of the file to override, the same in each call.
        Raises AtWork if another process works on the run, UsageError with each difference from the stored run,
        NotResumable with the reason, before any request is sent to a model.
        """
        asked = self._maker.asked(specialist, query, model, options)
        if lend is not None:
            check_price(await self._maker.provider(asked))
            asked = replace(asked, lend=lend)
        return await take_up(self._maker, asked, run_id, force=force, retry=retry)

    async def run(
        self,
        specialist: str | Path | Specialist,
        query: str | None = None,
        *,
        model: str | None = None,
        **options: Unpack[RunOptions],
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
        run = await self.prepare(specialist, query, model=model, **options)
        return await run.outcome()

    def stream(
        self,
        specialist: str | Path | Specialist,
        query: str | None = None,
        *,
        model: str | None = None,
        **options: Unpack[RunOptions],
    ) -> Stream:
        """Return a `Stream` of the run's events, whose `outcome` is set at the end.

        specialist: a name, the path of a file, or a `Specialist`.
        query: the question; `question` is another name of this argument.
        model: an alias, a full id or `offline`; None for the model of the `Runner`.
        listener: called with each event of the run, in order.
        watch: called with the pieces of a reply while it streams.
        options: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit.
        """
        return Stream(lambda: self.prepare(specialist, query, model=model, **options))

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

    @property
    def models_allowed(self) -> frozenset[str]:
        """The models that the caller, the environment and the config files name."""
        return self._models.allowed

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
            parts.push_async_callback(self._store.aclose)
            parts.push_async_callback(self._providers.aclose)
            parts.push_async_callback(self._clients.aclose)
            parts.push_async_callback(self.batches.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
