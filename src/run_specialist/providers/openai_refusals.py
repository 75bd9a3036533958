"""What a refused request tells of a model and its server; no endpoint tells it in any other way."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openai import APIError

TOO_LONG = (
    "context_length_exceeded",
    "exceed_context_size",
    "exceeds the available context size",
    "maximum context length",
    "context window",
    "prompt is too long",
)
"""How servers say that a request does not fit into the model's context."""

LEAST_ROOM = 256
"""With less room than this for the reply a context counts as full [tokens]."""

_MOST = re.compile(
    r"supports at most (\d+) completion tokens"
    r"|max(?:_completion)?_tokens\W+(?:value )?must be less than or equal to\W+(\d+)"
    r"|valid range of max(?:_completion)?_tokens is \[\d+, ?(\d+)\]"
)
_CONTEXT = re.compile(r"maximum context length is (\d+)")
_REQUESTED = re.compile(r"you requested (\d+) tokens")
_PROMPT = re.compile(r"\b(\d+) input tokens")
_UNKNOWN_KEY = re.compile(r"unrecogni[sz]ed|unknown|unexpected|unsupported|not supported|extra|not permitted")


def words_of(error: "APIError") -> str:
    """Return all that a server said in an error."""
    return f"{error} {error.body}"


def most_room(words: str) -> int | None:
    """Return the largest reply that the model gives [tokens], where the refusal names it."""
    found = _MOST.search(words)
    return int(found[found.lastindex or 0]) if found else None


def room_left(words: str, room: int) -> int | None:
    """Return what the prompt leaves of the context for a reply [tokens], where the refusal tells it.

    room: what the refused request asked for [tokens].
    """
    context, requested, prompt = (pattern.search(words) for pattern in (_CONTEXT, _REQUESTED, _PROMPT))
    if context and requested:
        return int(context[1]) - (int(requested[1]) - room)
    return int(context[1]) - int(prompt[1]) if context and prompt else None


def is_too_long(words: str) -> bool:
    """Say whether the request does not fit into the model's context."""
    return any(sign in words.lower() for sign in TOO_LONG)


def is_about_choice(words: str) -> bool:
    """Say whether it is the tool choice that was refused."""
    return re.search(r"tool[_ ]choice", words, re.IGNORECASE) is not None


def is_unknown(key: str, words: str) -> bool:
    """Say whether the server does not know a key of the request."""
    return key in words and _UNKNOWN_KEY.search(words.lower()) is not None
