"""Access to `specialists mcp --http` with the generated token, with a given token, and without a token."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from run_specialist.errors import UsageError
from run_specialist.mcp_server.http import FILE, access_token
from tests.forked_program import run_forked
from tests.wire.serving import PATIENCE, Program, command
from tests.wire.stdio_client import NOT_HERE, UNJUDGED

FLAGS = ["--http", "127.0.0.1:0", "--model", "offline"]


@pytest.fixture
def data(notes, tmp_path, monkeypatch) -> Path:
    """An empty user data directory, and a project as the working directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SPECIALIST_MCP_TOKEN", raising=False)
    return tmp_path / "data" / "run-specialist"


@pytest.fixture
def started(data):
    """Return a function that starts the server and returns its stderr lines up to the last one, which has the URL."""
    running = []

    def start(*arguments: str) -> list[str]:
        program = Program.start(*FLAGS, *arguments)
        running.append(program)
        lines = []
        for line in program.process.stderr:
            # Which specialists cannot work here, and that no model judges, has nothing to do with tokens.
            if not re.match(f"{NOT_HERE}|{UNJUDGED}", line):
                lines.append(line.rstrip("\n"))
            if " on http" in line:
                return lines
        raise AssertionError(lines)

    start.running = running
    yield start
    for program in running:
        program.end()


def token_in(lines) -> str:
    """Return the token from the command line that the server prints for clients."""
    (found,) = [match[1] for line in lines if (match := re.search(r'--header "Authorization: Bearer (\S+)"', line))]
    return found


def status(lines, **headers) -> int:
    """Return the status of a request to another path, which is 404 if access is allowed."""
    url = lines[-1].split(" on ")[1].replace("/mcp", "/other")
    return httpx2.get(url, headers=headers, timeout=PATIENCE).status_code


@pytest.mark.exhaustive
@pytest.mark.anyio
async def test_the_printed_token_authorizes_an_official_client(started, data, write):
    """A client configured with the printed command can ask a specialist, and only the token file contains the token."""
    write("finder", "paths: [notes]")
    lines = await asyncio.to_thread(started, "--store", str(data / "runs.db"))
    token, url = token_in(lines), lines[-1].split(" on ")[1]
    assert f"claude mcp add --transport http specialists {url} --header" in "\n".join(lines)
    known = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
    async with asyncio.timeout(PATIENCE), known, Client(streamable_http_client(url, http_client=known)) as client:
        result = await client.call_tool("finder", {"query": "What do owls eat?"})
    assert "Owls eat mice at night." in result.content[0].text
    process = started.running[0].process
    process.send_signal(signal.SIGTERM)
    out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
    assert [path.name for path in data.rglob("*") if path.is_file() and token.encode() in path.read_bytes()] == [FILE]
    assert (data / "runs.db").exists()


@pytest.mark.exhaustive
def test_the_token_is_kept_in_a_private_file(started, data):
    """The token in a client's configuration is valid after a restart, and only the user can read the file."""
    first = started()
    assert token_in(started()) == token_in(first)
    assert f"specialists: the token is stored in {data / FILE}; delete this file to generate a new one" in first
    assert (data / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in data.iterdir()] == [FILE]
    (data / FILE).unlink()
    assert token_in(started()) != token_in(first)


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_given_token_is_neither_printed_nor_replaced(started, data, monkeypatch, how):
    """A token chosen by the user is neither printed nor replaced by a generated one."""
    if how == "environment":
        monkeypatch.setenv("SPECIALIST_MCP_TOKEN", "of-my-own")
    lines = started(*(["--token", "of-my-own"] if how == "flag" else []))
    assert "of-my-own" not in "\n".join(lines)
    assert (len(lines), status(lines), status(lines, authorization="Bearer of-my-own")) == (1, 401, 404)
    assert not (data / FILE).exists()


def test_no_token_prints_a_warning(started, data):
    """With `--no-token`, one line warns that every local process has access."""
    lines = started("--no-token")
    assert lines[0] == (
        "specialists: warning: without a token, every process on this machine, including those of other users, can ask "
        "the specialists, spend money with your API key, and read the files that the specialists can read"
    )
    assert (len(lines), status(lines)) == (2, 404)
    assert not (data / FILE).exists()


def test_a_token_file_readable_by_others_is_refused(data):
    """A token file readable by others is refused on one line with exit code 2 and a remedy."""
    data.mkdir(parents=True)
    (data / FILE).write_text("known-to-all\n")
    (data / FILE).chmod(0o644)
    done = run_forked(command(*FLAGS), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr == (
        f"specialists: {data / FILE} belongs to another user, or is accessible to others; delete it, and the next "
        "start generates a new token\n"
    )


@pytest.mark.parametrize("kept", ["", "two words", "geheimü", "\x00"])
def test_an_invalid_token_file_is_refused(data, kept):
    """An empty token would grant access to everyone, and an invalid one cannot be sent."""
    data.mkdir(parents=True)
    (data / FILE).touch(mode=0o600)
    (data / FILE).write_text(kept, encoding="utf-8")
    (data / FILE).chmod(0o600)
    with pytest.raises(UsageError, match="does not contain a token; delete it"):
        access_token()


def test_an_unstorable_token_is_valid_for_one_start(tmp_path):
    """If the token cannot be stored, each start has a new one and says why; no directory or symlink is read."""
    (tmp_path / "file").touch()
    (tmp_path / "elsewhere").write_text("planted\n")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    for folder in (tmp_path / "file" / "below", tmp_path / "taken", tmp_path):
        one, other = access_token(folder), access_token(folder)
        assert one.value != other.value
        assert "planted" not in {one.value, other.value}
        assert one.message.startswith(f"the token cannot be stored and changes at each start: {folder / FILE}: ")


@pytest.mark.exhaustive
def test_concurrent_starts_share_one_token(tmp_path):
    """Concurrent starts share the token of the first one."""
    given = f"access_token(Path({str(tmp_path / 'new')!r}))"
    code = f"from pathlib import Path\nfrom run_specialist.mcp_server.http import access_token\nprint({given}.value)"
    starts = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    tokens = {start.communicate(timeout=PATIENCE)[0] for start in starts}
    assert len(tokens) == 1
    assert re.fullmatch(r"[\w-]{43}\n", *tokens)
