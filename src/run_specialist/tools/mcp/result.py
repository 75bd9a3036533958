"""Conversion of an MCP tool result to text for the model."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ToolError
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from mcp.types import CallToolResult

LONGEST_RESULT = 2_000_000
"""Maximum length of a result; the rest is dropped to save memory and storage [characters]."""


def text_of(result: "CallToolResult") -> str:
    """Return the text of a result, with a placeholder line for each part that is not text.

    Raises ToolError with this text if the server reports that the call failed.
    """
    parts = [_block_text(block.model_dump(mode="json", by_alias=True, exclude_none=True)) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(block.type == "text" for block in result.content):
        parts.insert(0, json.dumps(structured, ensure_ascii=False))
    text = _truncated("\n".join(parts))
    if result.is_error:
        raise ToolError(text or "the server does not tell why")
    return text


def _block_text(block: Mapping[str, Any]) -> str:
    kind = block["type"]
    if kind == "text":
        return str(block["text"])
    if kind in {"image", "audio"}:
        return _placeholder(f"{kind}, {_label(block.get('mimeType'))}", block.get("data"))
    if kind == "resource_link":
        about = [block.get("title") or block.get("name"), block.get("description"), block.get("uri")]
        return f"[resource: {', '.join(_label(word) for word in about if word)}]"
    resource = block.get("resource", {})
    if "text" in resource:
        return f"[resource: {_label(resource.get('uri'))}]\n{resource['text']}"
    return _placeholder(
        f"resource {_label(resource.get('uri'))}, {_label(resource.get('mimeType'))}", resource.get("blob")
    )


def _placeholder(what: str, data: object) -> str:
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return f"[left out, since only text is read: {what}{size}]"


def _label(word: object) -> str:
    return shown(str(word)) if word else "of an unknown kind"


def _truncated(text: str) -> str:
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n[{len(text) - LONGEST_RESULT:,} more characters were not kept]"
