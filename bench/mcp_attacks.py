"""Attack `specialists mcp --http` while an honest client sends requests, and print one line per attack.

    uv run --group test python -m bench.mcp_attacks [--seconds 15] [--descriptors 256] [--unread] [NAME ...]

Each attack uses a new server, which gets SIGTERM during the attack. A line shows the answers and failed requests of the
honest client, its longest wait, the peak memory and descriptors of the server, the bytes on standard error, and how
long the server took to exit.
"""

import argparse
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.attacks import ASK, ATTACKS, HEAD, Target

MAIN = "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"


class Honest(threading.Thread):
    """Requests the list of tools repeatedly, each time over a new connection."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self._target = target
        self.answers = self.failures = 0
        self.longest = 0.0
        self.is_over = False

    def run(self) -> None:
        """Send requests until `is_over`."""
        body = json.dumps(ASK)
        head = f"{HEAD}{self._target.known}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
        data = f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        while not self.is_over:
            begun = time.monotonic()
            got = b""
            try:
                with socket.create_connection(("127.0.0.1", self._target.port), timeout=30) as connection:
                    connection.sendall(data)
                    while more := connection.recv(65_536):
                        got += more
            except OSError:
                pass
            if self.is_over:
                return
            self.longest = max(self.longest, time.monotonic() - begun)
            if got.startswith(b"HTTP/1.1 200") and b"start_run" in got:
                self.answers += 1
            else:
                self.failures += 1
            time.sleep(0.05)


def attack(name: str, options: argparse.Namespace, folder: Path) -> str:
    """Run one attack and return its output line."""
    limit = options.descriptors

    def lower() -> None:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    command = [sys.executable, "-c", MAIN, "mcp", "--http", "0", "--store", "none", "--model", "offline", *options.flag]
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    server = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lower,  # noqa: PLW1509 - no other thread is running yet
    )
    stderr: list[bytes] = []
    found = b""
    while b" on http" not in found.rpartition(b"serving")[2] or not found.endswith(b"\n"):
        found += os.read(server.stderr.fileno(), 4096)
    port = int(re.search(rb"127\.0\.0\.1:(\d+)/mcp", found)[1])
    token = re.search(rb"Bearer ([\w-]{20,})", found)
    if not options.unread:
        threading.Thread(target=_read, args=(server.stderr.fileno(), stderr), daemon=True).start()
    target = Target(port, token[1].decode() if token else None)
    honest = Honest(target)
    honest.start()
    steps = ATTACKS[name](target)
    end = time.monotonic() + options.seconds
    memory = descriptors = 0
    while time.monotonic() < end:
        next(steps)
        memory, descriptors = max(memory, _memory(server.pid)), max(descriptors, _descriptors(server.pid))
        time.sleep(options.pause)
    honest.is_over = True
    server.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    try:
        code: object = server.wait(20)
    except subprocess.TimeoutExpired:
        code = "killed"
        server.kill()
        server.wait()
    took = time.monotonic() - begun
    for connection in target.open:
        connection.close()
    return (
        f"{name:32} | {honest.answers:4} answers, {honest.failures} failed, longest {honest.longest:5.2f} s | "
        f"{memory // 1024:4} MB, {descriptors:4} descriptors | stderr {sum(map(len, stderr)):7} bytes | "
        f"exit after {took:.1f} s, code {code}"
    )


def _read(descriptor: int, into: list[bytes]) -> None:
    while data := os.read(descriptor, 65_536):
        into.append(data)


def _memory(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def main() -> None:
    """Read the flags and run the attacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks to run; default: all")
    parser.add_argument("--seconds", type=float, default=15, help="duration of each attack")
    parser.add_argument("--pause", type=float, default=0.1, help="pause between two steps of an attack [s]")
    parser.add_argument("--descriptors", type=int, default=0, help="limit of open descriptors for the server")
    parser.add_argument("--unread", action="store_true", help="do not read the server's standard error")
    parser.add_argument("--flag", action="append", default=[], help="additional flag for the server; repeatable")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or ATTACKS:
            print(attack(name, options, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
