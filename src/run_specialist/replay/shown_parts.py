"""Format the parts of a request as text for a difference."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from run_specialist.record.blocks import Block, text_of


def definition_text(definition: Mapping[str, Any] | None) -> str:
    """Return the definition of a tool; empty if there is none."""
    if definition is None:
        return ""
    if "input_schema" not in definition:
        return json_text(definition)
    return f"{definition['name']}\n{definition['description']}\n{json_text(definition['input_schema'])}"


def json_text(value: object) -> str:
    """Return JSON values as text on several lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def blocks_text(role: str, blocks: Iterable[Block]) -> str:
    """Return a message as text."""
    return "\n".join(f"[{role}: {_label(block)}]\n{_body(block)}" for block in blocks)


def _label(block: Block) -> str:
    match block.get("type"):
        case "tool_use":
            return f"call {block.get('id')} of {block.get('name')}"
        case "tool_result":
            return f"{'error' if block.get('is_error') else 'result'} of {block.get('tool_use_id')}"
        case kind:
            return str(kind)


def _body(block: Block) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text"))
        case "tool_use":
            return json_text(block.get("input"))
        case "tool_result":
            content = block.get("content")
            return content if isinstance(content, str) else text_of(content)
        case _:
            return json_text(block)
