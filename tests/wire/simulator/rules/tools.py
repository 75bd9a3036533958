"""Rules on tools and on `tool_choice`."""

import re
from collections.abc import Iterator

from .base import Call, Table

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
TOOL_FIELDS = (
    "name",
    "description",
    "input_schema",
    "type",
    "cache_control",
    "strict",
    "defer_loading",
    "allowed_callers",
    "eager_input_streaming",
    "input_examples",
)
CHOICES = {
    "auto": ("type", "disable_parallel_tool_use"),
    "any": ("type", "disable_parallel_tool_use"),
    "tool": ("type", "name", "disable_parallel_tool_use"),
    "none": ("type",),
}
RULES = Table()


@RULES.rule("tools.shape")
def shape(call: Call) -> Iterator[str]:
    """Require an object with the fields of a tool."""
    for index, tool in enumerate(call.body.get("tools", ())):
        if not isinstance(tool, dict):
            yield f"tools.{index}: Input should be a valid dictionary"
        elif "name" not in tool:
            yield f"tools.{index}.name: Field required"
        elif tool.get("type") in (None, "custom"):
            for name in tool:
                if name not in TOOL_FIELDS:
                    yield f"tools.{index}.custom.{name}: Extra inputs are not permitted"
            if not isinstance(tool.get("description", ""), str):
                yield f"tools.{index}.custom.description: Input should be a valid string"


@RULES.rule("tools.name")
def name_pattern(call: Call) -> Iterator[str]:
    """Require names of letters, digits, `_` and `-`."""
    for index, tool in enumerate(call.body.get("tools", ())):
        if not isinstance(tool["name"], str) or not NAME.fullmatch(tool["name"]):
            yield f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"


@RULES.rule("tools.unique")
def unique(call: Call) -> Iterator[str]:
    """Refuse two tools of one name."""
    names = [tool["name"] for tool in call.body.get("tools", ())]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."


@RULES.rule("tools.schema")
def schema(call: Call) -> Iterator[str]:
    """Require a schema whose input is an object."""
    for index, tool in enumerate(call.body.get("tools", ())):
        if tool.get("type") not in (None, "custom"):
            continue
        given = tool.get("input_schema")
        if not isinstance(given, dict):
            yield f"tools.{index}.custom.input_schema: Field required"
        elif given.get("type") != "object":
            yield f"tools.{index}.custom.input_schema.type: Input should be 'object'"


@RULES.rule("tool_choice.shape")
def choice_shape(call: Call) -> Iterator[str]:
    """Require one of four kinds, each with its own fields."""
    choice = call.body.get("tool_choice")
    if choice is None:
        return
    allowed = CHOICES.get(choice.get("type"))
    if allowed is None:
        yield "tool_choice: Input tag should be one of 'auto', 'any', 'tool', 'none'"
        return
    for name in choice:
        if name not in allowed:
            yield f"tool_choice.{choice['type']}.{name}: Extra inputs are not permitted"
    if choice["type"] == "tool" and not isinstance(choice.get("name"), str):
        yield "tool_choice.tool.name: Field required"
    if not isinstance(choice.get("disable_parallel_tool_use", False), bool):
        yield f"tool_choice.{choice['type']}.disable_parallel_tool_use: Input should be a valid boolean"


def _is_forced(call: Call) -> bool:
    return call.body.get("tool_choice", {}).get("type") in ("any", "tool")


RULES.refuse(
    "tool_choice.without_tools",
    "tool_choice may only be specified while providing tools.",
    lambda call: "tool_choice" in call.body and not call.body.get("tools"),
)
RULES.refuse(
    "tool_choice.forced",
    'tool_choice: type "tool" and "any" are not supported for this model.',
    lambda call: _is_forced(call) and not call.model.takes_forced_choice,
)
RULES.refuse(
    "tool_choice.manual_thinking",
    "Thinking may not be enabled when tool_choice forces tool use.",
    lambda call: _is_forced(call) and call.body.get("thinking", {}).get("type") == "enabled",
)


@RULES.rule("tool_choice.name")
def choice_name(call: Call) -> Iterator[str]:
    """Require the named tool to be on offer."""
    choice = call.body.get("tool_choice", {})
    if choice.get("type") == "tool" and choice["name"] not in [tool["name"] for tool in call.body["tools"]]:
        yield f"Tool '{choice['name']}' not found in provided tools"
