"""Each regular peer of the benchmark runs against the benchmark's server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.command import main
from bench.lap import measure
from bench.server.cache import Cache, Input
from bench.server.http import Connection
from bench.server.refusal import Refused
from bench.server.rules import check
from bench.server.service import Service

PEERS = ["bare", "bare_aio", "bytes_aio", "tool_runner", "ours", "ours_stored"]


@asynccontextmanager
async def served() -> AsyncIterator[tuple[str, Service]]:
    """Run the benchmark's server on the loopback interface."""
    service = Service()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", service
    finally:
        server.close()


@pytest.fixture
def _own_folder(tmp_path, monkeypatch):
    """Use an empty working directory, and restore the environment variables that a peer sets."""
    monkeypatch.chdir(tmp_path)
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("_own_folder")
@pytest.mark.parametrize("peer", PEERS)
async def test_each_peer_sends_one_request_per_call(peer: str):
    """Each peer sends one request per call and one for the answer, and none is refused."""
    async with served() as (url, service):
        measured = await measure(peer, "calls", {"url": url, "run": "it", "calls": [2, 4]})
        told = service.statistics("it-")
    assert measured["answered"]
    assert [run["calls"] for run in measured["runs"]] == [2, 4]
    assert {name: tally["requests"] for name, tally in told.items()} == {"it-warm": 4, "it-2": 3, "it-4": 5}
    assert not any(tally["refusals"] for tally in told.values())


@pytest.mark.exhaustive
@pytest.mark.usefixtures("_own_folder")
async def test_children_and_a_landing_are_measured():
    """All children answer; with a limit of 3, a model that wants 9 calls makes 3."""
    async with served() as (url, _):
        given = {"url": url, "run": "many", "children": 4, "calls": 2, "delay": 1}
        many = await measure("ours", "children", given)
        how = {"limit": 3, "landing": "order", "wants": 9, "models": [{"abreast": 2}, {"obeys": 1}]}
        landed = await measure("ours", "landing", {"url": url, "run": "end", **how})
    assert many["answered"]
    assert many["memory"] > 1
    assert landed["runs"] == [{"answers": 1, "calls": 3}] * 2


@pytest.mark.exhaustive
def test_a_quick_benchmark_prints_tables_and_writes_json(tmp_path, capsys):
    """A quick benchmark of one figure prints its tables and writes all measurements to a JSON file."""
    assert main(["--quick", "--only", "commands", "--json", str(tmp_path / "all.json")]) == 0
    out = capsys.readouterr().out
    assert "`run-specialist --help`, CPU" in out
    assert "failed" not in out
    assert "Search in notes" not in out
    told = json.loads((tmp_path / "all.json").read_text())
    assert told["series"]["commands.help.heavy"] == [0]
    assert {row["met"] for row in told["rows"]} == {None, True}


# The benchmark's server is as strict as the API, and computes cache savings by the documented rules.
MARK = {"cache_control": {"type": "ephemeral"}}
TOKENS = 2000


def text(words: str = "x", tokens: int = TOKENS, **more):
    """Return a text block of a given number of tokens."""
    empty = len('{"type":"text","text":""}')
    return {"type": "text", "text": (words * 4 * tokens)[: 4 * tokens - empty], **more}


def use(call: str):
    """Return a tool call."""
    return {"type": "tool_use", "id": call, "name": "look", "input": {}}


def result(call: str):
    """Return the result of a tool call."""
    return {"type": "tool_result", "tool_use_id": call, "content": "seen"}


def user(*content):
    """Return a user message."""
    return {"role": "user", "content": list(content)}


def assistant(*content):
    """Return an assistant message."""
    return {"role": "assistant", "content": list(content)}


def request(*messages, **more):
    """Return a request with a tool."""
    tools = [{"name": "look", "input_schema": {}}]
    return {"model": "claude-sonnet-4-6", "max_tokens": 9, "tools": tools, "messages": list(messages), **more}


def bare(*messages, **more):
    """Return a request without tools, so that its size is that of its messages."""
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


def test_cached_tokens_are_billed_at_a_tenth():
    """A growing conversation is billed 1.25 for new tokens and 0.1 for cached ones; without a marker the full price."""
    cache = Cache()
    assert [cache.account(bare(user(text()))) for _ in range(2)] == [Input(TOKENS)] * 2
    first = user(text("a"))
    assert cache.account(bare(first, **MARK)) == Input(0, TOKENS, 0)
    came = cache.account(bare(first, assistant(text("b")), user(text("c")), **MARK))
    assert came == Input(0, 2 * TOKENS, TOKENS)
    assert came.billed == pytest.approx(1.25 * 2 * TOKENS + 0.1 * TOKENS)
    # A marker on fewer than 1,024 tokens has no effect.
    assert [cache.account(bare(user(text(tokens=1023)), **MARK)) for _ in range(2)] == [Input(1023)] * 2


@pytest.mark.parametrize(("blocks", "read"), [(19, TOKENS), (20, 0)])
def test_a_write_is_found_twenty_blocks_back(blocks: int, read: int):
    """A cache write is found up to 20 blocks back, including the marker's own block."""
    cache = Cache()
    cache.account(bare(user(text("a")), **MARK))
    more = [{"type": "text", "text": "b" * 40}] * blocks
    assert cache.account(bare(user(text("a"), *more), **MARK)).read == read


FORCED = {"tool_choice": {"type": "tool", "name": "look"}}
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}


@pytest.mark.parametrize("option", [FORCED, FORMAT, {**FORMAT, "tool_choice": {"type": "none"}}])
def test_a_forced_choice_or_a_schema_loses_the_messages_and_keeps_the_system_prompt(option):
    """A changed `tool_choice` or format invalidates cached messages, but not the cached system prompt."""
    cache = Cache()
    system = [text("s", **MARK)]
    asked = [user(text("a"))]
    cache.account(request(*asked, system=system, **MARK))
    kept = cache.account(request(*asked, system=system, **option))
    tools = len('{"name":"look","input_schema":{}}') // 4
    assert kept == Input(TOKENS, 0, TOKENS + tools)
    cache.account(request(*asked, system=system, **MARK))
    assert cache.account(request(*asked, system=[text("t", **MARK)], **MARK)).read == 0


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (request(), "at least one message"),
        (request(user(text()), assistant(text())), "prefill"),
        (request(user(text()), assistant(use("1"), use("2")), user(result("1"))), "immediately after.*2"),
        (request(user(text()), assistant(use("1")), user(text(), result("1"))), "must come first"),
        (request(user(text()), tool_choice={"type": "any"}, thinking={"type": "enabled"}), "Thinking"),
    ],
)
def test_an_invalid_request_is_refused(wrong, why: str):
    """A request that the API refuses is refused with the reason; one that it accepts passes the check."""
    check(request(user(text()), assistant(use("1"), use("2")), user(result("2"), result("1"), text())))
    with pytest.raises(Refused, match=why):
        check(wrong)
