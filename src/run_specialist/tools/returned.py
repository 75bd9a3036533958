"""What a function returned, as the text that a model reads."""

import json
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import takewhile
from typing import Any

from run_specialist.errors import ToolError


def drained(result: Any, is_given_up: Callable[[], bool]) -> Any:  # noqa: ANN401 - whatever a function returns
    """Return what an iterator yields as a list, and anything else as it is; it may block as long as the function.

    is_given_up: asked between two items, so that one without an end does not fill the memory when nobody waits.
    """
    return list(takewhile(lambda _: not is_given_up(), result)) if isinstance(result, Iterator) else result


def as_text(result: Any) -> str:  # noqa: ANN401 - whatever a function returns
    """Return text as it is, nothing for None, and everything else as JSON.

    Models, dataclasses, dates, sets and the like become what JSON has for them, and what it has nothing for its `str`.
    Raises ToolError for what cannot be told, e.g. a list that holds itself.
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
