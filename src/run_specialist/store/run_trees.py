"""Arrange listed runs as trees of parents and children; pure functions."""

from collections.abc import Iterable, Iterator, Sequence

from run_specialist.store.stored import ListedRun


def newest_first(found: Iterable[ListedRun]) -> list[ListedRun]:
    """Return the runs in the order of a listing."""
    return sorted(found, key=lambda run: (run.started_at, run.run_id), reverse=True)


def first_trees(found: Sequence[ListedRun], limit: int | None) -> list[ListedRun]:
    """Return the first runs without a listed parent, with all their descendants, newest first.

    limit: maximum number, descendants not counted.
    """
    chosen: list[ListedRun] = []
    trees = 0
    for run, depth in as_tree(found):
        trees += depth == 0
        if limit is not None and trees > limit:
            break
        chosen.append(run)
    return newest_first(chosen)


def as_tree(found: Sequence[ListedRun]) -> Iterator[tuple[ListedRun, int]]:
    """Yield each run with its depth in the tree; children follow their parent, oldest first.

    found: newest first.
    """
    listed = {one.run_id for one in found}
    children: dict[str | None, list[ListedRun]] = {}
    for one in found:
        children.setdefault(one.parent_id if one.parent_id in listed else None, []).append(one)
    stack = [(one, 0) for one in reversed(children.pop(None, []))]
    while stack:
        one, depth = stack.pop()
        yield one, depth
        stack += [(child, depth + 1) for child in children.pop(one.run_id, ())]
