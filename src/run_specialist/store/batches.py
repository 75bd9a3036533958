"""Write batches and their items, in plain SQL like the runs; each run is written by its own process."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self, TypeVar

from run_specialist.store.base import Backoff, retried
from run_specialist.store.rows import Row, column_text, fields_of, json_text, row
from run_specialist.store.schema import CANCELLED, OPEN, SCHEMAS, WAITING, insert, update
from run_specialist.store.sqlite import open_session

PORTION = 2_000
"""Number of items per transaction; other processes can write between two transactions."""

_T = TypeVar("_T")

_CHANGED = [name for name in SCHEMAS["batches"].columns if name not in {"batch_id", "project", "created_at"}]
# A repeated call keeps the time of the first.
_PUT_BATCH = (
    f"{insert('batches')} on conflict (batch_id) do update "
    f"set {', '.join(f'{name} = excluded.{name}' for name in _CHANGED)}"
)
_FORGET_NUMBERS = "update items set number = null where batch_id = :batch_id and number is not null"
# A repeated item gets its new number and keeps its state, unless it was cancelled.
_PUT_ITEM = (
    f"{insert('items')} on conflict (run_id, batch_id) do update set number = excluded.number, "
    f"state = case when items.state = '{CANCELLED}' then '{WAITING}' else items.state end"
)
_SELECT_BEGUN = (
    "select runs.run_id, runs.cost_usd from items join runs on runs.run_id = items.run_id "
    "where items.batch_id = :batch_id"
)
_CANCEL_WAITING = f"update items set state = '{CANCELLED}' where batch_id = :batch_id and state = '{WAITING}'"  # noqa: S608
_THIS_ITEM = "where batch_id = :batch_id and run_id = :run_id"
_MARK = f"update items set state = :state, error = :error {_THIS_ITEM}"  # noqa: S608
_PUT_BACK = f"update items set state = '{WAITING}', error = null, takeovers = 0, turns = 0, granted = null {_THIS_ITEM}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One question for many items."""

    batch_id: str
    specialist: str
    question: str
    """Template of the questions."""
    created_at: float
    """Time of the first call [seconds since 1970]."""
    frozen: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Everything needed to begin the runs of the items on any host, as JSON values."""
    model: str | None = None
    """The model given with the call; None = that of the specialist."""
    project: str | None = None
    cost_limit: float | None = None
    """Limit of the newest call for all its items together; None = no limit [USD]."""
    state: str = OPEN
    """`open`, `paused`, `cancelled` or `ended`."""
    reason: str | None = None
    """Why it is in this state; None = there is no particular reason."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An input of a batch and its question."""

    run_id: str
    """Id of its run, even before that begins."""
    number: int | None
    """Number in the newest call, from 1; None if that call does not contain the item."""
    input: Any
    """A JSON value."""
    question: str


class BatchWriter:
    """Writes batches in a separate session; its methods block, and may be called by any thread."""

    def __init__(self, url: str, backoff: Backoff | None = None) -> None:
        """Open a store; create it if it is missing.

        backoff: retry schedule during an outage.
        Raises StoreUnusable.
        """
        self._url = url
        self._backoff = backoff or Backoff()
        self._session = open_session(url)
        self._lock = threading.Lock()

    def put(self, batch: StoredBatch, items: Iterable[StoredItem]) -> int:
        """Write a batch and the items of a call; return how many.

        Repeating it has no effect; items of earlier calls lose their number, and known items keep their state.
        items: may be any number, as they are written in portions while they are read.
        Raises StoreUnusable.
        """
        stored = row("batches", **{**fields_of(batch), "frozen": json_text(batch.frozen)})
        self._write((_PUT_BATCH, [stored]), (_FORGET_NUMBERS, [stored]))
        return self.add(batch.batch_id, items)

    def add(self, batch_id: str, items: Iterable[StoredItem]) -> int:
        """Write more items of a call, as `put` does; return how many.

        Raises StoreUnusable.
        """
        new = {"batch_id": batch_id, "state": WAITING, "takeovers": 0, "turns": 0, "error": None, "granted": None}
        rows = (row("items", **{**new, **fields_of(one), "input": json_text(one.input)}) for one in items)
        return self._write_many(_PUT_ITEM, rows)

    def begun(self, batch_id: str, *, of_all_calls: bool = False) -> dict[str, float]:
        """Return the ids of the stored runs of the items of the newest call, with their known cost so far [USD].

        of_all_calls: also those of items that only earlier calls had.
        Raises StoreUnusable.
        """
        statement = _SELECT_BEGUN if of_all_calls else f"{_SELECT_BEGUN} and items.number is not null"
        found = self._retried(lambda: self._session.read(statement, batch_id=column_text(batch_id)))
        return {run_id: cost or 0.0 for run_id, cost in found}

    def set_state(self, batch_id: str, state: str, reason: str | None = None) -> None:
        """Set the state of a batch; cancelling it cancels the items that have not begun.

        Raises StoreUnusable.
        """
        change = row("batches", batch_id=batch_id, state=state, reason=reason)
        self._write(
            (update("batches", "state", "reason", key="batch_id"), [change]),
            (_CANCEL_WAITING, [change] if state == CANCELLED else []),
        )

    def set_frozen(self, batch_id: str, frozen: Mapping[str, Any]) -> None:
        """Replace the frozen values of a batch, as JSON values; raises StoreUnusable."""
        change = row("batches", batch_id=batch_id, frozen=json_text(frozen))
        self._write((update("batches", "frozen", key="batch_id"), [change]))

    def mark(self, batch_id: str, run_id: str, state: str, error: str | None = None) -> None:
        """Set the state and the error of an item; an unknown one is ignored.

        state: `waiting`, `begun`, `ended`, `dead` or `cancelled`.
        error: why there is no run, or why it ended; None if there is no particular reason.
        Raises StoreUnusable.
        """
        self._write((_MARK, [row("items", batch_id=batch_id, run_id=run_id, state=state, error=error)]))

    def put_back(self, batch_id: str, run_ids: Iterable[str]) -> None:
        """Reset items to the state before they began, without errors and takeovers; their runs stay unchanged.

        Raises StoreUnusable.
        """
        self._write_many(_PUT_BACK, (row("items", batch_id=batch_id, run_id=one) for one in run_ids))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, *changes: tuple[str, Sequence[Row]]) -> None:
        """Execute statements in one transaction, each once per row."""

        def write() -> None:
            for statement, rows in changes:
                self._session.write(statement, rows)

        self._retried(write)

    def _write_many(self, statement: str, rows: Iterator[Row]) -> int:
        """Execute a statement once per row, in several transactions; return the number of rows."""
        count = 0
        while portion := list(islice(rows, PORTION)):
            self._write((statement, portion))
            count += len(portion)
        return count

    def _retried(self, operation: Callable[[], _T]) -> _T:
        """Run an operation in a transaction, with retries during an outage."""

        def alone() -> _T:
            with self._lock, self._session.transaction():
                return operation()

        return retried(alone, self._url, self._session, self._backoff)
