"""Report the location and the size of a store."""

from typing import TYPE_CHECKING, Any

from run_specialist.cli.show_runs import size

if TYPE_CHECKING:
    from run_specialist.store.reader import Store


def store_size(opened: "Store") -> dict[str, Any]:
    """Return location and size of a store, as keys of JSON."""
    return _of(opened.url, opened.size)


def missing_store(store: str | None) -> dict[str, Any]:
    """Return the same keys for a store that does not exist yet.

    store: as given with `--store`.
    """
    from run_specialist.store.location import place  # noqa: PLC0415 - fast `--help`

    return _of(place(store).url, 0)


def size_line(opened: "Store") -> str:
    """Return size and location of a store, as text."""
    found = store_size(opened)
    return f"{size(found['size_bytes'])} in {found['store']}"


def _of(url: str, size_bytes: float) -> dict[str, Any]:
    from run_specialist.store.location import shown  # noqa: PLC0415 - fast `--help`

    return {"store": shown(url), "size_bytes": size_bytes}
