"""Progress notifications of MCP clients while a request waits for its turn."""

from run_specialist.mcp_server.runs import ProgressReporter
from run_specialist.record.events import ChildTold, Waiting


def test_r7_a_wait_is_a_progress_notification():
    """The message has the time if it is known, and the reason; the end of the wait needs none."""
    progress = ProgressReporter()
    assert progress.take(Waiting("started", 41.6, "not now")).message == "waiting 42 s · not now"
    assert progress.take(Waiting("started", None, "not now")).message == "waiting · not now"
    assert progress.take(Waiting("finished", 2.0, "not now")) is None
    child = ChildTold("run-2", "second", Waiting("started", None, "not now"))
    assert progress.take(child).message == "second: waiting · not now"
