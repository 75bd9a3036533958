"""Runs that write their records to a journal."""

from run_specialist.loop.run import Run
from tests.journals import Notebook
from tests.loop_jobs import job
from tests.scripted_provider import ScriptedProvider


async def recorded_run(script, limit=9, **settings):
    """Run a script, and return the run, its outcome and its journal."""
    notebook, provider = Notebook(), ScriptedProvider(script)
    run = Run(job(provider, limit, origin=lambda: ORIGIN, **settings), journal=notebook)
    return run, await run.outcome(), notebook


ORIGIN = {"settings": {}, "file": "<looker>", "digest": "", "root": "/", "given_tools": ["look"], "warnings": []}
