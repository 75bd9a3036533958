"""Read JSON that a server sent, and trust none of it; both APIs need this."""

import json
from collections.abc import Mapping
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.providers.endpoint import Endpoint


def read_object(content_type: str, body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON object of a whole reply.

    Raises ProviderError for anything else.
    """
    if "json" not in content_type.lower():
        kind = content_type or "no content type"
        raise ProviderError(f"the server answered with {kind}, not JSON; {endpoint.wrong_server}")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"the server's JSON breaks off or is damaged ({error}); try again") from error
    if not isinstance(value, dict):
        raise ProviderError(f"the server answered with JSON that is no message; {endpoint.wrong_server}")
    return value


def read_arguments(text: str, *, cut: bool) -> object:
    """Parse a tool's arguments; None when they are no JSON.

    cut: of arguments that were cut off keep what came through, for nobody will run them.
    """
    from jiter import from_json  # noqa: PLC0415 - comes with the SDKs, needed only after a request

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if not cut:
            return None
        try:
            return from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings")
        except ValueError:
            return None


def count(values: object, key: str) -> int:
    """Return a number of tokens; 0 where there is none."""
    value = values.get(key) if isinstance(values, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0
