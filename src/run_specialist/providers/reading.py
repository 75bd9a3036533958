"""Read JSON that a server sent, and trust none of it; both APIs need this."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.messages import Message
from run_specialist.providers.endpoint import Endpoint

MOST_TOKENS = 10**12
"""No request has more; a larger figure is no figure."""
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)


def read_object(content_type: str, body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON object of a whole reply.

    Raises ProviderError for anything else.
    """
    if "json" not in content_type.lower():
        kind = _MEDIA_TYPE.match(content_type)
        told = kind[0] if kind else "no content type"
        raise ProviderError(f"the server answered with {told}, not JSON; {endpoint.wrong_server}")
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
    """Return a number of tokens; 0 where there is none that can be true."""
    value = values.get(key) if isinstance(values, Mapping) else None
    # JSON's true is a number to Python, and to no one else.
    return value if isinstance(value, int) and value is not True and 0 < value <= MOST_TOKENS else 0


class TakenIds:
    """The ids of all tool calls in a transcript; what was read of it is not read again in the next request."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._read = 0
        self._last: Message | None = None

    def among(self, messages: Sequence[Message]) -> set[str]:
        """Return those of a transcript: the last one and what came after it, or another."""
        if not 0 < self._read <= len(messages) or messages[self._read - 1] is not self._last:
            self._ids, self._read = set(), 0
        new = [block for message in messages[self._read :] for block in message.blocks]
        self._ids |= {block["id"] for block in new if block["type"] == "tool_use"}
        self._read, self._last = len(messages), messages[-1]
        return self._ids


def sound_id(given: object, taken: Collection[str], prefix: str) -> str:
    """Return a tool call's id as it came; a new one where that is none, or taken.

    prefix: how a new one begins; a number follows.
    """
    if isinstance(given, str) and given and given not in taken:
        return given
    number = len(taken) + 1
    while f"{prefix}{number}" in taken:
        number += 1
    return f"{prefix}{number}"
