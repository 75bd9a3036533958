"""Out-of-range numbers in tool arguments give a result or a one-line error."""

import asyncio

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.files import file_tools

NUMBERS = (-(10**19), -(2**63), -1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**63 + 1, 10**19, 10**40)
TAKES = {
    "search": ({"query": "owls"}, ("limit",)),
    "grep": ({"pattern": "owls"}, ("context", "limit")),
    "glob": ({"pattern": "*"}, ("limit",)),
    "read": ({"path": "a.md"}, ("offset", "limit")),
    "ls": ({}, ()),
    "get_tool_response": ({"execution_id": "call_1"}, ("offset",)),
}
"""Required arguments of each tool, and the names of its numeric arguments."""
EACH = [(tool, argument, number) for tool, (_, numbers) in TAKES.items() for argument in numbers for number in NUMBERS]


@pytest.fixture
def tools(root, write):
    """Return the reading tools by name, with a file and an archived output for them."""
    write({"a.md": "owls eat mice\ntoads sleep\n"})
    archive = Archive()
    archive.add("call_1", "what it returned")
    return {tool.name: tool for tool in (*file_tools(root), get_tool_response_tool(archive, 1000))}


def test_every_integer_argument_is_listed(tools):
    """`TAKES` lists every integer argument of the tools; a new one must be added there."""
    found = {
        name: tuple(key for key, value in tool.input_schema["properties"].items() if value.get("type") == "integer")
        for name, tool in tools.items()
    }
    assert found == {name: numbers for name, (_, numbers) in TAKES.items()}


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(("tool", "argument", "number"), EACH)
def test_any_number_gives_a_result_or_a_one_line_error(tools, tool, argument, number):
    """Any number gives a result or a one-line ToolError, never a Python exception such as ValueError."""
    try:
        text, errors = asyncio.run(tools[tool].call({**TAKES[tool][0], argument: number})).text, 0
    except ToolError as error:
        text, errors = str(error), 1
    assert text
    assert not errors or len(text.splitlines()) == 1
    assert "ValueError" not in text
    assert errors or 0 <= number <= 2**31


def test_a_huge_offset_is_beyond_the_end(call, write):
    """A huge offset is an error that reports the line count; an empty file is reported as empty."""
    write({"a.md": "one\ntwo\n", "empty.md": ""})
    for offset in (2**63, 10**19):
        with pytest.raises(ToolError, match=r"^a.md ends before line \d+; it has 2 lines$"):
            call("read", path="a.md", offset=offset)
        assert call("read", path="empty.md", offset=offset) == "[the file is empty]"
