"""Types of the keyword arguments of a call, so that editors complete them and type checkers refuse others."""

from run_specialist.providers.base import Watch
from run_specialist.record.events import Listener
from run_specialist.specialist.call_settings import Limits, Settings


class RunOptions(Settings, total=False):
    """Keyword arguments of a call that starts a run: the settings to override, and these."""

    question: str | None
    """Another name of `query`."""
    listener: Listener | None
    """Called with each event of the run, in order."""
    watch: Watch | None
    """Called with the pieces of a reply while it streams."""


class ResumeOptions(Limits, total=False):
    """Keyword arguments of a call that resumes a run: new totals of the limits, and these."""

    question: str | None
    """Another name of `query`."""
    listener: Listener | None
    """Called with each event of the run, in order."""
    watch: Watch | None
    """Called with the pieces of a reply while it streams."""
