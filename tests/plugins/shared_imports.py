"""Import modules once for all workers, and compile those of the tests once; each of them would take many seconds."""

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forked_program import fork_workers
from tests.plugins.environment import usual


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Import before the workers start; tests of a few files need little of that."""
    if sys.platform == "linux" and any(map(os.path.isdir, config.args)):
        fork_workers(usual(dict(os.environ)))


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
