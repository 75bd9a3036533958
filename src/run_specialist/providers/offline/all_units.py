"""Group everything that was seen into quotable units."""

from collections.abc import Iterable
from functools import lru_cache

from run_specialist.providers.offline.code_block import CodeBlock
from run_specialist.providers.offline.code_grouping import SeenLine, code_blocks
from run_specialist.providers.offline.definitions import is_code
from run_specialist.providers.offline.gathered import Findings
from run_specialist.providers.offline.quotable import Quotable, units


def all_units(gathered: Findings) -> list[Quotable]:
    """Group the known lines of all files into units."""
    return [unit for path in gathered.lines for unit in _units(path, gathered)]


def _units(path: str, gathered: Findings) -> Iterable[Quotable]:
    known = gathered.lines[path]
    if not is_code(path):
        return units(path, known)
    origins = gathered.origins.get(path, {})
    return _blocks(path, tuple((number, known[number][0], origins.get(number, 0)) for number in sorted(known)))


@lru_cache(maxsize=128)
def _blocks(path: str, lines: tuple[SeenLine, ...]) -> tuple[CodeBlock, ...]:
    """Return the blocks of a code file; cached, so that each file is analyzed once."""
    return tuple(code_blocks(path, lines))
