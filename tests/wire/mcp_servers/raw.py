"""Misbehaving MCP servers with a hand-written protocol; the first argument selects the misbehaviour."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HOW = sys.argv[1]
TOOL = {"name": "look", "description": "Look.", "inputSchema": {"type": "object", "properties": {}}}

NEW = "2026-07-28"
NEWER = {"new", "curious", "nameless"}
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
LISTS = {
    "none": {"tools": []},
    "untyped": {"tools": [{"name": "look", "inputSchema": {}}]},
    "listless": {"tools": {"look": TOOL}},
    "hasty": {"tools": [TOOL], "ttlMs": -1, "cacheScope": "nobody"},
    "nameless": {"tools": [TOOL, {"name": 5, "inputSchema": {"type": "object"}}], **COMPLETE},
}
ASKED = {
    "roots/list": {},
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
        "maxTokens": 5,
    },
    "elicitation/create": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
    "ping": {},
}


def say(number, **answer):
    """Send the response to a request."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, **answer}) + "\n")
    sys.stdout.flush()


def text(words):
    """Return the result of a call."""
    return {"content": [{"type": "text", "text": words}]}


def ask(method, params):
    """Send some notifications and a request to the client, and return the id and the error of its answer."""
    for note in ("notifications/tools/list_changed", "notifications/progress", "notifications/nonsense"):
        sys.stdout.write(
            json.dumps({"jsonrpc": "2.0", "method": note, "params": {"progressToken": 1, "progress": 1}}) + "\n"
        )
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n")
    sys.stdout.flush()
    answer = json.loads(sys.stdin.readline())
    return f"{answer['id']}: {answer.get('error', {}).get('message', 'granted')}"


def notify_test(word):
    """Report the server's state to the test, through a file or a pipe."""
    Path(os.environ["MARKER"]).write_text(word)


def begin():
    """Misbehave before the first message."""
    if HOW == "exits":
        sys.exit("no licence found\nboo \x1b[31m failed")
    if HOW == "leaks":
        sys.exit("refused: sk-" + "a" * 30)
    if HOW == "silent":
        time.sleep(600)
    if HOW in {"deaf", "stubborn"}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if HOW == "stderr":
        for _ in range(3000):
            sys.stderr.write("x" * 999 + "\n")
        sys.stderr.flush()
    if HOW == "children":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(os.environ["MARKER"]).write_text(str(child.pid))
        sys.exit("the child goes on")
    if HOW == "garbage":
        sys.stdout.buffer.write(b"Welcome to the server!\n\xff\xfe\n[1, 2]\n{}\nnull\n" + b"x" * 100_000 + b"\n")
        sys.stdout.flush()


def tools(params):
    """Return the result of `tools/list`."""
    if HOW in LISTS:
        return LISTS[HOW]
    if HOW == "many":
        return {"tools": [{**TOOL, "name": f"look{number}"} for number in range(2_000)]}
    if HOW == "endless":
        page = int(params.get("cursor", 0))
        return {"tools": [{**TOOL, "name": f"look{page}"}], "nextCursor": str(page + 1)}
    if HOW == "worn":
        # The two pages hold one valid tool between them.
        page = int(params.get("cursor", 0))
        broken = [{"name": f"torn{page}{number}", "inputSchema": None} for number in range(7)]
        return {"tools": [TOOL, *broken], "nextCursor": "1"} if page == 0 else {"tools": [*broken, 7]}
    if HOW == "odd":
        schemas = {
            "any": {"anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}, "type": "object"},
            "broken": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
            "key": {"type": "object", "properties": {"a b": {"type": "string"}}},
            "bare": {"type": "object"},
            "same.name": {"type": "object"},
            "same_name": {"type": "object"},
        }
        listed = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
        return {"tools": [*listed, {**listed[0], "description": "again"}]}
    return {"tools": [TOOL], **(COMPLETE if HOW in NEWER else {})}


def call(number):
    """Answer a tool call, or misbehave instead."""
    if HOW == "dies":
        marker = Path(os.environ["MARKER"])
        if not marker.exists():
            marker.write_text("died")
            sys.exit("out of cheese")
    if HOW == "mute":
        return
    if HOW in {"stubborn", "told"}:
        notify_test("called")
        return
    if HOW == "shut":
        os.close(1)
        time.sleep(600)
    if HOW == "wide":
        sys.stdout.write("x" * (11 * 1024 * 1024))
        sys.stdout.flush()
        time.sleep(600)
    if HOW == "invalid":
        sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": "\\ud800"}}\n')
        sys.stdout.flush()
        return
    if HOW == "asks":
        answer = {"result": text("; ".join(ask(method, params) for method, params in ASKED.items()))}
    else:
        wanted = {"method": "elicitation/create", "params": ASKED["elicitation/create"]}
        seen = text({"large": "x" * 5_000_000, "half": "cut \ud83d"}.get(HOW, "seen"))
        answer = {
            "error": {"error": {"code": -32602, "message": "no such\nthing"}},
            "wrong": {"result": {"content": "none"}},
            "curious": {"result": {"resultType": "input_required", "inputRequests": {"who": wanted}}},
        }.get(HOW, {"result": seen | ({"resultType": "complete"} if HOW in NEWER else {})})
    say(number, **answer)


def meet(number, asked):
    """Answer a request that starts the connection; return False for any other request."""
    method = asked["method"]
    if HOW == "old" and method == "server/discover":
        sys.exit("expected initialize")
    if HOW in NEWER and method == "server/discover":
        say(number, result={"supportedVersions": [NEW], "capabilities": {"tools": {}}, **COMPLETE})
    elif HOW in NEWER and "_meta" not in asked.get("params", {}):
        say(number, error={"code": -32022, "message": "too old", "data": {"supported": [NEW], "requested": "x"}})
    elif method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}
        say(number, result={"protocolVersion": asked["params"]["protocolVersion"], **about})
    else:
        return False
    return True


def main():
    """Handle messages until the input ends."""
    begin()
    for line in sys.stdin:
        asked = json.loads(line)
        number, method = asked.get("id"), asked["method"]
        if number is None or meet(number, asked):
            continue
        if method == "tools/list":
            say(number, result=tools(asked.get("params") or {}))
            if HOW == "numb":
                os.close(0)
                notify_test("closed")
                time.sleep(600)
        elif method == "tools/call":
            call(number)
        else:
            say(number, error={"code": -32601, "message": "Method not found"})
    if HOW in {"deaf", "stubborn"}:
        time.sleep(600)
    if HOW == "told":
        notify_test("ended")


if __name__ == "__main__":
    main()
