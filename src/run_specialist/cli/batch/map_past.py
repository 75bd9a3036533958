"""Read what `specialists map` needs from the store: past runs of the specialist, earlier runs of the batch."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_specialist.batch.forecast import alike
from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.item import Item
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import PastRun

FAILED = "failed"
ENDED = frozenset({"answered", "landed", "partial", FAILED})
"""Statuses of runs that are not resumed without `--retry`, unless the endpoint caused the failure."""


@dataclass(frozen=True)
class EarlierRuns:
    """The runs that earlier calls have begun for a batch."""

    ended: frozenset[str] = frozenset()
    """Keys of the items that have an outcome and are not asked again."""
    cost_usd: float = 0.0
    """Known cost of all these runs [USD]."""

    def count(self, items: Iterable["Item"]) -> int:
        """Return how many items have an outcome."""
        return sum(item.key in self.ended for item in items) if self.ended else 0


class KnownRuns:
    """The runs in a store; empty if nothing is stored."""

    def __init__(self, store: "Store | None", *, are_stored: bool) -> None:
        self._store = store
        self.are_stored = are_stored
        """Whether runs will be stored, even if there is no store yet."""

    def past(self, runner: "Runner", name: str, settings: dict[str, Any], asked: str | None) -> Sequence["PastRun"]:
        """Return past runs comparable to the planned ones (same model, same project), newest first.

        settings: those of the call.
        asked: the model given with the call; None = that of the file or of the environment.
        """
        from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

        if self._store is None:
            return ()
        file = runner.registry.find(name)
        model = _model(runner, name, settings, asked)
        stored = self._store.past(file.name, project_path(runner.root))
        return alike(stored, model, file.digest)

    def earlier(self, batch_id: str, retried: Collection[str]) -> EarlierRuns:
        """Return the runs of a batch.

        retried: statuses of earlier runs that are resumed.
        """
        if self._store is None:
            return EarlierRuns()
        own = [run for run in self._store.runs(ids=[f"{batch_id}-"]) if run.parent_id is None]
        ended = {run.run_id for run in own if run.status in ENDED and run.status not in retried}
        if any(run.status == FAILED for run in own):
            ended -= self._endpoint_failures(self._store.url, batch_id)
        keys = frozenset(run_id.removeprefix(f"{batch_id}-") for run_id in ended)
        return EarlierRuns(keys, sum(run.cost_usd or 0.0 for run in own))

    @staticmethod
    def _endpoint_failures(url: str, batch_id: str) -> set[str]:
        from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - only if runs have failed

        with StoredBatches(url) as stored:
            return stored.endpoint_failures(batch_id)


@contextmanager
def known_runs(store: str | None) -> Iterator[KnownRuns]:
    """Open the store of a runner for reading; raises StoreUnusable."""
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - as above

    url = place(store).url
    try:
        opened = None if url == NONE else Store(url)
    except StoreMissing:
        opened = None
    try:
        yield KnownRuns(opened, are_stored=url != NONE)
    finally:
        if opened is not None:
            opened.close()


def _model(runner: "Runner", name: str, settings: dict[str, Any], asked: str | None) -> str:
    """Return the model id of the planned runs."""
    from run_specialist.providers.chosen_models import choose_model  # noqa: PLC0415 - fast `--help`
    from run_specialist.providers.described import described  # noqa: PLC0415 - as above
    from run_specialist.specialist.resolve import resolve  # noqa: PLC0415 - as above

    settled = resolve(runner.registry.find(name), settings).settings
    return described(choose_model(asked, settled.model, runner.default_model, settled.fallback_models)).provider.model
