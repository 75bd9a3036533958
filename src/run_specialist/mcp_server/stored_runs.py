"""Look up stored runs by id."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from run_specialist.errors import RunNotFound, StoreMissing
from run_specialist.record.outcome import Outcome
from run_specialist.store.location import NONE, place
from run_specialist.store.writer import Writer


@dataclass(frozen=True)
class FinishedRun:
    """A stored run that is not in this server's memory."""

    run_id: str
    specialist: str
    status: str
    """As listed by `specialists runs`: `running` while its process is alive, `interrupted` if the process has died."""
    tool_calls: int
    outcome: Outcome | None


def check_store(store: str | None) -> None:
    """Raise StoreUnusable if a named store cannot be used; a default store is not checked."""
    found = place(store)
    if found.named and found.url != NONE:
        writer = Writer(found)
        try:
            writer.check()
        finally:
            writer.close()


def past_run(store: str | None, run_id: str, project: str) -> FinishedRun:
    """Return a stored run by its full id; prefixes and suggestions would reveal other runs to the client.

    store: the `store` argument of `Runner`.
    project: path of the project; runs of others may have read files that the client must not see.
    Raises RunNotFound or StoreUnusable.
    """
    url = place(store).url
    if url == NONE:
        raise RunNotFound(f"no run {run_id} is known here, and this server stores none")
    from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

    try:
        with Store(url) as opened:
            if not any((one.run_id, one.project) == (run_id, project) for one in opened.runs(ids=[run_id])):
                raise RunNotFound(f"no run {run_id} is known here; give the whole run_id as start_run returned it")
            run = opened.load(run_id)
    except StoreMissing:
        raise RunNotFound(f"no run {run_id} is known here") from None
    return FinishedRun(run.run_id, run.specialist, run.status, run.tool_calls, _outcome(run.outcome))


def _outcome(stored: Any) -> Outcome | None:  # noqa: ANN401 - JSON
    return None if stored is None else TypeAdapter(Outcome).validate_python(dict(stored))
