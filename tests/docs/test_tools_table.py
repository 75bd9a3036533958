"""The table of the tools in docs/specialist-files.md matches the code."""

import re

from run_specialist.specialist.tool_names import BUILT_IN, resolve_tools
from tests.docs.markdown import FILES, table

ROWS = table(FILES, "## Tools")


def names(cell):
    """Return the names in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def test_every_tool_has_a_row():
    """Those that no file names, because each run has them or may need them, have none."""
    told = [name for row in ROWS for name in names(row[0])]
    assert sorted(told) == sorted({*BUILT_IN} - {"respond", "get_tool_response"})


def test_other_names_are_those_of_the_tool():
    """Each name in the last column means a tool of its row."""
    for row in ROWS:
        for name in names(row[3]):
            assert {*resolve_tools([name], (), BUILT_IN).names} <= {*names(row[0])}, name
            assert resolve_tools([name], (), BUILT_IN).names, name
