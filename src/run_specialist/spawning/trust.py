"""What files found in a project may start and import: only what somebody has allowed, remembered by content."""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from run_specialist.errors import NotTrusted
from run_specialist.specialist.project import places

_FOLDER = "trusted"


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that a file would have us do."""

    place: str
    """Of its key, as `file:line:column: key`."""
    words: str
    """E.g. `start npx -y server` or `import app.tools`."""
    mark: str | None
    """What changes with anything that trust was given for; None where that is too much to be looked at."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A file with all that it would have us do."""

    file: Path
    digest: str
    """Of its bytes."""
    project: Path
    demands: tuple[Demand, ...]

    @property
    def can_be_remembered(self) -> bool:
        """Whether a change of anything that trust was given for would be noticed."""
        return all(demand.mark is not None for demand in self.demands)

    @property
    def mark(self) -> str:
        """The name under which trust is remembered: the same content in another project is another claim."""
        about = [os.path.realpath(self.project), self.digest, *(demand.mark for demand in self.demands)]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def is_own(file: Path, project: Path) -> bool:
    """Say whether a file is the user's own or came with this program, so that no project has a hand in it."""
    own = [place.path for place in places(project) if place.project is None]
    real = Path(os.path.realpath(file))
    return any(real.is_relative_to(os.path.realpath(path)) for path in own)


class Trust:
    """What this user has allowed, one small file for each claim: nobody has to wait for another process."""

    def __init__(self, *, given: bool = False, folder: Path | None = None) -> None:
        """Say whether to trust from now on.

        given: allow whatever is asked for, and remember it.
        folder: where it is remembered; None for one in the user's data directory.
        """
        self._given = given
        self._folder = folder
        self._allowed: set[str] = set()

    def check(self, claim: Claim) -> tuple[str, ...]:
        """Return what is worth a warning.

        Raises NotTrusted where somebody has to allow it first.
        """
        if not claim.demands or claim.mark in self._allowed:
            return ()
        known, odd = self._remembered(claim)
        if not known and not self._given:
            wants = "; ".join(f"{demand.place}: would {demand.words}" for demand in claim.demands)
            raise NotTrusted(
                f"{wants}; nobody has allowed this yet, or something of it has changed: look at it, then allow it once "
                f"with --trust, in Python with trust=True{odd and f' ({odd})'}"
            )
        warnings = () if known or not claim.can_be_remembered else self._remember(claim)
        self._allowed.add(claim.mark)
        return warnings

    def is_known(self, claim: Claim) -> bool:
        """Say whether it needs no further word."""
        return not claim.demands or self._remembered(claim)[0]

    def _remembered(self, claim: Claim) -> tuple[bool, str]:
        """Return whether it was allowed, and what is odd about the place where that would stand."""
        if not claim.can_be_remembered:
            return False, "it reaches more files than can be looked at, so this is asked each time"
        path = self._path(claim)
        try:
            kept = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return False, ""
        except OSError as error:
            return False, f"{path} cannot be read: {error.strerror or error}"
        except (ValueError, RecursionError):
            kept = None
        if isinstance(kept, dict) and kept.get("mark") == claim.mark:
            return True, ""
        return False, f"{path} is damaged and counts for nothing"

    def _remember(self, claim: Claim) -> tuple[str, ...]:
        path = self._path(claim)
        kept = {
            "mark": claim.mark,
            "file": str(claim.file),
            "project": str(claim.project),
            "allowed": [demand.words for demand in claim.demands],
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, json.dumps(kept, indent=1))
        except OSError as error:
            return (f"trust cannot be remembered in {path.parent} ({error.strerror or error}); it holds for now alone",)
        return ()

    def _path(self, claim: Claim) -> Path:
        if self._folder is None:
            import platformdirs  # noqa: PLC0415 - 20 ms that only a file with demands costs

            self._folder = platformdirs.user_data_path("run-specialist", appauthor=False) / _FOLDER
        return self._folder / f"{claim.mark}.json"


def _write(path: Path, text: str) -> None:
    """Put a file in its place whole; whoever reads it meanwhile finds the old one, or none."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(text)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
