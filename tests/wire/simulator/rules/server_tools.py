"""Rules on tools that the API runs itself: their definitions, and their blocks that are sent back."""

from collections.abc import Iterator
from typing import Any

from tests.wire.simulator.memory import SERVER_RESULT, is_sealed
from tests.wire.simulator.prompt import canonical

from .base import Call, Table
from .options import is_int

_COMMON = {"type", "name", "max_uses", "allowed_domains", "blocked_domains", "cache_control", "defer_loading"}
_SEARCH = {*_COMMON, "user_location", "strict", "allowed_callers"}
_FETCH = {*_COMMON, "citations", "max_content_tokens", "strict", "allowed_callers", "url_sources"}
VERSIONS: dict[str, tuple[str, set[str]]] = {
    "web_search_20250305": ("web_search", _SEARCH),
    "web_search_20260209": ("web_search", _SEARCH),
    "web_search_20260318": ("web_search", {*_SEARCH, "response_inclusion"}),
    "web_fetch_20250910": ("web_fetch", _FETCH),
    "web_fetch_20260209": ("web_fetch", _FETCH),
    "web_fetch_20260309": ("web_fetch", {*_FETCH, "use_cache"}),
    "web_fetch_20260318": ("web_fetch", {*_FETCH, "use_cache", "response_inclusion"}),
}
"""Known types of tools, each with its name and the fields of its definition."""
RULES_ON_TOOLS = Table()


@RULES_ON_TOOLS.rule("server_tools.type")
def kind(call: Call) -> Iterator[str]:
    """Refuse tools of an unknown type, and an enabled tool under another name."""
    for where, tool in _tools(call):
        known = VERSIONS.get(tool["type"])
        if known is None:
            yield f"{where}: Input tag '{tool['type']}' found using 'type' does not match any of the expected tags"
        elif tool["name"] != known[0]:
            yield f"{where}.{tool['type']}.name: Input should be '{known[0]}'"


@RULES_ON_TOOLS.rule("server_tools.fields")
def fields(call: Call) -> Iterator[str]:
    """Require the fields of the version and no others."""
    for where, tool in _tools(call):
        for name in tool:
            if name not in VERSIONS[tool["type"]][1]:
                yield f"{where}.{tool['type']}.{name}: Extra inputs are not permitted"


@RULES_ON_TOOLS.rule("server_tools.bounds")
def bounds(call: Call) -> Iterator[str]:
    """Require numbers above zero."""
    for where, tool in _tools(call):
        for name in ("max_uses", "max_content_tokens"):
            if tool.get(name) is not None and (not is_int(tool[name]) or tool[name] < 1):
                yield f"{where}.{tool['type']}.{name}: Input should be greater than 0"


@RULES_ON_TOOLS.rule("server_tools.domains")
def domains(call: Call) -> Iterator[str]:
    """Take one list of domains, without their scheme."""
    for where, tool in _tools(call):
        lists = [name for name in ("allowed_domains", "blocked_domains") if tool.get(name) is not None]
        if len(lists) > 1:
            yield f"{where}: Only one of allowed_domains and blocked_domains may be given"
        for name in lists:
            if not isinstance(tool[name], list) or any("://" in str(one) for one in tool[name]):
                yield f"{where}.{tool['type']}.{name}: Domains must be given without a scheme"


RULES_ON_BLOCKS = Table()


@RULES_ON_BLOCKS.rule("server_results.role")
def side(call: Call) -> Iterator[str]:
    """Keep the results of the API's tools to the assistant."""
    for where, role, block in call.blocks():
        if role == "user" and _is_result(block):
            yield f"{where}: `{block['type']}` blocks can only be in `assistant` messages"


@RULES_ON_BLOCKS.rule("server_results.pairs")
def pairs(call: Call) -> Iterator[str]:
    """Require a use before each result, and one result for it."""
    waiting: set[str] = set()
    for where, _, block in call.blocks():
        if block["type"] == "server_tool_use":
            waiting.add(block["id"])
        elif _is_result(block):
            if block.get("tool_use_id") not in waiting:
                yield (
                    f"{where}: unexpected `tool_use_id` found in `{block['type']}` blocks: {block.get('tool_use_id')}. "
                    f"Each `{block['type']}` block must have a corresponding `server_tool_use` block before it."
                )
            waiting.discard(block.get("tool_use_id", ""))


@RULES_ON_BLOCKS.rule("server_results.order")
def order(call: Call) -> Iterator[str]:
    """Refuse a result behind a call of the caller in the same message."""
    for index, _, blocks in call.turns:
        calls: list[str] = []
        for block in blocks:
            calls += [block["id"]] if block["type"] == "tool_use" else []
            if calls and _is_result(block):
                yield (
                    f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    f"{', '.join(calls)}."
                )


@RULES_ON_BLOCKS.rule("server_results.missing")
def missing(call: Call) -> Iterator[str]:
    """Require a result of each use, unless the API is to run it now."""
    answered = {block.get("tool_use_id") for _, _, block in call.blocks() if _is_result(block)}
    offered = {tool["name"] for tool in call.body.get("tools", ())}
    last, who, blocks = call.turns[-1]
    only_results = who == "user" and all(block["type"] == "tool_result" for block in blocks)
    still_open = last if who == "assistant" else last - 1 if only_results else None
    for index, _, content in call.turns:
        for block in content:
            if block["type"] != "server_tool_use" or block["id"] in answered:
                continue
            name = block["name"]
            if index != still_open:
                yield (
                    f"messages.{index}: `{name}` tool use with id `{block['id']}` was found without a corresponding "
                    f"`{name}_tool_result` block"
                )
            elif name not in offered:
                yield f"messages.{index}: `{name}` is to be run, but no `{name}` tool was provided"


@RULES_ON_BLOCKS.rule("server_results.unchanged")
def unchanged(call: Call) -> Iterator[str]:
    """Require the blocks of the API's tools as it has sent them."""
    for where, _, block in call.blocks():
        sent = call.memory.server_block(block)
        if sent is not None and sent != canonical(block):
            yield f"{where}: the content of `{block['type']}` blocks cannot be modified"
        found: list[dict[str, Any]] = block["content"] if block["type"] == "web_search_tool_result" else []
        for one in found if isinstance(found, list) else ():
            if not is_sealed(one):
                yield f"{where}: Invalid `encrypted_content` in `web_search_result` block"


def _tools(call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, tool in enumerate(call.body.get("tools", ())):
        if tool.get("type") not in (None, "custom"):
            yield f"tools.{index}", tool


def _is_result(block: dict[str, Any]) -> bool:
    return block["type"] != "tool_result" and SERVER_RESULT.fullmatch(block["type"]) is not None
