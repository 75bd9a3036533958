"""A private PostgreSQL server that a test may stop, restart and reconfigure."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = "tests"


def _programs() -> Path:
    """Return the folder of initdb and pg_ctl; skip the test if they are not installed."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found or not (found[-1] / "initdb").exists():
        pytest.skip("no PostgreSQL server: initdb is not installed")
    return found[-1]


class PostgresServer:
    """A cluster in its own folder, listening on a free loopback port."""

    def __init__(self, folder: Path, encoding: str) -> None:
        """Create the cluster, as the user postgres if root runs the tests, and start it."""
        self._programs = _programs()
        self._folder = folder
        self._as = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        password = secrets.token_hex(16)
        (folder / "password").write_text(password)
        if self._as:
            shutil.chown(folder, "postgres")
            shutil.chown(folder / "password", "postgres")
        access = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={folder / 'password'}"]
        self._run("initdb", "-D", str(folder / "data"), "-N", "-E", encoding, "--locale=C", *access)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        options = f"-h 127.0.0.1 -p {self.port} -k {self._folder} -F"
        self._control("start", "-l", str(self._folder / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` ends every session, `immediate` simulates a crash."""
        self._control("stop", "-m", mode)

    def restart(self, mode: str = "fast") -> None:
        """Stop the server and start it again."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server if it is running."""
        if (self._folder / "data" / "postmaster.pid").exists():
            self.stop("immediate")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), *arguments]
        # A file instead of a pipe, because the server inherits it and would keep the pipe open.
        said = self._folder / "said"
        with said.open("w") as out:
            done = subprocess.run(
                command, cwd="/", env={**os.environ, "LC_ALL": "C"}, stdout=out, stderr=out, check=False
            )
        assert done.returncode == 0, said.read_text()


@contextmanager
def postgres_server(encoding: str = "UTF8") -> Iterator[PostgresServer]:
    """Start a server, and remove it afterwards."""
    # The server runs as another user, who has no access to the folders of pytest.
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    server: PostgresServer | None = None
    try:
        server = PostgresServer(folder, encoding)
        yield server
    finally:
        if server is not None:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)
