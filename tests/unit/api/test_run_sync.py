"""`run_sync` returns the same outcome as `run` and handles Ctrl-C."""

import os
import signal
import subprocess
import sys

import pytest

from run_specialist.api.runner import run_sync
from run_specialist.errors import UsageError
from tests.docs.markdown import ROOT
from tests.journals import load
from tests.unit.api.streaming import FINDER


@pytest.mark.anyio
async def test_run_sync_in_a_running_loop_raises_an_error():
    """Inside a running event loop run_sync raises a one-line error with the code to use, before it starts anything."""
    with pytest.raises(UsageError, match=r"await run\(\) instead"):
        run_sync(FINDER, "What?")


PROGRAM = """
import sys
from run_specialist import Specialist, Tool, run_sync
from run_specialist.api import runner
from run_specialist.providers import choose
from tests.scripted_provider import ScriptedProvider, calls

def look(query: str) -> str:
    if query == "b":
        print("reached", flush=True)
        import threading
        if sys.argv[2] == "thread":
            import signal
            # Once the loop sleeps: it would hear the signal as soon as it is awake.
            while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "select":
                pass
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        threading.Event().wait()
    return f"note on {query}"

script = [calls(("look", {"query": "a"})), calls(("look", {"query": "b"}), first_id=2)]
choose.make_provider = lambda model: ScriptedProvider(script)
one = runner.Runner.__init__
runner.Runner.__init__ = lambda self, **given: one(self, tools=[Tool("look", "Look.", look)], **given)
finder = Specialist(name="finder", description="", prompt="You find.", tools=())
try:
    run_sync(finder, "What?", store=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
@pytest.mark.parametrize("whom", ["process", "thread"])
def test_s3_6_ctrl_c_in_run_sync_aborts_and_stores_the_run(whom, tmp_path):
    """Ctrl-C in run_sync aborts the run, stores what was gathered and raises KeyboardInterrupt.

    It does so whichever thread receives the signal.
    """
    url = f"sqlite:///{tmp_path}/runs.db"
    command = [sys.executable, "-c", PROGRAM, url, whom]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "reached\n"
        if whom == "process":
            process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=90)
    assert (told, errors, process.returncode) == ("interrupted\n", "", 0)
    stored = load(url)
    assert stored.status == "aborted"
