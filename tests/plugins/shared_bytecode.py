"""Compile each module once for all workers; in a fresh clone each of them would compile all of them."""

import importlib
import subprocess
import sys
from contextlib import suppress
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest

from tests.plugins.environment import runs_tests
from tests.program_forks import PROGRAMS, REQUESTS, SERVERS

MOST = ("openai", *REQUESTS, *PROGRAMS, *SERVERS)
"""Modules that import nearly all others."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before the workers start, compile the modules that all of them import first, unless this has been done."""
    if not runs_tests(config) and not all(map(_is_compiled, MOST)):
        code = f"import importlib; [importlib.import_module(name) for name in {MOST!r}]"
        subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.DEVNULL)


def _is_compiled(name: str) -> bool:
    found = find_spec(name.partition(".")[0])
    return found is None or not found.origin or Path(cache_from_source(found.origin)).exists()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test modules, so that each worker compiles others first and finds the rest compiled."""
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    folders = [path for path in map(Path, session.config.args) if path.is_dir()]
    files = sorted({file.resolve() for folder in folders for file in folder.rglob("test_*.py")})
    for file in files[int(given["workerid"].removeprefix("gw")) :: given["workercount"]]:
        if file.is_relative_to(session.config.rootpath):
            # The collection reports an import that fails, and a module that is skipped.
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(session.config.rootpath).with_suffix("").parts))
