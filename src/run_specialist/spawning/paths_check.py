"""Check before a run that its `paths` match at least one file."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run_specialist.budget.budget import Budget, Kind
from run_specialist.errors import NothingToRead, ToolError, UsageError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.tools.sandbox.listing import holds_any
from run_specialist.tools.sandbox.sandbox import Sandbox
from run_specialist.tools.threads import in_thread


@dataclass(frozen=True, slots=True)
class PathsCheck:
    """Result of a successful check."""

    seconds: float = 0
    """Duration of the check, which counts towards the run's time [s]."""
    warnings: tuple[str, ...] = ()


def no_file(root: Path, paths: Sequence[str]) -> str:
    """Return the clause that no file matches."""
    return f"no file under {root} matches {', '.join(paths) or 'an empty list'}"


async def check_paths(file: SpecialistFile, settings: Specialist, root: Path) -> PathsCheck:
    """Look for one file that matches `paths`, in a thread.

    If the search exceeds `tool_timeout` or the time until the run's landing, the run starts anyway, with a warning.
    Raises NothingToRead if no file matches, UsageError if the root cannot be listed.
    """
    if settings.paths is None:
        return PathsCheck()
    paths, begun = settings.paths, time.monotonic()
    left = Budget.of({Kind.TIME: settings.time_limit})[Kind.TIME].until_landing
    try:
        async with asyncio.timeout(settings.tool_timeout if left is None else min(settings.tool_timeout, left)):
            found = await in_thread(lambda: bool(paths) and holds_any(Sandbox(root, paths)))
    except TimeoutError:
        seconds = time.monotonic() - begun
        return PathsCheck(
            seconds, (f"{file.place('paths')}: paths: no matching file was found within {seconds:.3g} s",)
        )
    except ToolError as error:
        raise UsageError(f"{file.place('paths')}: paths: {error}") from error
    if not found:
        raise NothingToRead(
            f"{file.place('paths')}: paths: {no_file(root, paths)}; set another folder with `root`, or create a "
            "specialist for the files there with `specialists new`"
        )
    return PathsCheck(time.monotonic() - begun)
