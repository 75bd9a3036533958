"""Items as JSON Lines and JSON arrays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.item import InputRecord
from run_specialist.batch.read_items import json_line_items
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import INPUTS, items_in


def test_each_line_is_an_item_with_its_place(tmp_path):
    """Objects and strings are items; empty lines are skipped, but counted for the place."""
    found = items_in(tmp_path, "a.jsonl", '{"path": "x"}\r\n\n  "a text"  \n{"n": 1}')
    path = tmp_path / "a.jsonl"
    assert found == [
        InputRecord({"path": "x"}, f"{path}:1"),
        InputRecord("a text", f"{path}:3"),
        InputRecord({"n": 1}, f"{path}:4"),
    ]


@given(st.lists(INPUTS, max_size=5), st.booleans())
def test_written_lines_read_back(values, plain):
    """Every value is read as it was written, escaped or not."""
    lines = (json.dumps(value, ensure_ascii=plain) + "\n" for value in values)
    assert [one.input for one in json_line_items(lines, "f")] == values


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{'a': 1}", "is not valid JSON: Expecting property name enclosed in double quotes at character 2"),
        ("[" * 100_000, "is not valid JSON: nested too deeply"),
    ],
)
def test_an_invalid_line_is_named(tmp_path, line, reason):
    """The error has the file, the line and the reason, on one line."""
    with pytest.raises(UsageError) as raised:
        items_in(tmp_path, "a.jsonl", f'"first"\n{line}\n')
    assert f"a.jsonl:2 {reason}" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1}', "a.json is not a JSON array; give the format `jsonl`"),
        ('[\n"a"\n"b"]', "a.json:3 is not valid JSON: Expecting ',' delimiter"),
        ('"a"\n"b"\n', "a.json:2 is not valid JSON: Extra data at character 1; give the format `jsonl`"),
        ("[" * 100_000, "a.json is not valid JSON: nested too deeply"),
    ],
)
def test_an_invalid_array_is_named(tmp_path, text, reason):
    """The error has the file, and the line if there is one."""
    with pytest.raises(UsageError) as raised:
        items_in(tmp_path, "a.json", text)
    assert reason in str(raised.value)
