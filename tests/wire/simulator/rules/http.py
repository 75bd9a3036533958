"""Rules on the request as HTTP and as JSON."""

import re
from collections.abc import Iterator

from .base import Call, Table

VERSIONS = ("2023-06-01", "2026-10-21")
MAX_BODY = 32 * 1024 * 1024
"""Largest body [bytes]."""
RULES = Table()
RULES.refuse(
    "http.path", "Not found", lambda call: call.path.partition("?")[0] != "/v1/messages", 404, "not_found_error"
)
RULES.refuse("http.method", "Method Not Allowed", lambda call: call.method != "POST", 405)


@RULES.rule("http.auth", 401, "authentication_error")
def auth(call: Call) -> Iterator[str]:
    """Require a key or a bearer token."""
    bearer = re.fullmatch(r"Bearer \S+", call.headers.get("authorization", ""))
    if not bearer and not call.headers.get("x-api-key", "").strip():
        yield "x-api-key header is required"


RULES.refuse(
    "http.size",
    "Request exceeds the maximum size",
    lambda call: call.too_large or len(call.raw) > MAX_BODY,
    413,
    "request_too_large",
)
RULES.refuse(
    "http.version", "anthropic-version: header is required", lambda call: not call.headers.get("anthropic-version")
)


@RULES.rule("http.version_known")
def version_known(call: Call) -> Iterator[str]:
    """Take only versions that exist."""
    if call.headers["anthropic-version"] not in VERSIONS:
        yield f'anthropic-version: "{call.headers["anthropic-version"]}" is not a valid version'


@RULES.rule("http.content_type")
def content_type(call: Call) -> Iterator[str]:
    """Require that the body calls itself JSON."""
    if call.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        yield "content-type: must be application/json"


@RULES.rule("json.valid")
def json_valid(call: Call) -> Iterator[str]:
    """Require JSON in UTF-8, without NaN or Infinity."""
    if call.parse_error:
        yield f"The request body is not valid JSON: {call.parse_error}"


@RULES.rule("json.surrogates")
def surrogates(call: Call) -> Iterator[str]:
    r"""Refuse half a character, such as `"\ud83d"`, in any string."""
    if not re.search(rb"\\u[dD][89abAB]", call.raw) and not re.search(rb"\\u[dD][c-fC-F]", call.raw):
        return
    if _has_surrogate(call.body):
        yield "The request body is not valid JSON: no low surrogate in string"


RULES.refuse("json.object", "Input should be a valid dictionary", lambda call: not isinstance(call.body, dict))


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_has_surrogate(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(_has_surrogate(part) for part in value)
