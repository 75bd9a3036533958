"""Encode and decode JSON with the fastest installed library, so that the server does not dominate the measurements."""

import json
from typing import Any

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

NAME = "json" if orjson is None else "orjson"


def encode(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return compact JSON of a value, with keys in their order."""
    if orjson is not None:
        return orjson.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode(raw: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a JSON text; raises ValueError for invalid JSON."""
    return json.loads(raw) if orjson is None else orjson.loads(raw)
