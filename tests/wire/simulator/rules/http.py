"""Rules on the request as HTTP and as JSON."""

import re
from collections.abc import Iterator

from .base import Call, rule

VERSIONS = ("2023-06-01", "2026-10-21")
MAX_BODY = 32 * 1024 * 1024
"""Largest body [bytes]."""


@rule("http.path", 404, "not_found_error")
def path(call: Call) -> Iterator[str]:
    """Serve the Messages endpoint and nothing else."""
    if call.path.partition("?")[0] != "/v1/messages":
        yield "Not found"


@rule("http.method", 405)
def method(call: Call) -> Iterator[str]:
    """Take only a POST."""
    if call.method != "POST":
        yield "Method Not Allowed"


@rule("http.auth", 401, "authentication_error")
def auth(call: Call) -> Iterator[str]:
    """Require a key or a bearer token."""
    bearer = re.fullmatch(r"Bearer \S+", call.headers.get("authorization", ""))
    if not bearer and not call.headers.get("x-api-key", "").strip():
        yield "x-api-key header is required"


@rule("http.size", 413, "request_too_large")
def size(call: Call) -> Iterator[str]:
    """Take at most 32 MB."""
    if call.too_large or len(call.raw) > MAX_BODY:
        yield "Request exceeds the maximum size"


@rule("http.version")
def version(call: Call) -> Iterator[str]:
    """Require the version header."""
    if not call.headers.get("anthropic-version"):
        yield "anthropic-version: header is required"


@rule("http.version_known")
def version_known(call: Call) -> Iterator[str]:
    """Take only versions that exist."""
    if call.headers["anthropic-version"] not in VERSIONS:
        yield f'anthropic-version: "{call.headers["anthropic-version"]}" is not a valid version'


@rule("http.content_type")
def content_type(call: Call) -> Iterator[str]:
    """Require that the body calls itself JSON."""
    if call.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        yield "content-type: must be application/json"


@rule("json.valid")
def json_valid(call: Call) -> Iterator[str]:
    """Require JSON in UTF-8, without NaN or Infinity."""
    if call.parse_error:
        yield f"The request body is not valid JSON: {call.parse_error}"


@rule("json.surrogates")
def surrogates(call: Call) -> Iterator[str]:
    r"""Refuse half a character, such as `"\ud83d"`, in any string."""
    if not re.search(rb"\\u[dD][89abAB]", call.raw) and not re.search(rb"\\u[dD][c-fC-F]", call.raw):
        return
    if _has_surrogate(call.body):
        yield "The request body is not valid JSON: no low surrogate in string"


@rule("json.object")
def json_object(call: Call) -> Iterator[str]:
    """Require an object."""
    if not isinstance(call.body, dict):
        yield "Input should be a valid dictionary"


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_has_surrogate(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(_has_surrogate(part) for part in value)


RULES = (
    path,
    method,
    auth,
    size,
    version,
    version_known,
    content_type,
    json_valid,
    surrogates,
    json_object,
)
