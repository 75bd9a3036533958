"""Examples for the request as HTTP and as JSON."""

import json

from tests.wire.simulator.rules.http import MAX_BODY

from .base import Example, request, user

GOOD = request()
TEXT = json.dumps(GOOD)
LARGE = request(messages=[user("owl " * (MAX_BODY // 4))])
HALF_A_CHARACTER = TEXT.replace("owls", r"\ud83d owls").encode()

EXAMPLES = (
    Example("http.path", "Not found", GOOD, GOOD, path="/v1/complete"),
    Example("http.method", "Method Not Allowed", GOOD, GOOD, method="GET"),
    Example("http.auth", "x-api-key header is required", GOOD, GOOD, headers={"x-api-key": None}),
    Example("http.auth", "required", GOOD, GOOD, headers={"x-api-key": None, "authorization": "Basic a2V5"}),
    Example("http.size", "exceeds the maximum size", LARGE, GOOD),
    Example("http.version", "header is required", GOOD, GOOD, headers={"anthropic-version": None}),
    Example("http.version_known", '"2020" is not', GOOD, GOOD, headers={"anthropic-version": "2020"}),
    Example("http.content_type", "application/json", GOOD, GOOD, headers={"content-type": "text/plain"}),
    Example("json.valid", "not valid JSON", TEXT.encode()[:-1], GOOD),
    Example("json.valid", "not valid JSON", TEXT.replace("owls", "öwls").encode("latin-1"), GOOD),
    Example("json.valid", "NaN", TEXT.replace("4096", "NaN").encode(), GOOD),
    Example("json.valid", "not valid JSON", b"[" * 100_000, GOOD),
    Example("json.surrogates", "surrogate", HALF_A_CHARACTER, request(messages=[user("\U0001f989")])),
    Example("json.object", "valid dictionary", b"[]", GOOD),
)
