"""What a tool tells about its call: events, masked, and records that are stored before it acts."""

import pytest

from run_specialist.loop.observing import Observers
from run_specialist.loop.tool_calls import CallLog
from run_specialist.record.events import FileChanged
from run_specialist.record.journal import EventLogged, FileChanging

CHANGING = FileChanging("id", "a.md", None, "new", None, ".a.tmp")


class Store:
    """A journal that keeps its records, and can be lost."""

    outage = None

    def __init__(self, *, works: bool) -> None:
        self.works, self.records = works, []

    def write(self, record) -> None:
        """Keep a record."""
        self.records.append(record)

    async def has_stored(self) -> bool:
        """Return whether it works."""
        return self.works


@pytest.mark.anyio
@pytest.mark.parametrize(("journal", "stored"), [(Store(works=True), True), (Store(works=False), False), (None, True)])
async def test_a_tool_learns_whether_its_record_is_stored(journal, stored):
    """Where nothing is stored, there is nothing to wait for."""
    log = CallLog(Observers(None, None, journal), str)
    assert await log.stored(CHANGING) is stored
    assert journal is None or journal.records == [CHANGING]


def test_credentials_in_the_texts_of_an_event_are_masked():
    """For listeners and for the store; other fields stay as they are."""
    heard, journal = [], Store(works=True)
    log = CallLog(Observers(heard.append, None, journal), lambda text: text.replace("hunter2", "***"))
    log.notify(FileChanged("call", "hunter2.md", "+hunter2\n", 1, 0))
    (record,) = journal.records
    assert heard == [FileChanged("call", "***.md", "+***\n", 1, 0)]
    assert isinstance(record, EventLogged)
    assert record.event == heard[0]
