"""Credentials of the process and private keys in files are masked, whichever tool shows a part of them."""

import base64
import json
import random
import sys
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from run_specialist import Runner, Specialist, ToolError
from run_specialist.cli import ask, manage
from run_specialist.safety.credentials import MASK
from tests.loop_jobs import results
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import write
from tests.secrets.canaries import stored, values_with_secret

WORDS = {
    "OPENAI_API_KEY": "zebra-cardigan-lamplight-quokka",
    "ANTHROPIC_AUTH_TOKEN": "walnut/harbour+trombone=mosaic",
    "DEPLOY_PASSWORD": 'gazebo "pickle" lantern',
    "HTTPS_PROXY": "http://me:origami-cactus-velvet@127.0.0.1:9",
    "given": "puffin-marmalade-sextant",
    "store": "kettle-hyacinth-banjo",
    "server": "thistle-accordion-comet",
}
"""Secrets without a known format, which can only be masked by their values."""
SECRETS = {name: value.partition("me:")[2].partition("@")[0] or value for name, value in WORDS.items()}
OWN = Specialist(name="finder", description="", prompt="You look.", tools=None)
BODY = base64.b64encode(random.Random(5).randbytes(48 * 10)).decode()  # noqa: S311 - no secret
DASHES = "-" * 5
KEY = "\n".join(
    [
        f"{DASHES}BEGIN PRIVATE KEY{DASHES}",
        *(BODY[at : at + 64] for at in range(0, 640, 64)),
        f"{DASHES}END PRIVATE KEY{DASHES}",
    ]
)


def forms(secret: str) -> str:
    """Return a secret plain, URL-encoded, JSON-escaped and in base64."""
    encoded = base64.b64encode(f"me:{secret}".encode()).decode()
    return f"{secret} {quote(secret, safe='')} {json.dumps(secret)} <{encoded}>"


def everything() -> str:
    """Return all of them."""
    return "\n".join(map(forms, SECRETS.values()))


def fails() -> str:
    """Raise them."""
    raise ToolError(everything())


async def run_once(folder, script, tools=(), secrets=(), own=OWN):
    """Return the outcome of a run, the results that its model saw, and all output of the run."""
    provider, told = ScriptedProvider([calls(*script), says("done")]), []
    store = folder / "runs.db"
    async with Runner(root=folder, store=str(store), provider=provider, tools=tools, secrets=secrets) as runner:
        outcome = await runner.run(own, "What?", listener=told.append)
    seen = "\n".join(results(provider.requests[-1].messages[-1]))
    return outcome, seen, [*told, outcome, seen, *stored(folder)]


@pytest.mark.anyio
async def test_credentials_of_the_process_are_masked_by_value(tmp_path, monkeypatch):
    """Secrets of the process and of MCP servers are masked in results, errors and files, in every encoding.

    They come from variables, proxy URLs, the program and the settings of an MCP server.
    """
    for name, value in WORDS.items():
        if name.isupper():
            monkeypatch.setenv(name, value)
    (tmp_path / "a.md").write_text(f"# Owls\n\n{everything()}\n")
    server = {"command": [sys.executable, "-c", "raise SystemExit"], "env": {"A_TOKEN": WORDS["server"]}}
    own = Specialist(name="finder", description="", prompt="You look.", tools=None, mcp_servers={"s": server})
    script = [("everything", {}), ("fails", {}), ("read", {"path": "a.md"}), ("search", {"query": "owls"})]
    secrets = [SECRETS["given"], SECRETS["store"]]
    outcome, seen, told = await run_once(tmp_path, script, [everything, fails], secrets, own)
    assert outcome.tool_calls.failed == 1
    assert seen.count(MASK) >= 3 * len(SECRETS)
    told = [one for one in told if not (isinstance(one, str) and "SQLite" in one[:20])]
    assert {name: found for name, secret in SECRETS.items() if (found := values_with_secret(secret, *told))} == {}
    for secret in SECRETS.values():
        for shift in range(3):
            piece = base64.b64encode(b"me:"[shift:] + secret.encode()).decode()[4:-4]
            assert piece not in seen


@pytest.mark.anyio
async def test_the_password_of_the_store_is_masked_in_tool_results(tmp_path, monkeypatch):
    """A tool that returns the store's password gets it masked."""
    monkeypatch.setattr("run_specialist.api.run_store.RunStore.journal", _nothing)
    provider = ScriptedProvider([calls(("everything", {})), says("done")])
    url = f"postgresql://me:{SECRETS['store']}@127.0.0.1:9/runs"
    async with Runner(root=tmp_path, store=url, provider=provider, tools=[everything]) as runner:
        await runner.run(OWN, "What?")
    assert (
        values_with_secret(SECRETS["store"], *(message.encoded.decode() for message in provider.requests[-1].messages))
        == []
    )


async def _nothing(*_: object) -> None:
    return None


def pieces(text: str) -> list[str]:
    """Return the pieces of the private key that a text contains."""
    return [BODY[at : at + 10] for at in range(len(BODY) - 9) if BODY[at : at + 10] in text]


@pytest.fixture
def keys(tmp_path):
    """A project with keys in notes, in JSON on one line, in UTF-16 with CRLF line endings, and in a long line."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.md").write_text(f"# Owls\n\nowls eat mice\n\n{KEY}\n\nthe owls' last line\n")
    (tmp_path / "b.json").write_text(json.dumps({"x": "y" * 600, "owls": KEY, "z": "y" * 600}))
    (tmp_path / "c.txt").write_bytes(
        f"owls\r\n{KEY}\r\nend\r\n".replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-16")
    )
    (tmp_path / "d.env").write_text("x" * 600 + f" GITHUB_TOKEN={BODY[:300]} " + "y" * 600 + "\n")
    return tmp_path


ALL = [
    *(("read", {"path": path, "offset": first, "limit": limit}) for path in ("a.md", "b.json", "c.txt", "d.env")
      for first, limit in ((1, 200), (1, 1), (7, 3), (8, 1), (9, 1))),
    *(("grep", {"pattern": pattern, "context": context}) for context in (0, 2)
      for pattern in (BODY[70:80], BODY[200:206], "owls", "GITHUB", "y+")),
    *(("search", {"query": query, "limit": 20}) for query in ("owls mice", "owls", "github token", "private key")),
    ("ls", {}),
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["read", "grep", "search", "ls"])
async def test_no_tool_shows_a_piece_of_a_key(keys, tool):
    """Slices of lines, lines around a match and clipped lines contain no piece of the key."""
    script = [call for call in ALL if call[0] == tool]
    outcome, seen, _ = await run_once(keys, script)
    assert outcome.tool_calls.used == len(script)
    assert tool == "ls" or MASK in seen
    assert pieces(seen) == []


@pytest.mark.anyio
async def test_masking_a_key_keeps_line_numbers(keys):
    """Each line of the key is masked on its own line, and later lines keep their numbers."""
    _, seen, _ = await run_once(keys, [("read", {"path": "a.md", "offset": 5, "limit": 20})])
    lines = seen.split("\n")
    assert [line.split("\t")[0].strip() for line in lines[:14]] == [str(number) for number in range(5, 19)]
    assert lines[1].endswith(MASK)
    assert lines[13].endswith("the owls' last line")


@pytest.mark.anyio
async def test_a_result_is_masked_before_it_is_truncated(tmp_path):
    """A result is masked before it is truncated, so that no prefix of a key remains at its end."""
    token = "sk-" + "ant-api03-" + BODY[:80].replace("+", "a").replace("/", "b")

    def long() -> str:
        return "x " * 495 + token

    own = Specialist(name="finder", description="", prompt="You look.", tools=None, tool_result_limit=1000)
    _, seen, told = await run_once(tmp_path, [("long", {})], [long], own=own)
    assert values_with_secret(token, seen, *told) == []


def test_an_offline_answer_quotes_no_key(keys, monkeypatch):
    """The passages that an offline answer quotes are masked."""
    write(keys, "finder", "tools: [search, grep, read, ls, glob]", "paths: [.]")
    monkeypatch.chdir(keys)
    monkeypatch.setenv("HOME", str(keys))
    monkeypatch.setenv("SPECIALIST_STORE", str(keys / "runs.db"))
    result = CliRunner().invoke(
        ask.app, ["finder", "What do owls have, and which private key?", "--model", "offline", "--json"]
    )
    assert result.exit_code == 0
    assert "owls" in result.stdout
    transcript = CliRunner().invoke(manage.app, ["transcript", "last", "--json"])
    assert pieces(result.stdout + result.stderr + transcript.stdout) == []


@pytest.mark.anyio
async def test_a_key_in_a_file_name_is_masked(tmp_path):
    """The key is masked in a listing, as in a text."""
    token = "ghp_" + "a1B2" * 9
    (tmp_path / token).touch()
    _, seen, _ = await run_once(tmp_path, [("ls", {}), ("glob", {"pattern": "*"}), ("read", {"path": token[:-1]})])
    assert seen.count(token) == 0


@pytest.mark.anyio
async def test_a_key_passed_to_a_provider_is_masked(tmp_path):
    """A key that a program passes to a provider, and that is in no variable, is masked."""
    secret = SECRETS["given"]
    provider = ScriptedProvider([calls(("everything", {})), says("done")])
    provider.client = SimpleNamespace(api_key=secret, auth_token=None)
    async with Runner(root=tmp_path, store="none", provider=provider, tools=[everything]) as runner:
        await runner.run(OWN, "What?")
    assert values_with_secret(secret, *results(provider.requests[-1].messages[-1])) == []


def test_the_mcp_server_token_is_masked_in_tool_results(tmp_path, monkeypatch):
    """The runner of `specialists mcp --token` masks the token in tool results."""
    made = []

    async def serve(runner: Runner, *_: object) -> int:
        made.append(runner)
        provider = ScriptedProvider([calls(("everything", {})), says("done")])
        given = runner.secrets
        async with Runner(root=tmp_path, store="none", provider=provider, tools=[everything], secrets=given) as own:
            await own.run(OWN, "What?")
        made.extend(results(provider.requests[-1].messages[-1]))
        return 0

    monkeypatch.setattr("run_specialist.mcp_server.server.serve", serve)
    words = ["mcp", "--http", "127.0.0.1:0", "--store", "none", "--root", str(tmp_path), "--token", SECRETS["given"]]
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(manage.app, words).exit_code == 0
    assert len(made) == 2
    assert values_with_secret(SECRETS["given"], made[1]) == []
