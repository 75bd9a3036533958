"""docs/agents.md matches the MCP server: its numbers, its tools, its command."""

from run_specialist.mcp_server import http as access_token
from run_specialist.mcp_server import runs, server, tools
from run_specialist.mcp_server.tools import Catalogue
from tests.docs.markdown import named, page, table

TEXT = page("agents")


def test_the_tools_are_documented_with_their_arguments_and_results():
    """The table of tools, with arguments and results, matches the server."""
    rows = {row[0].strip("`"): row for row in table(TEXT, "## The tools of the server")}
    for tool in tools.run_tools(Catalogue({}, ())):
        _, arguments, result = rows[tool.name]
        assert named(arguments) == [*tool.input_schema["properties"]]
        assert result == "the same" or named(result) == [*tool.output_schema["properties"]]
    assert [*rows][1:] == [*tools.RESERVED]


def test_documented_numbers_equal_those_of_the_code():
    """Seconds, sizes and counts in the docs are those of the code, even where a line break splits them."""
    words = " ".join(TEXT.split())
    assert f"Without news for {runs.HEARTBEAT:.0f} seconds" in words
    assert f"waits up to {tools.LONGEST_WAIT} seconds" in words
    assert f"At most {runs.MOST_AT_WORK} runs" in words
    assert f"may have {access_token.LONGEST_BODY // 1024**2} MiB" in words
    times = access_token.CLIENT_TIMEOUT
    assert f"body of a request within {times:.0f} to {2 * times:.0f} seconds" in words
    assert f"At most {access_token.MOST_CONNECTIONS} connections" in words
    assert f"expires after {access_token.IDLE // 60} minutes" in words
    assert f"Beyond {access_token.MOST_SESSIONS:,} sessions" in words
    assert f"the file `{access_token.FILE}`" in words
    assert server.LONGEST_LINE == access_token.LONGEST_BODY
    assert f"cut after {tools.LONGEST_NAME} characters" in words
