"""Runs of before, looked up in the store for a client that knows their id."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from run_specialist.errors import RunNotFound, StoreMissing
from run_specialist.record.outcome import Outcome
from run_specialist.store.location import NONE, place
from run_specialist.store.writer import Writer


@dataclass(frozen=True)
class FinishedRun:
    """A run that this server did not begin, or has forgotten."""

    run_id: str
    specialist: str
    status: str
    """As in a listing: `running` while its process lives, `interrupted` when that has died without an outcome."""
    tool_calls: int
    outcome: Outcome | None


def check_store(store: str | None) -> None:
    """Raise StoreUnusable where somebody named a store that cannot be used; a default one is not looked at."""
    found = place(store)
    if found.named and found.url != NONE:
        writer = Writer(found)
        try:
            writer.check()
        finally:
            writer.close()


def past_run(store: str | None, run_id: str) -> FinishedRun:
    """Return a stored run by its whole id: a client gets what it was told of, and no list of what else there is.

    store: as `Runner` takes it.
    Raises RunNotFound, and StoreUnusable.
    """
    url = place(store).url
    if url == NONE:
        raise RunNotFound(f"no run {run_id} is known here, and this server stores none")
    from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

    try:
        with Store(url) as opened:
            if not any(one.run_id == run_id for one in opened.runs(ids=[run_id])):
                raise RunNotFound(f"no run {run_id} is known here; give the whole run_id as start_run returned it")
            run = opened.load(run_id)
    except StoreMissing:
        raise RunNotFound(f"no run {run_id} is known here") from None
    return FinishedRun(run.run_id, run.specialist, run.status, run.tool_calls, _outcome(run.outcome))


def _outcome(kept: Any) -> Outcome | None:  # noqa: ANN401 - JSON
    try:
        return None if kept is None else TypeAdapter(Outcome).validate_python(dict(kept))
    except ValidationError:
        # An older program kept less of it; its status is told all the same.
        return None
