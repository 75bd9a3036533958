"""Parse untrusted JSON from the servers of both APIs, and cache encoded messages."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.providers.endpoint import Endpoint
from run_specialist.record.messages import Message

MOST_TOKENS = 10**12
"""Upper bound of plausible token counts; larger ones are ignored."""
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)


def read_object(content_type: str, body: bytes, endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON object of a response body.

    Raises ProviderError for any other content.
    """
    if "json" not in content_type.lower():
        kind = _MEDIA_TYPE.match(content_type)
        named = kind[0] if kind else "no content type"
        raise ProviderError(f"the server answered with {named}, not JSON; {endpoint.wrong_server}")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"the server answered with incomplete or invalid JSON ({error}); try again") from error
    if not isinstance(value, dict):
        raise ProviderError(f"the server answered with JSON that is not an object; {endpoint.wrong_server}")
    return value


def read_arguments(text: str, *, cut: bool) -> object:
    """Parse the arguments of a tool call; None if they are not JSON.

    cut: whether the arguments are truncated; the complete part is returned, because the call will not be executed.
    """
    from jiter import from_json  # noqa: PLC0415 - installed with the SDKs, needed only after a request

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
    """Return a token count; 0 if it is missing or implausible."""
    value = values.get(key) if isinstance(values, Mapping) else None
    # In Python, `True` is an int.
    return value if isinstance(value, int) and value is not True and 0 < value <= MOST_TOKENS else 0


class EncodedMessages:
    """A cache of encoded messages: each request encodes only the messages that are new in the transcript."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        """Ids of all tool calls in the transcript."""
        self.pieces: list[bytes] = []
        """Encoded messages in order."""
        self._messages: Sequence[Message] = ()

    def take(self, messages: Sequence[Message], encoded: Callable[[Message], bytes]) -> None:
        """Update the cache for a transcript, which extends the previous one or replaces it.

        encoded: encodes one message; a message encoded before keeps the same bytes.
        """
        known = len(self._messages)
        if known > len(messages) or not all(map(is_, self._messages, messages)):
            known, self.ids, self.pieces = 0, set(), []
        for message in messages[known:]:
            self.pieces.append(encoded(message))
            self.ids |= {block["id"] for block in message.blocks if block["type"] == "tool_use"}
        self._messages = messages


def unique_id(sent: object, taken: Collection[str], prefix: str) -> str:
    """Return the id of a tool call; a new id if it is invalid or taken.

    prefix: start of a new id, followed by a number.
    """
    if isinstance(sent, str) and sent and sent not in taken:
        return sent
    number = len(taken) + 1
    while f"{prefix}{number}" in taken:
        number += 1
    return f"{prefix}{number}"
