"""Types of the keyword arguments of a call, so that editors complete them and type checkers refuse others."""

from collections.abc import Sequence

from run_specialist.budget.ladder import Style
from run_specialist.providers.base import Watch
from run_specialist.record.events import Listener
from run_specialist.specialist.call_settings import Limits, OtherLimits, OtherSettings, Settings
from run_specialist.specialist.presets import Preset


class RunOptions(Settings, total=False):
    """Keyword arguments of a call that starts a run, in addition to the settings to override."""

    question: str | None
    """Another name of `query`."""
    listener: Listener | None
    """Called with each event of the run, in order."""
    watch: Watch | None
    """Called with the pieces of a reply while it streams."""


class ResumeOptions(Limits, total=False):
    """Keyword arguments of a call that resumes a run, in addition to new totals of the limits."""

    question: str | None
    """Another name of `query`."""
    listener: Listener | None
    """Called with each event of the run, in order."""
    watch: Watch | None
    """Called with the pieces of a reply while it streams."""


class ForkOptions(ResumeOptions, total=False):
    """Keyword arguments of a call that forks a run, in addition to limits, which include the copied turns."""

    landing: Style
    preset: Preset | None


class MapOptions(OtherLimits, OtherSettings, total=False):
    """Keyword arguments of a call that asks about many items, in addition to the settings to override in every run."""

    model: str | None
    """An alias, a full id or `offline`; None for the model of the `Runner`."""
    at_once: int
    """Maximum number of items in progress; default 8."""
    cost_limit: float | None
    """Cost limit of all items together, including earlier calls; None = no limit [USD]."""
    typical_cost: float
    """Typical cost of an item; no item begins if less than this is left of the limit; 0 = unknown [USD]."""
    retry: Sequence[str]
    """Statuses of earlier outcomes to resume: any of `failed`, `aborted`, `partial`.

    Aborted runs, and those that failed because of the endpoint, are resumed in any case.
    """
    batch: str | None
    """Id of the batch; None = derived from the other arguments, so that the same call has the same id."""
    source: str
    """Source of the items, used as a part of the batch id."""
    breaker: int
    """Number of consecutive endpoint failures of the same kind that pause the batch; default 3."""
    pause_limit: float
    """Maximum duration of a pause, after which the batch ends; default one hour [s]."""
