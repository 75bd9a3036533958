"""Keys for MCP servers never appear in any output, even if the server repeats them; the keys have no known format."""

import logging
import sys
from typing import Any

import pytest

from run_specialist import Runner, Specialist
from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.mcp_server.http import Guard
from run_specialist.record.outcome import Outcome
from run_specialist.safety.credentials import MASK
from run_specialist.specialist.mcp_servers import ServerConfig, without_secrets
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.secrets.canaries import stored, values_with_secret
from tests.secrets.echo import EchoOfTools, serving

KEY = "zebra-cardigan-lamplight-quokka"
DIES = "import os, sys; sys.exit('so ' * int(sys.argv[1]) + 'cannot log in with ' + os.environ['API_TOKEN'])"


async def ask(folder: Any, server: dict[str, Any], *, calling: bool) -> tuple[Outcome, list[object]]:
    """Run a specialist with a server; return its outcome, and all output of the run."""
    own = Specialist(name="finder", description="", prompt="You look.", tools=None, mcp_servers={"s": server})
    provider = ScriptedProvider([*([calls(("mcp__s__look", {}))] if calling else []), says("done")])
    told: list[object] = []
    async with Runner(root=folder, store=str(folder / "runs.db"), provider=provider) as runner:
        outcome = await runner.run(own, "What?", listener=told.append)
    provider.assert_used_up()
    requests = [message.encoded.decode() for asked in provider.requests for message in asked.messages]
    return outcome, [*told, outcome, outcome.as_json(), *requests, provider.opening, own, runner, *stored(folder)]


@pytest.mark.anyio
@pytest.mark.parametrize("value", [KEY, "${FROM_OUTSIDE}"])
@pytest.mark.parametrize("words", [1, 84, 90, 93])
async def test_a_key_in_the_last_line_of_a_failing_server_is_masked(tmp_path, monkeypatch, value, words):
    """The key is masked in the last line of a failing server, even if the line is truncated within the key."""
    monkeypatch.setenv("FROM_OUTSIDE", KEY)
    server = {"command": [sys.executable, "-c", DIES, str(words)], "env": {"API_TOKEN": value}}
    outcome, told = await ask(tmp_path, server, calling=False)
    assert "so cannot log in with"[: 300 - 3 * words] in str(outcome.warnings)
    assert values_with_secret(KEY, *told) == []


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.anyio
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
            outcome, told = await ask(tmp_path, {"url": f"{server.url}/{how}", "headers": headers}, calling=calling)
            assert values_with_secret(KEY, *told) == [], how
            assert calling or MASK in str(outcome.warnings)
        sent = [value for told, _ in server.seen for value in told.values()]
    assert any(KEY in value for value in sent)
    assert (
        values_with_secret(KEY, *(one.getMessage() for one in caplog.records if one.name.startswith("run_specialist")))
        == []
    )


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["{}/401?key=KEY", "{}/html?token=KEY", "http://me:KEY@127.0.0.1:9/mcp"])
async def test_the_password_and_query_of_a_server_url_are_not_shown(tmp_path, url):
    """If the server cannot be reached, the warning contains neither the password nor the query of its URL."""
    with serving(EchoOfTools) as server:
        outcome, told = await ask(tmp_path, {"url": url.format(server.url).replace("KEY", KEY)}, calling=False)
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
