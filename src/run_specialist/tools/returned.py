"""Conversion of a function's return value to text for the model."""

import json
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import takewhile
from typing import Any

from run_specialist.errors import ToolError


def drained(result: Any, is_abandoned: Callable[[], bool]) -> Any:  # noqa: ANN401 - any return value
    """Return the items of an iterator as a list, and any other value unchanged; may block like the function.

    is_abandoned: checked between items, so that an endless iterator stops once the call is abandoned.
    """
    return list(takewhile(lambda _: not is_abandoned(), result)) if isinstance(result, Iterator) else result


def as_text(result: Any) -> str:  # noqa: ANN401 - any return value
    """Return text unchanged, None as an empty string, and everything else as JSON.

    Pydantic models, dataclasses, dates, sets etc. become their JSON equivalents; values without one become their `str`.
    Raises ToolError for values that cannot be serialized, e.g. a list that contains itself.
    """
    if isinstance(result, Enum):
        result = result.value
    if result is None:
        return ""
    if isinstance(result, str):
        return str(result)
    if isinstance(result, bytes | bytearray):
        return result.decode("utf-8", "replace")
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # noqa: PLC0415 - most tools return text

    try:
        plain = to_jsonable_python(result, bytes_mode="utf8", serialize_unknown=True)
        return json.dumps(plain, ensure_ascii=False)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"what it returned is no text and cannot be written as JSON: {error}") from error
