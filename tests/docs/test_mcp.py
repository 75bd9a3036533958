"""docs/mcp.md matches the server: its numbers, its tools, its command."""

import json
import shlex

from typer.testing import CliRunner

from run_specialist.cli import manage
from run_specialist.mcp_server import access_token, catalogue, http, run_tools, runs, server_limits, stdio
from run_specialist.mcp_server.catalogue import Catalogue
from run_specialist.mcp_server.http_connection import TimeLimits
from run_specialist.mcp_server.server_limits import ServerLimits
from tests.docs.markdown import ROOT, blocks, named, table

TEXT = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")


def test_every_command_and_snippet_starts_the_server():
    """Every command and snippet in the docs ends in the real command with existing flags."""
    printed = CliRunner().invoke(manage.app, ["mcp", "--help"]).stdout
    lines = [shlex.split(line) for block in blocks(TEXT, "console") for line in block.splitlines()]
    (snippet,) = [json.loads(block)["mcpServers"]["specialists"] for block in blocks(TEXT, "json")]
    started = [
        words for words in [*lines, [snippet["command"], *snippet["args"]]] if "mcp" in words and "specialists" in words
    ]
    starts = [words[len(words) - words[::-1].index("specialists") - 1 :] for words in started]
    flags = {word for words in starts if words[:2] == ["specialists", "mcp"] for word in words if word.startswith("--")}
    assert {"--http", "--root"} <= flags
    assert all(flag in printed for flag in flags)
    assert ["specialists", "mcp"] in starts


def test_the_tools_are_documented_with_their_arguments_and_results():
    """The table of tools, with arguments and results, matches the server."""
    rows = {row[0].strip("`"): row for row in table(TEXT, "## The tools")}
    for tool in run_tools.run_tools(Catalogue({}, ())):
        _, arguments, result = rows[tool.name]
        assert named(arguments) == [*tool.input_schema["properties"]]
        assert result == "the same" or named(result) == [*tool.output_schema["properties"]]
    assert [*rows][1:] == [*catalogue.RESERVED]


def test_documented_numbers_equal_those_of_the_code():
    """Seconds, sizes and counts in the docs are those of the code, even where a line break splits them."""
    words = " ".join(TEXT.split())
    assert f"Without news for {runs.HEARTBEAT:.0f} seconds" in words
    assert f"waits up to {run_tools.LONGEST_WAIT} seconds" in words
    assert f"At most {runs.MOST_AT_WORK} runs" in words
    assert f"may have {http.LONGEST_BODY // 1024**2} MiB" in words
    times = TimeLimits()
    assert f"{times.head:.0f} seconds for the head of a request and {times.body:.0f} seconds for its body" in words
    assert f"does not read its data for {times.unread:.0f} seconds" in words
    assert f"At most {server_limits.MOST_CONNECTIONS} connections" in words
    assert ServerLimits(connections=512).requests == 512 * 7 / 8, "seven eighths"
    assert f"expires after {server_limits.IDLE // 60} minutes" in words
    assert f"Beyond {server_limits.MOST_SESSIONS:,} sessions" in words
    assert f"the file `{access_token.FILE}`" in words
    assert stdio.LONGEST_LINE == http.LONGEST_BODY
    assert f"cut after {catalogue.LONGEST_NAME} characters" in words
