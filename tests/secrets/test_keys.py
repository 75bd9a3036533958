"""API keys never appear in any output, even if a server repeats them; the keys have no well-known format."""

import base64
import json
import logging
import random
import sqlite3
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from run_specialist import Runner, Specialist, ToolError
from run_specialist.cli import ask, manage
from run_specialist.errors import UsageError
from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.mcp_server.http import Guard
from run_specialist.providers.choose import make_provider
from run_specialist.record.outcome import Outcome
from run_specialist.safety.credentials import MASK
from run_specialist.specialist.mcp_servers import ServerConfig, without_secrets
from tests.loop_jobs import results
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import write
from tests.secrets.canaries import PIECE, stored, values_with_secret
from tests.secrets.echo import SHAPES, Echo, EchoOfTools, serving
from tests.spans import recorded

pytestmark = pytest.mark.exhaustive

KEY = "zebra-cardigan-lamplight-quokka"
"""A key without a known format, which can only be masked by its value."""
FINDER = Specialist(name="finder", description="", prompt="You look.", tools=())
ENDPOINTS = {
    "ANTHROPIC_API_KEY": ("ANTHROPIC_BASE_URL", "sonnet"),
    "ANTHROPIC_AUTH_TOKEN": ("ANTHROPIC_BASE_URL", "sonnet"),
    "OPENAI_API_KEY": ("OPENAI_BASE_URL", "openai:x"),
}


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A server that repeats the key it received."""
    with serving(Echo) as server:
        yield server


@asynccontextmanager
async def runner_of(model: str, folder: Path) -> AsyncIterator[Runner]:
    """Open a runner as the command does, with a store and a provider that does not retry."""
    provider = make_provider(model)
    provider.client.max_retries = 0
    try:
        async with Runner(root=folder, store=f"sqlite:///{folder}/runs.db", provider=provider) as runner:
            yield runner
    finally:
        await provider.aclose()


@pytest.mark.parametrize(
    ("variable", "streamed"),
    [
        ("ANTHROPIC_API_KEY", True),
        ("ANTHROPIC_AUTH_TOKEN", False),
        *(("OPENAI_API_KEY", streamed) for streamed in (False, True)),
    ],
)
async def test_a_key_repeated_by_a_server_appears_nowhere(tmp_path, monkeypatch, caplog, echo, variable, streamed):
    """The server repeats the key in many formats; outcome, events, spans, store and log contain no piece of it."""
    address, model = ENDPOINTS[variable]
    monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv(address, echo.url)
    caplog.set_level(logging.DEBUG)
    said: list[object] = []
    with recorded() as spans:
        async with runner_of(model, tmp_path) as runner:
            for shape in SHAPES:
                echo.shape = shape
                watch = said.append if streamed else None
                outcome = await runner.run(FINDER, "What?", watch=watch, listener=said.append)
                assert outcome.status == "failed"
                said += [outcome, outcome.as_json(), outcome.error]
            said.append(runner)
    assert len(echo.heard) >= len(SHAPES)
    assert all(told == KEY for told in echo.heard)
    ours = [one for one in caplog.records if one.name.startswith("run_specialist")]
    said += [span.to_json() for span in spans.all if span.instrumentation_scope.name.startswith("run_specialist")]
    assert values_with_secret(KEY, *said, *(logging.Formatter().format(one) for one in ours), *stored(tmp_path)) == []


@pytest.mark.parametrize("flag", ["--json", "--events", "--quiet"])
def test_a_key_repeated_by_a_server_is_not_printed(tmp_path, monkeypatch, capfd, echo, flag):
    """No command prints the key, neither during the run nor from the store."""
    (tmp_path / "finder.md").write_text("---\nname: finder\ndescription: Finds\n---\nYou look.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", echo.url)
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    echo.shape = "cut at 200"
    printed = [CliRunner().invoke(ask.app, ["finder", "What?", "--dir", str(tmp_path), flag])]
    assert printed[0].exit_code == 3
    for command in ("runs", "transcript last", "report last", "report last --out -", "resume last"):
        as_json = [] if "--out" in command else ["--json"]
        printed.append(CliRunner().invoke(manage.app, [*command.split(), *as_json]))
    assert [one.exit_code for one in printed[1:]] == [0, 0, 0, 0, 3]
    told = [text for one in printed for text in (one.stdout, one.stderr)]
    assert values_with_secret(KEY, *told, *capfd.readouterr(), *stored(tmp_path)) == []


@pytest.mark.parametrize(("variable", "model"), [("ANTHROPIC", "sonnet"), ("OPENAI", "openai:x")])
@pytest.mark.parametrize(
    "url",
    [
        "http://me:{}@127.0.0.1:9",
        "http://{}@127.0.0.1:9",
        "http://me:a@{}@127.0.0.1:9",
        "http://127.0.0.1:9/?api-key={}",
        "http://127.0.0.1:9/#{}",
        "http://me:{}@127.0.0.1:odd",
    ],
)
async def test_the_password_and_query_of_a_base_url_are_not_shown(tmp_path, monkeypatch, variable, model, url):
    """For an unreachable or invalid URL, neither its password nor its query is in the error."""
    monkeypatch.setenv(f"{variable}_API_KEY", "another-key")
    monkeypatch.setenv(f"{variable}_BASE_URL", url.format(KEY))
    told: list[object] = []
    try:
        async with runner_of(model, tmp_path) as runner:
            outcome = await runner.run(FINDER, "What?", listener=told.append)
        told += [outcome, outcome.error]
    except UsageError as error:
        told.append(error)
        # A user name or password in the URL is refused.
        assert "@" in url
    assert values_with_secret(KEY, *told, *stored(tmp_path)) == []


def test_the_key_search_finds_pieces_in_texts_errors_and_stores(tmp_path):
    """The search finds a piece of the key in a text, in the cause of an error, and in a compressed store."""
    with closing(sqlite3.connect(tmp_path / "runs.db")) as store:
        store.execute("create table a (b)")
        store.execute("insert into a values (?)", (b"\1" + zlib.compress(f"{'x' * 99}{KEY}".encode()),))
        store.commit()
    error = UsageError("nothing")
    error.__cause__ = ValueError(KEY[5:])
    assert len(values_with_secret(KEY, "nothing", KEY[: PIECE - 1], f"a {KEY[3:17]} b", error, {"a": KEY})) == 3
    assert len(values_with_secret(KEY, *stored(tmp_path))) == 1


# Keys for MCP servers never appear in any output, even if the server repeats them; the keys have no known format.
DIES = "import os, sys; sys.exit('so ' * int(sys.argv[1]) + 'cannot log in with ' + os.environ['API_TOKEN'])"


async def ask_server(folder: Any, server: dict[str, Any], *, calling: bool) -> tuple[Outcome, list[object]]:
    """Run a specialist with a server; return its outcome, and all output of the run."""
    own = Specialist(name="finder", description="", prompt="You look.", tools=None, mcp_servers={"s": server})
    provider = ScriptedProvider([*([calls(("mcp__s__look", {}))] if calling else []), says("done")])
    told: list[object] = []
    async with Runner(root=folder, store=str(folder / "runs.db"), provider=provider) as runner:
        outcome = await runner.run(own, "What?", listener=told.append)
    provider.assert_used_up()
    requests = [message.encoded.decode() for asked in provider.requests for message in asked.messages]
    return outcome, [*told, outcome, outcome.as_json(), *requests, provider.opening, own, runner, *stored(folder)]


@pytest.mark.parametrize("value", [KEY, "${FROM_OUTSIDE}"])
@pytest.mark.parametrize("words", [1, 84, 90, 93])
async def test_a_key_in_the_last_line_of_a_failing_server_is_masked(tmp_path, monkeypatch, value, words):
    """The key is masked in the last line of a failing server, even if the line is truncated within the key."""
    monkeypatch.setenv("FROM_OUTSIDE", KEY)
    server = {"command": [sys.executable, "-c", DIES, str(words)], "env": {"API_TOKEN": value}}
    outcome, told = await ask_server(tmp_path, server, calling=False)
    assert "so cannot log in with"[: 300 - 3 * words] in str(outcome.warnings)
    assert values_with_secret(KEY, *told) == []


@pytest.mark.parametrize(
    "headers", [{"Authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}, {"authorization": "Owl ${FROM_OUTSIDE}"}]
)
async def test_a_key_repeated_by_a_server_is_masked(tmp_path, monkeypatch, caplog, headers):
    """The server repeats the key as a result, an error, a truncated text, its list of tools, or its initialization."""
    monkeypatch.setenv("FROM_OUTSIDE", KEY)
    caplog.set_level(logging.DEBUG)
    with serving(EchoOfTools) as server:
        for how in ("tells", "calls", "long", "lists", "begins"):
            calling = how in {"tells", "calls", "long"}
            outcome, told = await ask_server(
                tmp_path, {"url": f"{server.url}/{how}", "headers": headers}, calling=calling
            )
            assert values_with_secret(KEY, *told) == [], how
            assert calling or MASK in str(outcome.warnings)
        sent = [value for told, _ in server.seen for value in told.values()]
    assert any(KEY in value for value in sent)
    assert (
        values_with_secret(KEY, *(one.getMessage() for one in caplog.records if one.name.startswith("run_specialist")))
        == []
    )


@pytest.mark.parametrize("url", ["{}/401?key=KEY", "{}/html?token=KEY", "http://me:KEY@127.0.0.1:9/mcp"])
async def test_the_password_and_query_of_a_server_url_are_not_shown(tmp_path, url):
    """If the server cannot be reached, the warning contains neither the password nor the query of its URL."""
    with serving(EchoOfTools) as server:
        outcome, told = await ask_server(tmp_path, {"url": url.format(server.url).replace("KEY", KEY)}, calling=False)
    assert [warning for warning in outcome.warnings if warning != NOTHING_READ] == [outcome.warnings[0]]
    assert values_with_secret(KEY, *told) == []


def test_server_values_are_secret_by_the_name_of_their_key():
    """Values are secret by the name of their key, also without their scheme; paths, modes and authors are not."""
    env = (("API_TOKEN", "one two"), ("MODE", "production"), ("AUTHOR", "Ada Lovelace"), ("DB_PASSWORD", "p4"))
    server = ServerConfig("s", env=env)
    assert server.secrets == ("one two", "p4", "one", "two", "p4")
    web = ServerConfig(
        "s", url="https://me:a%20b@host/x?key=k1&page=2", headers=(("Authorization", "Bearer t"), ("A", "b"))
    )
    assert web.secrets == ("Bearer t", "k1", "Bearer", "t", "k1", "a%20b", "a b")


def test_repr_of_public_values_contains_no_secrets():
    """The `repr` of a specialist, a server configuration and a guard is safe to log."""
    url, pairs = f"https://me:{KEY}@host/a?key={KEY}&b={KEY}", {"X": KEY}
    entry = {"s": {"url": url, "headers": pairs, "env": [f"Y={KEY}"]}}
    own = Specialist(name="finder", description="", prompt="You look.", mcp_servers=entry)
    server = ServerConfig("s", url=url, headers=tuple(pairs.items()), env=tuple(pairs.items()))
    assert values_with_secret(KEY, own, server, f"{server}", Guard(KEY, None), without_secrets(entry)) == []


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("https://host/a?key=k1&b=2#c", f"https://host/a?key={MASK}&b={MASK}#c"),
        ("https://host/a?key=${KEY}&b=", "https://host/a?key=${KEY}&b="),
        ("https://host/a", "https://host/a"),
        ("a & b=c", "a & b=c"),
        ({"env": ["A=b", "${C}", None]}, {"env": [MASK, "${C}", None]}),
        ({"headers": "A: b"}, {"headers": MASK}),
        ({"env": {"A": 3, "B": "${B}"}}, {"env": {"A": MASK, "B": "${B}"}}),
    ],
)
def test_stored_server_settings_have_masked_values(said, kept):
    """Values are masked in every notation; references to variables and texts that are not URLs are kept."""
    assert without_secrets(said) == kept


# Credentials of the process and private keys in files are masked, whichever tool shows a part of them.
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
CREDENTIALS_KEY = "\n".join(
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


async def test_credentials_of_the_process_are_masked_by_value(tmp_path, monkeypatch):
    """Secrets of the process and of MCP servers are masked in results, errors and files, in every encoding."""
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
    (tmp_path / "a.md").write_text(f"# Owls\n\nowls eat mice\n\n{CREDENTIALS_KEY}\n\nthe owls' last line\n")
    (tmp_path / "b.json").write_text(json.dumps({"x": "y" * 600, "owls": CREDENTIALS_KEY, "z": "y" * 600}))
    (tmp_path / "c.txt").write_bytes(f"owls\n{CREDENTIALS_KEY}\nend\n".replace("\n", "\r\n").encode("utf-16"))
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


@pytest.mark.parametrize("tool", ["read", "grep", "search", "ls"])
async def test_no_tool_shows_a_piece_of_a_key(keys, tool):
    """Slices of lines, lines around a match and clipped lines contain no piece of the key."""
    script = [call for call in ALL if call[0] == tool]
    outcome, seen, _ = await run_once(keys, script)
    assert outcome.tool_calls.used == len(script)
    assert tool == "ls" or MASK in seen
    assert pieces(seen) == []


async def test_masking_a_key_keeps_line_numbers(keys):
    """Each line of the key is masked on its own line, and later lines keep their numbers."""
    _, seen, _ = await run_once(keys, [("read", {"path": "a.md", "offset": 5, "limit": 20})])
    lines = seen.split("\n")
    assert [line.split("\t")[0].strip() for line in lines[:14]] == [str(number) for number in range(5, 19)]
    assert lines[1].endswith(MASK)
    assert lines[13].endswith("the owls' last line")


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


async def test_a_key_in_a_file_name_is_masked(tmp_path):
    """The key is masked in a listing, as in a text."""
    token = "ghp_" + "a1B2" * 9
    (tmp_path / token).touch()
    _, seen, _ = await run_once(tmp_path, [("ls", {}), ("glob", {"pattern": "*"}), ("read", {"path": token[:-1]})])
    assert seen.count(token) == 0


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
