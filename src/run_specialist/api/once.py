"""Functions that ask one question: `run`, and `run_sync` for programs without an event loop."""

import asyncio
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.api.shutdown import with_bounded_cleanup
from run_specialist.api.signals import with_signal_wakeup
from run_specialist.errors import UsageError
from run_specialist.record.journal import OnLost
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.fields import Specialist


async def run(  # noqa: PLR0913 - as in `Runner`
    specialist: str | Path | Specialist,
    question: str,
    *,
    root: Path | str | None = None,
    dir: Path | str | None = None,  # noqa: A002 - the flag's name
    model: str | None = None,
    store: Path | str | None = None,
    on_lost: OnLost = "go_on",
    trust: bool = False,
    require_model: bool | None = None,
    **settings: Any,  # noqa: ANN401 - as in `Runner.prepare`
) -> Outcome:
    """Ask a specialist one question and return the outcome.

    The arguments are those of `Runner` and `Runner.prepare`.
    """
    async with Runner(
        root=root, dir=dir, model=model, store=store, on_lost=on_lost, trust=trust, require_model=require_model
    ) as runner:
        return await runner.run(specialist, question, **settings)


def run_sync(  # noqa: PLR0913 - as in `Runner`
    specialist: str | Path | Specialist,
    question: str,
    *,
    root: Path | str | None = None,
    dir: Path | str | None = None,  # noqa: A002 - the flag's name
    model: str | None = None,
    store: Path | str | None = None,
    on_lost: OnLost = "go_on",
    trust: bool = False,
    require_model: bool | None = None,
    **settings: Any,  # noqa: ANN401 - as in `run`
) -> Outcome:
    """Run `run` in a new event loop and return its outcome.

    Ctrl-C aborts the run, stores its findings, and then raises KeyboardInterrupt.
    Raises UsageError if an event loop is already running in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        places: dict[str, Any] = {"root": root, "dir": dir, "model": model, "store": store}
        rules: dict[str, Any] = {"on_lost": on_lost, "trust": trust, "require_model": require_model}
        work = run(specialist, question, **places, **rules, **settings)
        return asyncio.run(with_bounded_cleanup(with_signal_wakeup(work)))
    raise UsageError("run_sync() cannot run inside a running event loop; await run() instead")
