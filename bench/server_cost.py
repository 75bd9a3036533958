"""Measure the CPU time of the server per request, for three conversation lengths."""

import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

from bench.given import MAX_TOKENS, MODEL, NOTE, QUESTION, SCHEMA, SYSTEM, TOOL, TOOL_SAYS
from bench.lab import Lab
from bench.server.script import Script

TURNS = (1, 30, 300)
REQUESTS = 40


def measure(lab: Lab) -> str:
    """Return a sentence with the CPU time of the server per request."""
    return "CPU of the server per request: " + ", ".join(_at(lab, turns) for turns in TURNS) + "."


def _at(lab: Lab, turns: int) -> str:
    body = _body(turns)
    connection = HTTPConnection(urlsplit(lab.url).netloc)
    before = lab.ask("/tallies")["cpu"]
    for _ in range(REQUESTS):
        connection.request("POST", "/v1/messages", body, {"content-type": "application/json"})
        connection.getresponse().read()
    took = (lab.ask("/tallies")["cpu"] - before) / REQUESTS
    connection.close()
    return f"{took * 1000:.2f} ms with {turns} turns ({len(body) / 1000:.0f} kB)"


def _body(turns: int) -> bytes:
    messages: list[object] = [{"role": "user", "content": f"{Script('cost').tag()} {QUESTION}"}]
    for number in range(turns - 1):
        call = {"type": "tool_use", "id": f"call_{number}", "name": TOOL, "input": {"query": f"topic {number}"}}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": NOTE}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    tools = [{"name": TOOL, "description": TOOL_SAYS, "input_schema": SCHEMA}]
    request = {"model": MODEL, "max_tokens": MAX_TOKENS, "system": SYSTEM, "tools": tools, "messages": messages}
    return json.dumps(request | {"cache_control": {"type": "ephemeral"}}).encode()
