"""Group everything that was seen into quotable units."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from run_specialist.providers.offline.code_block import CodeBlock, code_blocks
from run_specialist.providers.offline.definitions import is_code
from run_specialist.providers.offline.quotable import Quotable, units


Known = tuple[tuple[int, str], ...]
"""Line numbers and lines."""


def all_units(lines: Mapping[str, Mapping[int, Sequence[str]]]) -> list[Quotable]:
    """Group the known lines of all files into units."""
    return [unit for path, known in lines.items() for unit in _units(path, known)]


def _units(path: str, known: Mapping[int, Sequence[str]]) -> Iterable[Quotable]:
    if not is_code(path):
        return units(path, known)
    return _blocks(path, tuple((number, known[number][0]) for number in sorted(known)))


@lru_cache(maxsize=128)
def _blocks(path: str, known: Known) -> tuple[CodeBlock, ...]:
    """Return the blocks of a code file, the same ones in each turn, so that they are analyzed once."""
    return tuple(code_blocks(path, dict(known)))
