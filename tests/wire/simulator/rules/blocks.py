"""Rules on single content blocks."""

import re
from collections.abc import Iterator
from typing import Any

from tests.wire.simulator.memory import SERVER_RESULT
from tests.wire.simulator.prompt import as_blocks

from .base import Call, Table
from .tools import NAME

FIELDS: dict[str, dict[str, bool]] = {
    "text": {"text": True, "citations": False, "cache_control": False},
    "thinking": {"thinking": True, "signature": True, "cache_control": False},
    "redacted_thinking": {"data": True, "cache_control": False},
    "tool_use": {
        "id": True,
        "name": True,
        "input": True,
        "caller": False,
        "toolset_name": False,
        "cache_control": False,
    },
    "tool_result": {
        "tool_use_id": True,
        "content": False,
        "is_error": False,
        "toolset_name": False,
        "cache_control": False,
    },
    "server_tool_use": {"id": True, "name": True, "input": True, "caller": False, "cache_control": False},
}
"""Fields of the blocks that are looked into; True where the field is required."""
STRINGS = ("text", "thinking", "signature", "data", "id", "tool_use_id")
OPAQUE = ("image", "document", "search_result")
"""Blocks that are taken as they are."""
IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
ONLY_ASSISTANT = ("tool_use", "server_tool_use", "thinking", "redacted_thinking")
ID = re.compile(r"[a-zA-Z0-9_-]+")
RULES_ON_SHAPE = Table()


@RULES_ON_SHAPE.rule("blocks.type")
def kind(call: Call) -> Iterator[str]:
    """Require an object of a known type."""
    for where, block in _raw_blocks(call):
        tag = block.get("type") if isinstance(block, dict) else None
        if not isinstance(tag, str) or (tag not in FIELDS and tag not in OPAQUE and not SERVER_RESULT.fullmatch(tag)):
            yield f"{where}: Input tag '{tag}' found using 'type' does not match any of the expected tags"


@RULES_ON_SHAPE.rule("blocks.fields")
def fields(call: Call) -> Iterator[str]:
    """Require the fields of the type and no others."""
    for where, block in _raw_blocks(call):
        known = FIELDS.get(block["type"])
        if known is None:
            continue
        for name in block:
            if name != "type" and name not in known:
                yield f"{where}.{block['type']}.{name}: Extra inputs are not permitted"
        for name, needed in known.items():
            if needed and name not in block:
                yield f"{where}.{block['type']}.{name}: Field required"
        for name in STRINGS:
            if name in block and not isinstance(block[name], str):
                yield f"{where}.{block['type']}.{name}: Input should be a valid string"


@RULES_ON_SHAPE.rule("blocks.role")
def side(call: Call) -> Iterator[str]:
    """Keep calls and thoughts to the assistant, results to the user."""
    for where, role, block in call.blocks():
        if role == "user" and block["type"] in ONLY_ASSISTANT:
            yield f"{where}: `{block['type']}` blocks can only be in `assistant` messages"
        if role == "assistant" and block["type"] == "tool_result":
            yield f"{where}: `tool_result` blocks can only be in `user` messages"


@RULES_ON_SHAPE.rule("tool_use.id")
def call_id(call: Call) -> Iterator[str]:
    """Require ids of letters, digits, `_` and `-`."""
    for where, _, block in call.blocks("tool_use"):
        if not ID.fullmatch(block["id"]):
            yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"


@RULES_ON_SHAPE.rule("tool_use.name")
def call_name(call: Call) -> Iterator[str]:
    """Require names that a tool could have."""
    for where, _, block in call.blocks("tool_use"):
        if not isinstance(block["name"], str) or not NAME.fullmatch(block["name"]):
            yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"


@RULES_ON_SHAPE.rule("tool_use.input")
def call_input(call: Call) -> Iterator[str]:
    """Require arguments that are an object."""
    for where, _, block in call.blocks("tool_use"):
        if not isinstance(block["input"], dict):
            yield f"{where}.tool_use.input: Input should be a valid dictionary"


@RULES_ON_SHAPE.rule("tool_result.shape")
def result_shape(call: Call) -> Iterator[str]:
    """Require a string, or blocks that may stand in a result."""
    for where, _, block in call.blocks("tool_result"):
        inner = block.get("content", "")
        if not isinstance(inner, str | list):
            yield f"{where}.tool_result.content: Input should be a valid string or list"
            continue
        parts: list[Any] = as_blocks(inner)
        for at, part in enumerate(parts):
            good = isinstance(part, dict) and part.get("type") in IN_RESULTS
            if not good or (part["type"] == "text" and not isinstance(part.get("text"), str)):
                yield f"{where}.tool_result.content.{at}: Input should be a block that a result can hold"
        if not isinstance(block.get("is_error", False), bool):
            yield f"{where}.tool_result.is_error: Input should be a valid boolean"


RULES_ON_TEXT = Table()


@RULES_ON_TEXT.rule("text.empty")
def text_empty(call: Call) -> Iterator[str]:
    """Refuse text blocks without text, in results and in the system prompt too."""
    for where, block in _texts(call):
        if not block["text"]:
            yield f"{where}: text content blocks must be non-empty"


@RULES_ON_TEXT.rule("text.blank")
def text_blank(call: Call) -> Iterator[str]:
    """Refuse text of white space alone, as a block or as a whole message."""
    for where, block in _texts(call):
        if not block["text"].strip():
            yield f"{where}: text content blocks must contain non-whitespace text"


def _raw_blocks(call: Call) -> Iterator[tuple[str, Any]]:
    for number, message in enumerate(call.body["messages"]):
        for index, block in enumerate(as_blocks(message["content"])):
            yield f"messages.{number}.content.{index}", block


def _texts(call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(call.body.get("system"), list):
        for index, block in enumerate(call.body["system"]):
            yield f"system.{index}", block
    for where, _, block in call.blocks("text", "tool_result"):
        if block["type"] == "text":
            yield where, block
        elif isinstance(block.get("content"), list):
            for at, part in enumerate(block["content"]):
                if part["type"] == "text":
                    yield f"{where}.tool_result.content.{at}", part
