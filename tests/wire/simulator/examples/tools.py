"""Examples for tools and `tool_choice`."""

from typing import Any

from .base import HAIKU, OPUS, SEARCH, Body, Example, chat

UNFORCEABLE = (OPUS, "claude-sonnet-5-5")
FORCEABLE = (HAIKU, "claude-opus-5", "claude-opus-4-8")


def tools(**fields: Any) -> Body:
    """Return a conversation with one tool that has these fields."""
    return chat(tools=[{**SEARCH, **fields}])


GOOD = chat()
RESPOND_NOW = {"type": "tool", "name": "respond"}
REFUSED = 'tool_choice: type "tool" and "any" are not supported for this model.'
MANUAL = {"type": "enabled", "budget_tokens": 1024}

PAIRS: list[tuple[str, str, Body, Body]] = [
    ("tools.shape", "tools.0: Input should be", chat(tools=["search"]), GOOD),
    ("tools.shape", "tools.0.name: Field required", chat(tools=[{"input_schema": {}}]), GOOD),
    ("tools.shape", "tools.0.custom.parameters", tools(parameters={}), tools(strict=True)),
    ("tools.shape", "description: Input should be", tools(description=None), tools(description="Search.")),
    ("tools.name", "should match pattern", tools(name="se arch"), tools(name="se-arch_2")),
    ("tools.name", "should match pattern", tools(name="s" * 129), tools(name="s" * 128)),
    ("tools.unique", "Tool names must be unique.", chat(tools=[SEARCH, SEARCH]), GOOD),
    ("tools.schema", "input_schema: Field required", chat(tools=[{"name": "search"}]), GOOD),
    (
        "tools.schema",
        "'object'",
        tools(input_schema={"type": "string"}),
        tools(input_schema={"type": "object"}),
    ),
    ("tool_choice.shape", "'none'", chat(tool_choice={"type": "force"}), chat(tool_choice={"type": "auto"})),
    (
        "tool_choice.shape",
        "name: Field required",
        chat(tool_choice={"type": "tool"}),
        chat(tool_choice=RESPOND_NOW),
    ),
    (
        "tool_choice.shape",
        "any.name: Extra inputs",
        chat(tool_choice={"type": "any", "name": "search"}),
        chat(tool_choice={"type": "any"}),
    ),
    (
        "tool_choice.shape",
        "valid boolean",
        chat(tool_choice={"type": "auto", "disable_parallel_tool_use": "yes"}),
        chat(tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    ),
    (
        "tool_choice.without_tools",
        "only be specified while providing tools",
        chat(tool_choice={"type": "none"}, tools=None),
        chat(tool_choice={"type": "none"}),
    ),
    (
        "tool_choice.name",
        "Tool 'finish' not found",
        chat(tool_choice={"type": "tool", "name": "finish"}),
        chat(tool_choice=RESPOND_NOW),
    ),
    *(
        ("tool_choice.forced", REFUSED, chat(model=model, tool_choice=choice), right)
        for model in UNFORCEABLE
        for choice in (RESPOND_NOW, {"type": "any"})
        for right in (chat(model=model, tool_choice={"type": "none"}),)
    ),
    *(
        (
            "tool_choice.manual_thinking",
            "Thinking may not be enabled when tool_choice forces tool use.",
            chat(model=model, tool_choice=choice, thinking=MANUAL),
            chat(model=model, tool_choice=choice, thinking={"type": "adaptive"}),
        )
        for model in FORCEABLE
        for choice in (RESPOND_NOW, {"type": "any"})
    ),
]
EXAMPLES = tuple(Example(*pair) for pair in PAIRS)
