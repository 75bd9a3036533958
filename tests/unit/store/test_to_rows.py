"""Records become rows, and no content of a run can prevent its storage."""

import json
import math
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.record.events import Called, Finished
from run_specialist.record.journal import Ended, EventLogged
from run_specialist.record.messages import Message, Usage
from run_specialist.store import rows as from_rows
from run_specialist.store.rows import LARGEST, Rows, column_text, json_text, pack, row, rows_of
from tests.unit.store import records
from tests.unit.store.message_blocks import BLOCKS
from tests.unit.store.records import unpacked


def through_the_store(value: object) -> object:
    """Return a value after it was packed and unpacked like a column of bytes."""
    return json.loads(unpacked(pack(json_text(value))) or "")


@given(BLOCKS)
def test_stored_blocks_give_the_same_request_bytes(blocks):
    """Stored blocks give the same request bytes as the message itself."""
    again = through_the_store(tuple(blocks))
    assert Message("assistant", tuple(again)).encoded == Message("assistant", tuple(blocks)).encoded


def body_of(row):
    """Return the record in a row."""
    return json.loads(unpacked(row["body"]))


class Unspeakable:
    """Raises when it is converted to text."""

    def __str__(self) -> str:
        """Raise an error."""
        raise RuntimeError("no words")


def cycle():
    """Return a value that contains itself."""
    value = {"a": 1}
    value["self"] = value
    return value


def nested(depth):
    """Return nested lists."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({1, 2}, "[1,2]"),
        (b"\xff", "\"b'\\\\xff'\""),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({"x": Unspeakable()}, '{"x":"Unspeakable"}'),
        ({(1, 2): "x"}, '{"[1, 2]":"x"}'),
        ({"n": 10**5_000, "m": 1}, '"m":1'),
        (cycle(), '{"a":1,"self"'),
        (nested(100_000), "[[["),
        (math.nan, "NaN"),
        (Usage(1), '{"input_tokens":1'),
        ("\0\ud800", '"\\u0000\ud800"'),
    ],
)
def test_a_value_that_is_no_json_is_stored(value, kept):
    """A value that is no JSON, returned by a tool or server, does not prevent storage."""
    written = json_text(value)
    assert kept in written
    json.loads(written)


@pytest.mark.parametrize(("value", "kept"), [("a\0b", "a\ufffdb"), ("\ud800x", "?x"), ("é", "é"), (None, "None")])
def test_text_contains_nothing_that_a_database_refuses(value, kept):
    """Text holds no NUL and no lone surrogate, which one or both databases refuse."""
    assert column_text(value) == kept


@pytest.mark.parametrize(
    ("said", "kept"), [(10**30, LARGEST), (-1, 0), (2.7, 2), (math.nan, 0), (math.inf, LARGEST), (None, 0), ("many", 0)]
)
def test_impossible_numbers_are_clamped(said, kept):
    """Impossible numbers are clamped to what the column accepts."""
    assert row("runs", tool_calls=said)["tool_calls"] == kept


def test_an_event_that_cannot_be_copied_is_stored_by_field():
    """An event that cannot be copied is stored field by field; a caller's arguments may be anything."""
    odd = Called("started", "call-1", "look", MappingProxyType({"query": Unspeakable()}))
    body = body_of(rows_of("run-1", "me", [EventLogged(event=odd)], event=1).added["events"][0])
    assert (body["event"], body["phase"], body["arguments"]) == ("tool_call", "started", {"query": "Unspeakable"})


def test_the_outcome_is_stored_as_printed():
    """The outcome is stored as it is printed, with its error and its exit code; in the last event, as it is printed."""
    outcome = records.outcome("run-1")
    rows = rows_of("run-1", "me", [Ended(outcome=outcome), EventLogged(event=Finished(outcome))], event=1)
    assert rows.ending
    assert rows.ending["status"] == "answered"
    stored = {**outcome.as_json(), "error": outcome.error, "exit_code": outcome.exit_code}
    assert json.loads(unpacked(rows.ending["outcome"])) == json.loads(json.dumps(stored))
    printed = json.loads(json.dumps(outcome.as_json()))
    assert body_of(rows.added["events"][0])["outcome"] == printed
    assert from_rows.outcome(unpacked(rows.ending["outcome"])) == printed


def written(kept: dict, rows: Rows) -> dict:
    """Return the stored messages by part and place after a transaction."""
    for part, (begin, messages) in rows.tails.items():
        kept = {key: body for key, body in kept.items() if key[0] != part or key[1] < begin}
        kept |= {(part, row["place"]): row["body"] for row in messages}
    return kept


STOOD = st.builds(
    lambda part, place, texts: records.checkpointed(1, place, [Message.user(each) for each in texts], part=part),
    st.integers(0, 1),
    st.integers(0, 4),
    st.lists(st.sampled_from("abc"), max_size=4),
)


@given(st.lists(STOOD, max_size=6))
def test_one_transaction_gives_the_same_rows_as_many(stands):
    """One transaction for many records gives the same rows as one for each."""
    before = {(part, place): "old" for part in (0, 1) for place in range(6)}
    one_by_one = before
    for stand in stands:
        one_by_one = written(one_by_one, rows_of("run-1", "me", [stand], event=1))
    assert written(before, rows_of("run-1", "me", stands, event=1)) == one_by_one
