"""Functions that ask one question: `run`, and `run_sync` for programs without an event loop."""

import asyncio
from pathlib import Path
from typing import Unpack

from run_specialist.api.run_options import RunOptions
from run_specialist.api.runner import Runner
from run_specialist.api.shutdown import with_bounded_cleanup
from run_specialist.api.signals import with_signal_wakeup
from run_specialist.errors import UsageError
from run_specialist.record.journal import OnLost
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.fields import Specialist


async def run(  # noqa: PLR0913 - as in `Runner`
    specialist: str | Path | Specialist,
    query: str | None = None,
    *,
    root: Path | str | None = None,
    dir: Path | str | None = None,  # noqa: A002 - the flag's name
    model: str | None = None,
    store: Path | str | None = None,
    on_lost: OnLost = "go_on",
    trust: bool = False,
    require_model: bool | None = None,
    **options: Unpack[RunOptions],
) -> Outcome:
    """Ask a specialist one question and return the outcome.

    specialist: a name, the path of a file, or a `Specialist`.
    query: the question; `question` is another name of this argument.
    root: the folder that the file tools can read; None for the project root.
    dir: a folder to search for specialist files before the default folders.
    model: an alias, a full id or `offline`; None for the model in the file or the environment.
    store: location of stored runs: a file, `sqlite:///FILE`, `postgresql://...`, or `none`; None for
        SPECIALIST_STORE, else a file in the user's data directory.
    on_lost: if the store can no longer be written, `go_on` warns and continues unstored; `abort` ends the run.
    trust: allow the file to start the commands and import the functions it declares, and remember this.
    require_model: refuse to answer offline, without a model; None for SPECIALIST_REQUIRE_MODEL.
    options: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit. A `preset` overrides the
        keys of the file that it sets, and the other settings override the preset.
    Raises UsageError before any request is sent to a model; later failures are in the outcome.
    """
    async with Runner(
        root=root, dir=dir, model=model, store=store, on_lost=on_lost, trust=trust, require_model=require_model
    ) as runner:
        return await runner.run(specialist, query, **options)


def run_sync(  # noqa: PLR0913 - as in `Runner`
    specialist: str | Path | Specialist,
    query: str | None = None,
    *,
    root: Path | str | None = None,
    dir: Path | str | None = None,  # noqa: A002 - the flag's name
    model: str | None = None,
    store: Path | str | None = None,
    on_lost: OnLost = "go_on",
    trust: bool = False,
    require_model: bool | None = None,
    **options: Unpack[RunOptions],
) -> Outcome:
    """Ask a specialist one question in a new event loop and return the outcome.

    specialist: a name, the path of a file, or a `Specialist`.
    query: the question; `question` is another name of this argument.
    root: the folder that the file tools can read; None for the project root.
    dir: a folder to search for specialist files before the default folders.
    model: an alias, a full id or `offline`; None for the model in the file or the environment.
    store: location of stored runs: a file, `sqlite:///FILE`, `postgresql://...`, or `none`; None for
        SPECIALIST_STORE, else a file in the user's data directory.
    on_lost: if the store can no longer be written, `go_on` warns and continues unstored; `abort` ends the run.
    trust: allow the file to start the commands and import the functions it declares, and remember this.
    require_model: refuse to answer offline, without a model; None for SPECIALIST_REQUIRE_MODEL.
    options: keys of the file to override, e.g. `tool_calls_limit=6`; None means no limit.
    Ctrl-C aborts the run, stores its findings, and then raises KeyboardInterrupt.
    Raises UsageError before any request is sent to a model, also if an event loop already runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work = run(
            specialist,
            query,
            root=root,
            dir=dir,
            model=model,
            store=store,
            on_lost=on_lost,
            trust=trust,
            require_model=require_model,
            **options,
        )
        return asyncio.run(with_bounded_cleanup(with_signal_wakeup(work)))
    raise UsageError("run_sync() cannot run inside a running event loop; await run() instead")
