"""MCP tools: names and schemas that model APIs accept, the text of results, and servers behind a URL."""

import json
import logging
import re
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import CallToolResult, ImageContent, TextContent
from mcp.types import Tool as ListedTool

from run_specialist.errors import ToolError
from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp import LONGEST_DESCRIPTION, fit_schema, replace_lone_surrogates, tool_name, tools_of
from run_specialist.tools.mcp_session import LONGEST_RESULT, text_of
from tests.wire.mcp_servers.running_servers import connected
from tests.wire.mcp_servers.web import good_web, raw_web

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def made(server: str, *listed: str, description: str = "", taken: set[str] | None = None) -> dict[str, Tool]:
    """Return the tools of a server that lists these names, by them."""

    async def call(called: str, /, **_: object) -> str:
        return called

    tools = [ListedTool(name=name, description=description, input_schema=EMPTY) for name in listed]
    return dict(tools_of(server, call, tools, set() if taken is None else taken))


@given(st.lists(st.text(max_size=80), min_size=1, max_size=20))
def test_tool_names_are_unique_and_valid(called):
    """Any server tool names become unique names of at most 64 letters, digits, `_` and `-`, each mapped to its tool."""
    tools = made("server", *called)
    names = [one.name for one in tools.values()]
    assert len(set(names)) == len(names)
    assert tools.keys() == set(called)
    assert all(re.fullmatch(r"mcp__server__[A-Za-z0-9_-]*", name) and len(name) <= 64 for name in names)


def test_tool_names_do_not_depend_on_the_order_of_the_list():
    """Names do not depend on the order of the list, so a resumed run finds the same tools."""
    listed = ["a_b", "a.b", "x" * 99]
    there = {called: one.name for called, one in made("s", *listed).items()}
    assert {called: one.name for called, one in made("s", *listed[::-1]).items()} == there
    assert there["a.b"] == "mcp__s__a_b"
    assert re.fullmatch(r"mcp__s__a_b_[0-9a-f]{8}", there["a_b"])


def test_two_servers_never_share_a_name():
    """Tool `b__c` of server `a` and tool `c` of server `a__b` get different names."""
    taken: set[str] = set()
    (first,) = made("a", "b__c", taken=taken).values()
    (second,) = made("a__b", "c", taken=taken).values()
    assert first.name == "mcp__a__b__c" != second.name
    assert taken == {first.name, second.name}


def test_descriptions_are_never_empty_nor_endless():
    """The name replaces a missing description, and a very long description is cut."""
    (bare,) = made("s", "look").values()
    (long,) = made("s", "look", description="x" * 50_000).values()
    assert (bare.description, len(long.description)) == ("look", LONGEST_DESCRIPTION)
    assert tool_name("s", "look") == "mcp__s__look"


GOOD = [
    EMPTY,
    {"type": "object", "properties": {"a": {"type": "string", "description": "A"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"enum": [1, 2]}}},
    {"type": "object", "properties": {}, "additionalProperties": True},
]


@pytest.mark.parametrize("schema", GOOD)
def test_a_valid_schema_is_unchanged(schema):
    """A schema that model APIs accept is unchanged."""
    assert fit_schema(schema) == (schema, "")


@pytest.mark.parametrize(
    ("schema", "fit", "lost"),
    [
        ({}, EMPTY, {}),
        ({"type": "object", "properties": None}, EMPTY, {}),
        ({"$schema": "http://json-schema.org/draft-07/schema#", **EMPTY}, EMPTY, {}),
        ({"anyOf": [{"required": ["a"]}], **EMPTY}, EMPTY, {"anyOf": [{"required": ["a"]}]}),
    ],
)
def test_the_top_level_of_a_schema_becomes_an_object(schema, fit, lost):
    """The top level of a schema becomes a plain object."""
    made, told = fit_schema(schema)
    assert made == fit
    assert json.loads(told.partition("Schema: ")[2] or "{}") == lost


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a b": {"type": "string"}}},
        {"type": "object", "properties": {}, "required": "a"},
        {"type": "object", "properties": {"a": {"description": "x" * 200_000}}},
    ],
)
def test_a_schema_that_apis_refuse_moves_to_the_description(schema):
    """A schema that model APIs would refuse moves to the description."""
    made, told = fit_schema(schema)
    assert made == EMPTY
    assert told.startswith("The arguments are held against this JSON Schema: {")
    assert len(told) < LONGEST_DESCRIPTION + 100


def result(*content: Any, **more: Any) -> CallToolResult:
    """Return the result of a server's tool."""
    return CallToolResult(content=list(content), **more)


def test_text_blocks_are_joined_unchanged():
    """Text blocks are joined by a line break and otherwise unchanged, including their line ends."""
    assert text_of(result(TextContent(type="text", text="a\r\n"), TextContent(type="text", text="b"))) == "a\r\n\nb"
    assert text_of(result()) == ""


def test_structured_content_is_shown_only_without_text():
    """Structured content is shown only if a result has no text, because it repeats the text."""
    assert text_of(result(structured_content={"owls": "ü"})) == '{"owls": "ü"}'
    image = ImageContent(type="image", data="QUJD", mime_type="image/png")
    told = text_of(result(image, structured_content={"owls": 3}))
    assert told == '{"owls": 3}\n[left out, since only text is read: image, image/png, 3 bytes]'
    assert text_of(result(TextContent(type="text", text="three"), structured_content={"owls": 3})) == "three"


def test_a_result_of_hundreds_of_megabytes_is_cut():
    """A result that is too large is cut, with a final line that gives the number of characters omitted."""
    text = text_of(result(TextContent(type="text", text="x" * (LONGEST_RESULT + 1234))))
    assert text == "x" * LONGEST_RESULT + "\n[1,234 more characters were not kept]"


def test_a_server_error_is_a_tool_error():
    """A server error is a ToolError with the server's text, or a default text if it has none."""
    with pytest.raises(ToolError, match=r"^no owls$"):
        text_of(result(TextContent(type="text", text="no owls"), is_error=True))
    with pytest.raises(ToolError, match="does not tell why"):
        text_of(result(is_error=True))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'"\ud83d\uDE00"', "\U0001f600"),
        (rb'"cut \ud83d"', "cut \ufffd"),
        (rb'"\uDE00 cut"', "\ufffd cut"),
        (rb'"\ud83d\u0041"', "\ufffdA"),
        (rb'"\\ud83d"', r"\ud83d"),
        (rb'"\\\ud83d"', "\\\ufffd"),
    ],
)
def test_only_lone_surrogates_are_replaced(line, text):
    """Lone surrogates are replaced; pairs, other escapes and escaped backslashes stay unchanged."""
    assert json.loads(replace_lone_surrogates(line)) == text


@pytest.fixture
def raw():
    """Start a raw HTTP server."""
    with raw_web() as server:
        yield server


@pytest.mark.exhaustive
async def test_a_real_server_answers_over_http(tmp_path, capfd):
    """A real server answers calls over HTTP, and nothing reaches the terminal."""
    with good_web() as (url, process):
        async with connected(tmp_path, ServerConfig("good", url=url)) as one:
            assert one.warnings == ()
            assert one.tools["add"].name == "mcp__good__add"
            assert await one.call("add", a=1, b=2) == "3"
            assert (await one.call("fail")).startswith("ToolError: Error executing tool fail")
            assert await one.call("slow", within=0.2, seconds=60) == "nothing"
            assert await one.call("add", a=1, b=3) == "4"
            process.kill()
            process.wait()
            assert (await one.call("add", a=1, b=2)).startswith("ToolError: the server ended before it answered: ")
            assert "could not be started again" in await one.call("add", a=1, b=2)
    assert capfd.readouterr() == ("", "")


async def test_requests_have_the_configured_headers(tmp_path, monkeypatch, raw):
    """Every request has the configured headers, with variables expanded in headers and URL."""
    monkeypatch.setenv("KEY", "geheim")
    server = ServerConfig("raw", url=f"{raw.url}/plain?key=${{KEY}}", headers=(("X-Key", "${KEY}"),))
    async with connected(tmp_path, server) as one:
        assert await one.call("look") == "seen"
    assert {headers["X-Key"] for headers, _ in raw.seen} == {"geheim"}
    assert "geheim" not in str(one.warnings)


@pytest.mark.exhaustive
async def test_an_answer_sent_as_an_event_may_be_large(tmp_path, raw):
    """A single server-sent event may hold 5 MB."""
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/events")) as one:
        assert await one.call("look") == "x" * 2_000_000 + "\n[3,000,000 more characters were not kept]"


@pytest.mark.exhaustive
async def test_loopback_requests_bypass_the_proxy(tmp_path, monkeypatch, raw):
    """Loopback requests bypass any proxy that the environment sets."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/plain")) as one:
        assert await one.call("look") == "seen"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("401", "Server returned an error response (HTTP 401 Unauthorized)"),
        ("html", "Unexpected content type: text/html"),
        ("json", "Failed to parse JSON response"),
        ("huge", "Failed to parse JSON response: it is larger than 10 MiB"),
        ("gzip", "StreamError: its answer is compressed, which was not asked for"),
        ("hang", "it did not tell its tools within 0.5 seconds"),
    ],
)
async def test_a_url_that_is_no_mcp_server_causes_a_warning(tmp_path, raw, how, why, capfd, monkeypatch):
    """A URL that is not an MCP server causes a one-line warning with the response that was received.

    The library's error log with a traceback does not reach stderr if logging is not configured.
    """
    server = ServerConfig("raw", url=f"{raw.url}/{how}", timeout=0.5 if how == "hang" else 30)
    with monkeypatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])
        async with connected(tmp_path, server) as one:
            assert one.warnings == (f"mcp_servers: raw: {why}; the run continues without its tools",)
            assert one.tools == {}
    assert capfd.readouterr() == ("", "")


async def test_an_unreachable_url_causes_a_warning(tmp_path):
    """A closed port and invalid ports each cause a warning."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    urls = [f"http://127.0.0.1:{port}/mcp", "http://127.0.0.1:99999/mcp", "http://127.0.0.1:x/"]
    async with connected(tmp_path, *(ServerConfig(f"s{number}", url=url) for number, url in enumerate(urls))) as one:
        assert [warning.split(": ")[2] for warning in one.warnings] == ["ConnectError", "OverflowError", "InvalidURL"]


@pytest.mark.exhaustive
async def test_a_forgotten_session_is_restarted_without_an_error(tmp_path, raw):
    """If the server has forgotten the session, the call is repeated once in a new session."""
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/forgets")) as one:
        assert await one.call("look") == "seen"
    assert [asked["method"] for _, asked in raw.seen].count("initialize") == 2
    async with connected(tmp_path, ServerConfig("raw", url=f"{raw.url}/forgetful")) as one:
        assert await one.call("look") == "ToolError: the server forgets who asks between one request and the next"
