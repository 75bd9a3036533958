"""The fixture `specialist_replay` for pytest, which imports this module at start-up in every project.

Therefore the rest of this package is imported only when the fixture is called.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import pytest

if TYPE_CHECKING:
    from run_specialist.record.outcome import Outcome
    from run_specialist.replay.replay import ReplayResult


class SpecialistReplay(Protocol):
    """Replays a cassette."""

    def __call__(
        self,
        path: Path | str,
        *,
        tools: Literal["stored", "live"] = "stored",
        dir: Path | str | None = None,  # noqa: A002 - the flag's name
        root: Path | str | None = None,
    ) -> "Outcome":
        """Replay a cassette and return the outcome; the test fails with the first difference.

        path: path of the cassette, relative to the root folder of pytest.
        tools: `live` runs the tools again and compares their results.
        dir: a folder to search for specialist files before the default folders.
        root: the folder that the file tools can read; None for the project that contains the root folder of pytest.
        """
        ...


@pytest.fixture
def specialist_replay(request: pytest.FixtureRequest) -> SpecialistReplay:
    """Replay a cassette of `specialists replay RUN --save FILE` without network; the test fails if anything differs."""
    top = request.config.rootpath

    def check(
        path: Path | str,
        *,
        tools: Literal["stored", "live"] = "stored",
        dir: Path | str | None = None,  # noqa: A002 - the flag's name
        root: Path | str | None = None,
    ) -> "Outcome":
        from run_specialist.errors import UsageError  # noqa: PLC0415 - see the module
        from run_specialist.specialist.project import project_root  # noqa: PLC0415 - see the module

        folder = project_root(top) if root is None else top / root
        try:
            replayed = _replayed(top, path, tools, None if dir is None else top / dir, folder)
        except UsageError as error:
            pytest.fail(str(error), pytrace=False)
        if replayed.outcome is None or replayed.difference is not None:
            pytest.fail("\n".join(replayed.block), pytrace=False)
        return replayed.outcome

    return check


def _replayed(
    top: Path, path: Path | str, tools: Literal["stored", "live"], dir_: Path | None, root: Path
) -> "ReplayResult":
    """Replay a cassette; in a separate thread if the test runs in an event loop."""
    import asyncio  # noqa: PLC0415 - see the module
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see the module
    from dataclasses import replace  # noqa: PLC0415 - see the module

    from run_specialist.replay.cassette_file import read_cassette  # noqa: PLC0415 - see the module
    from run_specialist.replay.rebuilt_job import SpecialistLocation  # noqa: PLC0415 - see the module
    from run_specialist.replay.replay import replay  # noqa: PLC0415 - see the module

    cassette, place = replace(read_cassette(top / path), source=str(path)), SpecialistLocation(root, dir_)

    def work() -> "ReplayResult":
        return asyncio.run(replay(cassette, place, tools))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
