"""The server process under load: standard error that is not read, a line of 100 MB."""

import asyncio
import json
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.wire.http_requests import asks, post
from tests.wire.serving import PATIENCE, Program, write_specialist
from tests.wire.stdio_client import HELLO

HTTP = ["--http", "127.0.0.1:0", "--token", "t", "--store", "none", "--model", "offline"]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits and memory of another process, read from /proc")


@pytest.fixture(autouse=True)
def project(project):
    """The project with one specialist."""
    write_specialist(project, "finder", "tools: []")
    return project


@pytest.mark.exhaustive
def test_an_unread_stderr_delays_neither_answers_nor_shutdown(program, project):
    """A full standard-error pipe delays neither answers nor shutdown, although each call logs a line."""
    reading, writing = os.pipe()
    server = program(*HTTP, stderr=writing)
    said = b""
    while b" on http" not in said or not said.endswith(b"\n"):
        said += os.read(reading, 65_536)
    url = re.search(r" on (http\S+)", said.decode())[1]
    os.set_blocking(writing, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writing, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(writing, True)
    for count in range(3):
        write_specialist(project, f"broken-{count}", "turns_limit: -3")
        answer = asyncio.run(post(url, asks("tools/list"), authorization="Bearer t"))
        assert '"finder"' in answer.text
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    os.close(reading)
    os.close(writing)


@pytest.mark.exhaustive
@on_linux
def test_a_line_of_100_megabytes_is_reported_once_and_answered(program):
    """A line of 100 MB is answered with an error and logged once, without being held in memory."""
    server = program("--store", "none", "--model", "offline")
    write, read = server.process.stdin.buffer, server.process.stdout
    patience = threading.Timer(PATIENCE, server.process.kill)
    patience.start()
    write.write(json.dumps(HELLO).encode() + b"\n")
    write.flush()
    assert json.loads(read.readline())["id"] == 1
    before = peak(server)
    write.write(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "')
    for _ in range(100):
        write.write(b"x" * 1_000_000)
    write.write(b'"}}\n{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    write.write(b'{"jsonrpc": "2.0", "id": 8, "method": "ping"}\n')
    write.flush()
    refused, ping = (json.loads(read.readline()) for _ in range(2))
    patience.cancel()
    assert peak(server) - before < 40_000
    code, out = -32_600, "a message may have 4194304 bytes; this one was longer and was not read"
    assert refused == {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": out}}
    assert (ping["id"], ping["result"]) == (8, {})
    _, err = server.process.communicate(timeout=PATIENCE)
    assert server.process.returncode == 0
    (said,) = [line for line in err.splitlines() if "skipped" in line]
    assert said == "specialists: warning: skipped a message of more than 4194304 bytes"


def peak(server: Program) -> int:
    """Return the peak memory of the server [kB]."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[1])
