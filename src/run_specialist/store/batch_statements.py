"""The statements that write batches and their items, as SQL for either database."""

from run_specialist.store.statements import COLUMNS, Statements

WAITING, BEGUN, ENDED, DEAD, CANCELLED = "waiting", "begun", "ended", "dead", "cancelled"
"""States of an item; if it has a run, the run's status is more precise, except for `dead`."""
OPEN, PAUSED = "open", "paused"
"""States of a batch, which can also be `ended` or `cancelled`."""


class BatchStatements:
    """The statements in the dialect of one database; their values are in the order of the text."""

    def __init__(self, dialect: Statements) -> None:
        """Build the statements.

        dialect: the other statements of the session.
        """
        mark, batches, items = dialect.mark, f"{dialect.prefix}batches", f"{dialect.prefix}items"
        kept = {"batch_id", "project", "created_at"}
        changed = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS["batches"] if name not in kept)
        this_item = f"where batch_id = {mark} and run_id = {mark}"
        self.put_batch = f"{_insert(batches, 'batches', mark)} on conflict (batch_id) do update set {changed}"
        """Inserts a batch; a repeated call keeps the time of the first."""
        self.forget_numbers = f"update {items} set number = null where batch_id = {mark} and number is not null"  # noqa: S608
        """Removes the numbers that the items had in the previous call."""
        self.put_item = (
            f"{_insert(items, 'items', mark)} on conflict (run_id, batch_id) do update set number = excluded.number, "
            f"state = case when items.state = '{CANCELLED}' then '{WAITING}' else items.state end"
        )
        """Inserts an item; a repeated one gets its new number and keeps its state, unless it was cancelled."""
        runs = f"{dialect.prefix}runs"
        self.select_all_begun = (
            f"select {runs}.run_id, {runs}.cost_usd from {items} join {runs} on {runs}.run_id = {items}.run_id "  # noqa: S608
            f"where {items}.batch_id = {mark}"
        )
        """Selects the stored runs of the items of all calls, with their cost."""
        self.select_begun = f"{self.select_all_begun} and {items}.number is not null"
        """Selects the stored runs of the items of the newest call, with their cost."""
        self.set_state = f"update {batches} set state = {mark}, reason = {mark} where batch_id = {mark}"  # noqa: S608
        """Sets the state of a batch and its reason."""
        self.set_frozen = f"update {batches} set frozen = {mark} where batch_id = {mark}"  # noqa: S608
        """Replaces the frozen values of a batch."""
        self.cancel_waiting = (
            f"update {items} set state = '{CANCELLED}' where batch_id = {mark} and state = '{WAITING}'"  # noqa: S608
        )
        """Cancels the items of a batch that have not begun."""
        self.mark_item = f"update {items} set state = {mark}, error = {mark} {this_item}"  # noqa: S608
        """Sets state and error of an item."""
        self.put_back = (
            f"update {items} set state = '{WAITING}', error = null, takeovers = 0, turns = 0, granted = null "  # noqa: S608
            f"{this_item}"
        )
        """Resets an item to the state before it began."""
        self.take_over = (
            f"update {items} set takeovers = case when turns < {mark} then 1 else takeovers + 1 end, "  # noqa: S608
            f"turns = {mark} {this_item}"
        )
        """Counts a takeover; the count restarts after a new turn."""
        self.select_takeovers = f"select takeovers from {items} {this_item}"  # noqa: S608
        """Selects the count of takeovers."""


def _insert(name: str, table: str, mark: str) -> str:
    columns = COLUMNS[table]
    return f"insert into {name} ({', '.join(columns)}) values ({', '.join([mark] * len(columns))})"  # noqa: S608
