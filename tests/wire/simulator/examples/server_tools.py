"""Examples for tools that the API runs itself."""

from typing import Any

from tests.wire.simulator.memory import encrypted
from tests.wire.simulator.prompt import Block

from .base import TOOLS, Body, Example, assistant, call, chat, result, user, words

SEARCH: Block = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
FETCH: Block = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 3}
USE: Block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "owls"}}


def offered(**fields: Any) -> Body:
    """Return a request with the search, whose definition has these fields."""
    return chat(tools=[*TOOLS, {**SEARCH, **fields}])


def found(**fields: Any) -> Block:
    """Return the result of the search, whose entry has these fields."""
    one = {"type": "web_search_result", "title": "Owls", "url": "https://example.com"}
    entry = {**one, "encrypted_content": encrypted(one), **fields}
    return {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [entry]}


def searched(*messages: Body) -> Body:
    """Return a request with the search and these messages behind the question."""
    return chat(*messages, tools=[*TOOLS, SEARCH])


GOOD = searched(assistant(USE, found(), words("Mice.")), user("And?"))
RUNNING = searched(assistant(USE, call()), user(result()))

PAIRS: list[tuple[str, str, Body, Body]] = [
    ("server_tools.type", "does not match any of", offered(type="web_search_20991231"), offered()),
    ("server_tools.type", "'web_search'", offered(name="search_web"), offered()),
    ("server_tools.fields", "use_cache: Extra inputs", offered(use_cache=True), offered(user_location=None)),
    ("server_tools.bounds", "max_uses: Input should be greater than 0", offered(max_uses=0), offered(max_uses=1)),
    (
        "server_tools.domains",
        "without",
        offered(allowed_domains=["https://example.com"]),
        offered(allowed_domains=["example.com"]),
    ),
    (
        "server_tools.domains",
        "Only one of",
        offered(allowed_domains=["example.com"], blocked_domains=["example.org"]),
        offered(blocked_domains=["example.org"]),
    ),
    ("server_results.role", "only be in `assistant`", searched(user(found())), GOOD),
    ("server_results.pairs", "before it", searched(assistant(found(), USE), user("And?")), GOOD),
    ("server_results.pairs", "before it", searched(assistant(USE, found(), found()), user("And?")), GOOD),
    ("server_results.order", "immediately after", searched(assistant(USE, call(), found()), user(result())), GOOD),
    ("server_results.missing", "without a corresponding", searched(assistant(USE), user("And?")), GOOD),
    ("server_results.missing", "was provided", chat(assistant(USE, call()), user(result())), RUNNING),
    (
        "server_results.missing",
        "without a corresponding",
        searched(assistant(USE, call()), user(result(), "Hurry.")),
        RUNNING,
    ),
    (
        "server_results.unchanged",
        "Invalid `encrypted_content`",
        searched(assistant(USE, found(title="Bats")), user("And?")),
        GOOD,
    ),
]
EXAMPLES = [Example(rule, message, wrong, right) for rule, message, wrong, right in PAIRS]
