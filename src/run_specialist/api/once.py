"""How a program gets in with one question: `run`, and `run_sync` where there is no event loop."""

import asyncio
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.api.shutdown import and_leave
from run_specialist.api.signals import heard
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
    **settings: Any,  # noqa: ANN401 - as in `Runner.prepare`
) -> Outcome:
    """Put one question to a specialist and return the outcome; see `Runner`."""
    async with Runner(root=root, dir=dir, model=model, store=store, on_lost=on_lost, trust=trust) as runner:
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
    **settings: Any,  # noqa: ANN401 - as in `run`
) -> Outcome:
    """Do what `run` does where there is no event loop, and wait for it.

    Ctrl-C aborts the run; what was gathered is stored before KeyboardInterrupt goes on its way.
    Raises UsageError where an event loop is running.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        where: dict[str, Any] = {"root": root, "dir": dir, "model": model, "store": store}
        doing = run(specialist, question, **where, on_lost=on_lost, trust=trust, **settings)
        return asyncio.run(and_leave(heard(doing)))
    raise UsageError("run_sync would hold up the event loop that is running here: write `await run(...)` instead")
