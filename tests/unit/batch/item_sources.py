"""Items and outcomes for tests of batches, and the JSON values that they may have."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from run_specialist.batch.item import Done, Input, InputRecord, Item
from run_specialist.batch.read_items import source_of
from tests.unit.record.outcomes import outcome

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
"""Texts that can be sent: without NUL and halves of surrogate pairs."""
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=4)
INPUTS = TEXTS | OBJECTS


def items_in(folder: Path, name: str, content: str | bytes, form: str | None = None) -> list[InputRecord]:
    """Write a file of items and read them."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [*source_of(str(path), form).read()]


def inputs_in(folder: Path, name: str, content: str | bytes, form: str | None = None) -> list[Input]:
    """Write a file of items and return their inputs."""
    return [given.input for given in items_in(folder, name, content, form)]


def done(number: int, given: Input = "an item", **fields: Any) -> Done:
    """Return an item with an outcome; fields of the outcome may be given."""
    run_id = fields.pop("run_id", f"b1-{number}")
    return Done(Item(number, given, "Why?", f"{number:016x}"), run_id, outcome(run_id=run_id, **fields))


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
