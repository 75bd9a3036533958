"""Test helpers: load answer schemas, and return the reason why one is refused."""

from pathlib import Path
from typing import Any

import pytest

from run_specialist.specialist.answer_schema import AnswerSchema

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "additionalProperties": False,
}


DRAFT7, DRAFT4 = ({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (7, 4))


def load_schema(schema: dict[str, Any]) -> AnswerSchema:
    """Load a schema that refers to no files."""
    return AnswerSchema.load(schema, Path())


def refused(value: Any, folder: Path = Path()) -> str:
    """Return the reason why a schema is refused."""
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        AnswerSchema.load(value, folder)
    assert str(caught.value).isprintable()
    return str(caught.value)
