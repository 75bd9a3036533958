"""Select comparable past runs of a specialist: those of one version of its file, with the limits of that file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from run_specialist.store.stored import PastRun


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The specialist's file as it is now."""

    digest: str
    """SHA-256 of its content."""
    limits: Mapping[str, float | None]
    """Its limits by kind; None = no limit."""


@dataclass(frozen=True, slots=True)
class Version:
    """The runs of one version of the file."""

    digest: str | None
    """SHA-256 of the file; None if it is unknown, empty for a specialist without a file."""
    runs: int
    first_at: float
    """Start of the oldest run [seconds since 1970]."""
    last_at: float
    """Start of the newest run [seconds since 1970]."""
    counted: bool
    """Whether the statistics are about this version."""

    @classmethod
    def of(cls, runs: Sequence[PastRun], *, counted: bool) -> Self:
        """Summarize the runs of one version, of which there is at least one."""
        starts = [run.started_at for run in runs]
        return cls(runs[0].digest, len(runs), min(starts), max(starts), counted)


@dataclass(frozen=True, slots=True)
class ComparableRuns:
    """The runs that count, and those that do not."""

    runs: Sequence[PastRun]
    changed_limits: dict[str, int]
    """Runs of the counted versions that do not count, because their limits are not those of the file, by status."""
    versions: tuple[Version, ...]
    """All versions, the newest run first."""


def comparable(runs: Sequence[PastRun], file: FileVersion | None, *, all_versions: bool) -> ComparableRuns:
    """Return the runs of the current version of the file that had its limits.

    runs: oldest first.
    file: None if there is no valid file; the version of the newest run then counts as the current one.
    all_versions: count the runs of all versions.
    """
    current = file.digest if file else runs[-1].digest if runs else None
    by_digest: dict[str | None, list[PastRun]] = {}
    for run in runs[::-1]:
        by_digest.setdefault(run.digest, []).append(run)
    counts = {digest: all_versions or digest == current for digest in by_digest}
    of_version = [run for run in runs if counts[run.digest]]
    changed = [run for run in of_version if run.limits_changed]
    left_out = {run.run_id for run in changed}
    return ComparableRuns(
        runs=[run for run in of_version if run.run_id not in left_out],
        changed_limits=dict(Counter(run.outcome["status"] for run in changed).most_common()),
        versions=tuple(Version.of(found, counted=counts[digest]) for digest, found in by_digest.items()),
    )
