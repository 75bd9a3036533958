"""The garbage collector is paused during the import of an SDK and otherwise unchanged."""

import gc
import subprocess
import sys

import pytest

from run_specialist.providers.transport import paused

NEW = "not_imported_yet"


@pytest.fixture(autouse=True)
def unchanged():
    """Unfreeze the objects that tests/plugins/speed.py has frozen, and restore the collector afterwards."""
    gc.unfreeze()
    yield
    gc.enable()
    gc.freeze()


def test_the_collector_is_enabled_again_after_any_import():
    """The collector is enabled again after an import, also after a failed one."""
    seen = []

    def fail() -> None:
        with paused(NEW):
            seen.append(gc.isenabled())
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert (seen, gc.isenabled()) == ([False], True)


def test_an_imported_module_changes_nothing(monkeypatch):
    """If the module has been imported before, the collector is not paused, and frozen objects are not counted."""
    monkeypatch.delattr(gc, "get_freeze_count")
    with paused("json"):
        assert gc.isenabled()


@pytest.mark.exhaustive
def test_a_run_keeps_the_threshold_and_the_frozen_objects():
    """After an SDK import and a run, the program's threshold and frozen objects are unchanged."""
    code = (
        "import gc, asyncio; gc.set_threshold(123, 4, 5)\n"
        "from run_specialist.providers.openai_chat import make_client\n"
        "make_client(api_key='none'); gc.set_threshold = None\n"
        "from run_specialist import Runner, Specialist\n"
        "specialist = Specialist(name='s', description='d', prompt='p', tools=(), model='offline')\n"
        "async def main():\n    async with Runner(store='none') as runner:\n"
        "        await runner.run(specialist, 'Why?')\n"
        "asyncio.run(main()); print(gc.get_threshold(), gc.isenabled(), gc.get_freeze_count())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(123, 4, 5) True 0\n", "")
