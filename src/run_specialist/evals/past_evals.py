"""Look up stored runs and earlier evals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_specialist.errors import RunNotFound, StoreMissing

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.run_steps import RunSteps
    from run_specialist.store.stored import StoredRun


@dataclass(frozen=True)
class UnfinishedEval:
    """An eval that was interrupted before all its runs had ended."""

    is_fresh: bool
    """Whether it reused no stored runs."""
    run_ids: frozenset[str]
    """The runs that it was to make."""


class StoredRuns:
    """The runs in a store; empty if nothing is stored."""

    def __init__(self, store: "Store | None") -> None:
        self._store = store

    @property
    def store(self) -> "Store | None":
        """The store; None if nothing is stored yet."""
        return self._store

    def load(self, run_id: str) -> "StoredRun | None":
        """Return a run with its calls; None if it is not stored."""
        if self._store is None:
            return None
        try:
            run = self._store.load(run_id)
        except RunNotFound:
            return None
        return run if run.run_id == run_id else None

    def statuses(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the status of each of these runs that is stored."""
        if self._store is None:
            return {}
        from run_specialist.store.run_statuses import run_statuses  # noqa: PLC0415 - fast `--help`

        return run_statuses(self._store.url, run_ids)

    def steps_of(self, run_ids: Sequence[str]) -> "Callable[[str], RunSteps | None]":
        """Return a function that returns the requests and calls of one of these runs; the first call loads all runs."""
        found: dict[str, RunSteps] | None = None

        def steps(run_id: str) -> "RunSteps | None":
            nonlocal found
            if found is None:
                from run_specialist.store.run_steps import run_steps  # noqa: PLC0415 - as above

                found = {} if self._store is None else run_steps(self._store.url, run_ids)
            return found.get(run_id)

        return steps

    def questions(self, specialist: str, project: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the questions and outcomes of the ended runs of a specialist, newest first, without those of judges."""
        if self._store is None:
            return
        for past in self._store.past(specialist, project):
            run = self._store.find(past.run_id)
            if run.parent_id is None:
                yield run.question, past.outcome

    def unfinished(self, eval_id: str) -> UnfinishedEval | None:
        """Return the state left by an interrupted call of an eval; None if there was none, or if it was completed."""
        if self._store is None:
            return None
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - as above

        with StoredBatches(self._store.url) as batches:
            try:
                earlier = batches.find(eval_id)
            except RunNotFound:
                return None
            if earlier.batch_id != eval_id or (earlier.state == "ended" and earlier.reason is None):
                return None
            is_fresh = bool(earlier.frozen.get("eval", {}).get("fresh"))
            return UnfinishedEval(is_fresh, frozenset(item.run_id for item in batches.items(eval_id)))


@contextmanager
def stored_runs(url: str | None) -> Iterator[StoredRuns]:
    """Open the store of a runner for reading; raises StoreUnusable."""
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - as above

    where = place(url).url
    try:
        opened = None if where == NONE else Store(where)
    except StoreMissing:
        opened = None
    try:
        yield StoredRuns(opened)
    finally:
        if opened is not None:
            opened.close()
