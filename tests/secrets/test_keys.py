"""API keys never appear in any output, even if a server repeats them; the keys have no well-known format."""

import logging
import sqlite3
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from run_specialist import Runner, Specialist
from run_specialist.cli import ask, manage
from run_specialist.errors import UsageError
from run_specialist.providers.choose import make_provider
from tests.secrets.canaries import PIECE, stored, values_with_secret
from tests.secrets.echo import SHAPES, Echo, serving
from tests.spans import recorded

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


@pytest.mark.anyio
@pytest.mark.parametrize("variable", ENDPOINTS)
@pytest.mark.parametrize("streamed", [False, True])
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


@pytest.mark.anyio
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
