"""Helpers to store finished runs."""

import asyncio
from contextlib import closing
from dataclasses import replace

from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, ended, nowhere, opened, outcome, turn_of


def keep(url, **runs):
    """Store runs by id, each a list of records, and close the writer."""
    with closing(Writer(nowhere(url))) as writer:
        write(writer, **runs)


def write(writer, **runs):
    """Store runs by id, and keep the writer open."""
    for run_id, records in runs.items():
        journal = writer.journal(run_id)
        for record in records:
            journal.write(record)
        assert asyncio.run(journal.committed()) is None


def run_of(run_id, at=1_000.0, turns=1, status="answered", **changed):
    """Return the records of a finished run."""
    worked = [record for turn in range(1, turns + 1) for record in turn_of(turn)]
    *said, last, told = [*begun(run_id), *worked, *ended(run_id)]
    said[0] = replace(opened(run_id, **changed), at=at)
    return [*said, replace(last, at=at + 60, outcome=outcome(run_id, status)), told]
