"""JSON to and from bytes, by the fastest library that is there: the server must not be what is measured."""

import json
from typing import Any

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

NAME = "json" if orjson is None else "orjson"


def encode(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return the shortest JSON of a value; keys stay in their order."""
    if orjson is not None:
        return orjson.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode(raw: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a JSON text; raises ValueError."""
    return json.loads(raw) if orjson is None else orjson.loads(raw)
