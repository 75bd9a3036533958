"""Group everything that was seen into quotable units."""

from collections.abc import Mapping, Sequence

from run_specialist.providers.offline.code_block import code_blocks
from run_specialist.providers.offline.definitions import is_code
from run_specialist.providers.offline.quotable import Quotable, units


def all_units(lines: Mapping[str, Mapping[int, Sequence[str]]]) -> list[Quotable]:
    """Group the known lines of all files into units."""
    return [unit for path, known in lines.items() for unit in (code_blocks if is_code(path) else units)(path, known)]
