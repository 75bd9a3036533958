"""What the store knows before a call of `specialists map`: past runs of the specialist, earlier runs of the batch."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_specialist.errors import StoreMissing

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.item import Item
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import Listed, PastRun

ENDED = frozenset({"answered", "landed", "partial", "failed"})
"""Statuses of runs that the same call does not resume by itself."""
MOST_RUNS = 200
"""How many of the newest past runs count."""
ENOUGH_RUNS = 5
"""With so many runs of the current version of the file, those of other versions do not count."""


@dataclass(frozen=True)
class Earlier:
    """The runs of a batch that earlier calls have begun."""

    ended: frozenset[str]
    """Keys of the items whose outcome is not asked for again."""
    cost_usd: float = 0.0
    """Known cost of all of them [USD]."""

    def count(self, items: Iterable["Item"]) -> int:
        """Return how many items have an outcome."""
        return sum(item.key in self.ended for item in items) if self.ended else 0


def look(
    runner: "Runner", file: "SpecialistFile", settings: dict[str, Any], batch_id: str, retried: Collection[str]
) -> tuple[Sequence["PastRun"], Earlier]:
    """Return the past runs that are like those to come, newest first, and the earlier runs of the batch.

    settings: those of the call; `model` is the one that was asked for.
    retried: statuses of earlier runs that are resumed.
    Raises StoreUnusable.
    """
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - as above

    url = place(runner.store).url
    if url == NONE:
        return (), Earlier(frozenset())
    try:
        with Store(url) as store:
            begun = store.runs(ids=[f"{batch_id}-"])
            return _past_runs(store, runner, file, settings), _earlier(begun, batch_id, retried)
    except StoreMissing:
        return (), Earlier(frozenset())


def _earlier(begun: Sequence["Listed"], batch_id: str, retried: Collection[str]) -> Earlier:
    own = [run for run in begun if run.parent_id is None]
    ended = (run.run_id for run in own if run.status in ENDED and run.status not in retried)
    return Earlier(
        frozenset(run_id.removeprefix(f"{batch_id}-") for run_id in ended), sum(run.cost_usd or 0.0 for run in own)
    )


def _past_runs(
    store: "Store", runner: "Runner", file: "SpecialistFile", settings: dict[str, Any]
) -> Sequence["PastRun"]:
    from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

    model = _model(runner, file, settings)
    runs = [run for run in store.past(file.name, project_path(runner.root)) if run.outcome.get("model") == model]
    current = [run for run in runs if run.digest == file.digest]
    return (current if len(current) >= ENOUGH_RUNS else runs)[:MOST_RUNS]


def _model(runner: "Runner", file: "SpecialistFile", settings: dict[str, Any]) -> str:
    """Return the id of the model of the runs to come."""
    from run_specialist.providers.choose import choose_model  # noqa: PLC0415 - fast `--help`
    from run_specialist.providers.described import described  # noqa: PLC0415 - as above
    from run_specialist.specialist.resolve import resolve  # noqa: PLC0415 - as above

    asked = settings.get("model")
    settled = resolve(file, settings).settings
    return described(choose_model(asked, settled.model, runner.default_model)).provider.model
