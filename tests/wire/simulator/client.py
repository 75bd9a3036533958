"""A client without checks: it posts any body it is given."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

HEADERS = {
    "x-api-key": "test-key",
    "anthropic-version": "2026-10-21",
    "content-type": "application/json",
}


@dataclass(frozen=True)
class Response:
    """Hold a response."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, Any]:
        """Return the parsed body."""
        parsed = json.loads(self.raw)
        assert isinstance(parsed, dict)
        return parsed

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the data of the server-sent events."""
        lines = self.raw.decode().splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def post(
    base_url: str,
    body: Mapping[str, Any] | bytes,
    *,
    method: str = "POST",
    path: str = "/v1/messages",
    headers: Mapping[str, str | None] | None = None,
) -> Response:
    """Send one request; a header given as None is omitted."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name: value for name, value in {**HEADERS, **(headers or {})}.items() if value is not None}
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        connection.request(method, path, raw, sent)
        response = connection.getresponse()
        return Response(response.status, {k.lower(): v for k, v in response.headers.items()}, response.read())
    finally:
        connection.close()
