"""Find the refused parameter in an error text of a Messages API, because endpoints report it in no other way."""

import re

TOO_LONG = ("prompt is too long", "exceed context limit")
"""Error texts for a request that exceeds the model's context window."""
_ABOUT_SCHEMA = re.compile(
    r"output_config(?!\.effort)|output_format|json_schema|schema|grammar|structured output", re.IGNORECASE
)


def is_too_long(refusal: str) -> bool:
    """Return whether the request exceeds the model's context window."""
    return any(text in refusal for text in TOO_LONG)


def is_about_choice(refusal: str) -> bool:
    """Return whether the error is about the tool choice."""
    return "tool_choice" in refusal


def is_about_schema(refusal: str) -> bool:
    """Return whether the error is about the JSON Schema of the reply."""
    return _ABOUT_SCHEMA.search(refusal) is not None
