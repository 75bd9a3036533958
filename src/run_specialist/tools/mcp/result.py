"""What an MCP server answers to a call, as the text that a model reads."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ToolError
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from mcp.types import CallToolResult

LONGEST = 2_000_000
"""Characters of a result that are kept; the rest would only fill the memory and the store."""


def text_of(result: "CallToolResult") -> str:
    """Return the text of a result, and a line in place of all that is none.

    Raises ToolError with the text where the server says that the call failed.
    """
    parts = [_part(block.model_dump(mode="json", by_alias=True, exclude_none=True)) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(block.type == "text" for block in result.content):
        parts.insert(0, json.dumps(structured, ensure_ascii=False))
    text = _cut("\n".join(parts))
    if result.is_error:
        raise ToolError(text or "the server does not tell why")
    return text


def _part(block: Mapping[str, Any]) -> str:
    kind = block["type"]
    if kind == "text":
        return str(block["text"])
    if kind in {"image", "audio"}:
        return _left_out(f"{kind}, {_short(block.get('mimeType'))}", block.get("data"))
    if kind == "resource_link":
        about = [block.get("title") or block.get("name"), block.get("description"), block.get("uri")]
        return f"[resource: {', '.join(_short(word) for word in about if word)}]"
    resource = block.get("resource", {})
    if "text" in resource:
        return f"[resource: {_short(resource.get('uri'))}]\n{resource['text']}"
    return _left_out(
        f"resource {_short(resource.get('uri'))}, {_short(resource.get('mimeType'))}", resource.get("blob")
    )


def _left_out(what: str, data: object) -> str:
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return f"[left out, since only text is read: {what}{size}]"


def _short(word: object) -> str:
    return shown(str(word)) if word else "of an unknown kind"


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n[{len(text) - LONGEST:,} more characters were not kept]"
