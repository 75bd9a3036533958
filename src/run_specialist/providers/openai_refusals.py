"""Extract limits of a model and its server from error texts, the only place where endpoints report them."""

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
"""Error texts for a request that exceeds the model's context window."""

MIN_OUTPUT = 256
"""A context with less space than this for the reply counts as full [tokens]."""

_MAX_OUTPUT = re.compile(
    r"supports at most (\d+) completion tokens"
    r"|max(?:_completion)?_tokens\W+(?:value )?must be less than or equal to\W+(\d+)"
    r"|valid range of max(?:_completion)?_tokens is \[\d+, ?(\d+)\]"
)
_CONTEXT = re.compile(r"maximum context length is (\d+)")
_REQUESTED = re.compile(r"you requested (\d+) tokens")
_PROMPT = re.compile(r"\b(\d+) input tokens")
_ABOUT_SCHEMA = re.compile(
    r"response[_ ]format|json[_ ](?:schema|mode)|grammar|guided|structured[_ ]output", re.IGNORECASE
)
_UNKNOWN_KEY = re.compile(r"unrecogni[sz]ed|unknown|unexpected|unsupported|not supported|extra|not permitted")


def text_of_error(error: "APIError") -> str:
    """Return message and body of an error."""
    return f"{error} {error.body}"


def max_output(refusal: str) -> int | None:
    """Return the model's maximum output [tokens]; None if the error text does not contain it."""
    found = _MAX_OUTPUT.search(refusal)
    return int(found[found.lastindex or 0]) if found else None


def context_left(refusal: str, max_tokens: int) -> int | None:
    """Return the context left for the reply [tokens]; None if the error text does not contain it.

    max_tokens: limit in the refused request [tokens].
    """
    context, requested, prompt = (pattern.search(refusal) for pattern in (_CONTEXT, _REQUESTED, _PROMPT))
    if context and requested:
        return int(context[1]) - (int(requested[1]) - max_tokens)
    return int(context[1]) - int(prompt[1]) if context and prompt else None


def is_too_long(refusal: str) -> bool:
    """Return whether the request exceeds the model's context window."""
    return any(text in refusal.lower() for text in TOO_LONG)


def is_about_choice(refusal: str) -> bool:
    """Return whether the error is about the tool choice."""
    return re.search(r"tool[_ ]choice", refusal, re.IGNORECASE) is not None


def is_about_schema(refusal: str) -> bool:
    """Return whether the error is about the JSON Schema of the reply."""
    return _ABOUT_SCHEMA.search(refusal) is not None


def is_unknown(key: str, refusal: str) -> bool:
    """Return whether the server does not support a key of the request."""
    return key in refusal and _UNKNOWN_KEY.search(refusal.lower()) is not None
