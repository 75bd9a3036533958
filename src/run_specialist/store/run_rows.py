"""The rows of one run in the tables beside `runs`."""

from typing import Any

from sqlalchemy import Connection, select

from run_specialist.store.tables import calls, events, messages, metadata, outputs, turns

_TABLES = metadata.tables
_QUERIES = {
    "turns": select(turns).order_by(turns.c.number),
    "calls": select(calls, outputs.c.body)
    .join(outputs, (outputs.c.run_id == calls.c.run_id) & (outputs.c.number == calls.c.number))
    .order_by(calls.c.number),
    "messages": select(messages).order_by(messages.c.part, messages.c.place),
    "events": select(events).order_by(events.c.number),
}
"""By table name."""


def run_rows(connection: Connection, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the ordered rows of a run by table name; those of `calls` include the `body` of their output."""
    return {
        name: [row._asdict() for row in connection.execute(query.where(_TABLES[name].c.run_id == run_id))]
        for name, query in _QUERIES.items()
    }
