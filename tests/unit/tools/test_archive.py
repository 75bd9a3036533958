"""The archive stores full outputs, and `get_tool_response` reads them in slices."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import ToolError
from run_specialist.loop import evidence
from run_specialist.loop.job import Executed
from run_specialist.record.messages import ToolCall
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Output

pytestmark = pytest.mark.anyio


def filled(**texts: str) -> Archive:
    """Return an archive with outputs by id."""
    archive = Archive()
    for execution_id, text in texts.items():
        archive.add(execution_id, text)
    return archive


async def read(archive: Archive, execution_id: str, slice_limit: int = 4, **arguments) -> Output:
    """Call `get_tool_response` as the loop does."""
    tool = get_tool_response_tool(archive, slice_limit)
    return await tool.call({"execution_id": execution_id, **arguments})


async def test_s2_8_a_slice_is_exact_and_names_the_next_offset():
    """The note is separate from the slice and gives the next offset; with the last slice, it reports the end."""
    archive = filled(call_1="abcdefghij", whole="abcd", empty="")
    assert await read(archive, "call_1") == Output("abcd", "[characters 0-4 of 10; go on with offset=4]")
    assert await read(archive, "call_1", offset=8) == Output("ij", "[characters 8-10 of 10; this is the end]")
    assert await read(archive, "whole") == Output("abcd", "[characters 0-4 of 4; this is the end]")
    assert await read(archive, "empty") == Output("", "[characters 0-0 of 0; this is the end]")


@given(text=st.text(), slice_limit=st.integers(1, 9))
async def test_s2_8_following_the_notes_gives_the_original(text, slice_limit):
    """For any output, the slices joined give the original, and no slice exceeds the limit."""
    archive, read_so_far, offset = filled(a=text), "", 0
    while offset is not None:
        output = await read(archive, "a", slice_limit, offset=offset)
        assert len(output.text) <= slice_limit
        read_so_far += output.text
        onwards = re.search(r"offset=(\d+)\]$", output.note)
        offset = int(onwards[1]) if onwards else None
    assert read_so_far == text


async def test_s2_8_an_unknown_id_is_an_error_that_lists_ids():
    """The error for an unknown ID lists similar IDs, or else the newest, and counts the others."""
    archive = filled(**{f"call_{number}": "x" for number in range(12)}, zebra="x")
    with pytest.raises(ToolError, match=r"no output of the id 'zebr'; there are zebra and 12 more$"):
        await read(archive, "zebr")
    with pytest.raises(ToolError, match=r"'\?'; there are call_8, call_9, call_10, call_11, zebra and 8 more$"):
        await read(archive, "?")
    with pytest.raises(ToolError, match=r"there is only$"):
        await read(filled(only="x"), "other")
    with pytest.raises(ToolError, match="no tool has returned anything yet"):
        await read(Archive(), "call_1")


@pytest.mark.parametrize(
    ("text", "offset", "why"),
    [
        ("abc", 3, "offset 3 is beyond the end of a, which has 3 characters"),
        ("abc", 99, "beyond the end"),
        ("", 1, "which has 0 characters"),
        ("abc", -1, "offset: .*greater than or equal to 0"),
    ],
)
async def test_s2_8_an_offset_outside_of_the_output_is_an_error(text, offset, why):
    """An offset outside the output is an error; past the end, the error reports the output's length."""
    with pytest.raises(ToolError, match=why):
        await read(filled(a=text), "a", offset=offset)


async def test_two_outputs_with_one_id_are_both_stored():
    """Two outputs with the same ID are both stored, one after the other; `add` returns the start of each."""
    archive = Archive()
    starts = [archive.add("same", "first"), archive.add("same", "second")]
    assert starts[0] == 0
    whole = (await read(archive, "same", 1_000)).text
    assert whole.startswith("first\n[")
    assert whole[starts[1] :] == "second"
    assert ([*archive], filled(a="text").add("a", "text")) == (["same"], 0)


def test_notes_of_the_archive_are_not_evidence():
    """Quotes are not verified against the separator notes that the archive itself inserts."""
    archive = filled(a="first")
    archive.add("a", "second")
    executed = Executed(ToolCall("a", "look", {}), archive["a"], is_error=False)
    first, note = evidence.check([("a", "second"), ("a", "another output of the same id")], [executed])
    assert (first.verified, note.verified) == (True, False)
