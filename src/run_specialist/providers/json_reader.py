"""Read JSON that a server sent, and trust none of it; both APIs need this."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.providers.endpoint import Endpoint
from run_specialist.record.messages import Message

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


class TokenEstimate:
    """What an API was told already; of the next request only what is new is looked at, however long the transcript."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """Of all tool calls."""
        self.pieces: list[bytes] = []
        """Each message as it is sent."""
        self._messages: Sequence[Message] = ()

    def take(self, messages: Sequence[Message], encoded: Callable[[Message], bytes]) -> None:
        """Take a transcript: the last one with what came after it, or another.

        encoded: serialises a message; one that was sent before is sent as the very same bytes.
        """
        known = len(self._messages)
        if known > len(messages) or not all(map(is_, self._messages, messages)):
            known, self.ids, self.pieces = 0, set(), []
        for message in messages[known:]:
            self.pieces.append(encoded(message))
            self.ids |= {block["id"] for block in message.blocks if block["type"] == "tool_use"}
        self._messages = messages


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
