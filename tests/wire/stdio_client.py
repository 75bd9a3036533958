"""A client that writes the messages of the protocol to the server over pipes."""

import json
import re

from tests.wire.serving import PATIENCE, Program

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def asks(number: int, name: str, **arguments) -> dict:
    """Return the message of a tool call."""
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": f"p{number}"}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def send(program: Program, *messages: object) -> None:
    """Write messages, or strings unchanged."""
    for message in messages:
        program.process.stdin.write(message if isinstance(message, str) else json.dumps(message) + "\n")
    program.process.stdin.flush()


def answer_to(program: Program, number: int) -> dict:
    """Read messages until a request is answered, and return the answer; every line must be a protocol message."""
    for line in program.process.stdout:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if message.get("id") == number:
            return message
    raise AssertionError("it ended without an answer")


NOT_HERE = r"specialists: not served: (thoughts-analyzer, thoughts-locator|.*fact-checker) cannot work here: .*"
UNJUDGED = r"specialists: warning: no model judges the answers: .*"


def ended(program: Program) -> tuple[int, list[str]]:
    """Wait for the process to end; return the exit code and the lines on standard error that not every start has."""
    _, err = program.process.communicate(timeout=PATIENCE)
    first, *rest = [line for line in err.splitlines() if not re.fullmatch(f"{NOT_HERE}|{UNJUDGED}", line)]
    assert re.fullmatch(r"specialists: serving \d+ specialists on standard input and output", first)
    return program.process.returncode, rest
