"""For every rule requests that break it, each beside the same request made right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .prompt import Block

Body = dict[str, Any]
Next = Callable[[list[Block]], Body]
"""Makes the second request of a conversation from the content of the first reply."""

OPUS, HAIKU, OLDER = "claude-opus-5-5", "claude-haiku-5-5", "claude-opus-4-8"
SEARCH: Block = {"name": "search", "description": "Search.", "input_schema": {"type": "object"}}
RESPOND: Block = {"name": "respond", "input_schema": {"type": "object", "properties": {}}}
TOOLS = [SEARCH, RESPOND]
MARK = {"type": "ephemeral"}
THOUGHTS = ({"type": "thinking", "thinking": "So.", "signature": "c28="}, {"type": "redacted_thinking", "data": "x"})


def request(**fields: Any) -> Body:  # noqa: ANN401 - fields of the body
    """Return a good request with some fields replaced; a field given as None is left away."""
    whole = {"model": HAIKU, "max_tokens": 4096, "messages": [user("What do owls eat?")], **fields}
    return {name: value for name, value in whole.items() if value is not None}


def user(*content: Block | str) -> Body:
    """Return a user's message of strings and blocks."""
    return {"role": "user", "content": [words(part) if isinstance(part, str) else part for part in content]}


def assistant(*content: Block | str) -> Body:
    """Return an assistant's message of strings and blocks."""
    return {**user(*content), "role": "assistant"}


def words(text: str, **fields: Any) -> Block:  # noqa: ANN401 - fields of the block
    """Return a text block."""
    return {"type": "text", "text": text, **fields}


def call(call_id: Any = "toolu_1", **fields: Any) -> Block:  # noqa: ANN401 - wrong ones too
    """Return a tool call."""
    return {"type": "tool_use", "id": call_id, "name": "search", "input": {"query": "owls"}, **fields}


def result(call_id: str = "toolu_1", content: Any = "mice", **fields: Any) -> Block:  # noqa: ANN401 - wrong ones too
    """Return a tool result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def chat(*messages: Body, **fields: Any) -> Body:  # noqa: ANN401 - fields of the body
    """Return a request with tools and these messages behind the question."""
    return request(**{"tools": TOOLS, "messages": [user("What do owls eat?"), *messages], **fields})


@dataclass(frozen=True)
class Example:
    """Hold a request that breaks one rule and the one that does not."""

    rule: str
    message: str
    """Part of what the API says."""
    wrong: Body | bytes | Next
    right: Body | Next
    headers: Mapping[str, str | None] | None = None
    """Headers of the wrong request."""
    path: str = "/v1/messages"
    method: str = "POST"
    opening: Body | None = None
    """Request whose reply the other two go on from."""


def of_options() -> list[Example]:
    """Return examples for the fields at the top."""
    good = request()
    pairs: list[tuple[str, str, Body, Body]] = [
        *(("fields.sampling", f"{name}: not supported", request(**{name: 1}), good) for name in SAMPLING),
        ("fields.unknown", "budget: Extra inputs are not permitted", request(budget=30), good),
        *(("fields.required", f"{name}: Field required", request(**{name: None}), good) for name in REQUIRED),
        ("fields.types", "messages: Input should be a valid list", request(messages="hello"), good),
        ("fields.types", "stream: Input should be a valid bool", request(stream="no"), request(stream=False)),
        ("fields.types", "system: Input should be", request(system={"text": "x"}), request(system="x")),
        ("model.known", "model: claude-opus-9", request(model="claude-opus-9"), request(model=f"{HAIKU}-20261021")),
        ("max_tokens.positive", "greater than or equal to 1", request(max_tokens=0), request(max_tokens=1)),
        ("max_tokens.positive", "valid integer", request(max_tokens=True), request(max_tokens=1)),
        ("max_tokens.positive", "valid integer", request(max_tokens=10.0), request(max_tokens=10)),
        ("max_tokens.limit", "64001 > 64000", request(max_tokens=64_001), request(max_tokens=64_000)),
        (
            "max_tokens.limit",
            "128001 > 128000",
            request(model=OPUS, max_tokens=128_001),
            request(model=OPUS, max_tokens=128_000),
        ),
        ("system.shape", "system.0", request(system=["Be brief."]), request(system=[words("Be brief.")])),
        ("stop_sequences.shape", "non-whitespace", request(stop_sequences=["\n"]), request(stop_sequences=["x"])),
        ("output_config.shape", "output_config.style", request(output_config={"style": 1}), request(output_config={})),
        (
            "output_config.shape",
            "output_config.format",
            request(output_config={"format": "json"}),
            request(output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}),
        ),
        *(
            ("output_config.effort", "'xhigh'", request(output_config={"effort": "most"}), right)
            for right in (request(output_config={"effort": effort}) for effort in EFFORTS)
        ),
    ]
    return [Example(*pair) for pair in pairs]


def of_tools() -> list[Example]:
    """Return examples for tools and the choice among them."""
    good = chat()
    forced = {"type": "tool", "name": "respond"}
    unforceable = 'tool_choice: type "tool" and "any" are not supported for this model.'
    manual = {"type": "enabled", "budget_tokens": 1024}

    def tools(**fields: Any) -> Body:  # noqa: ANN401 - fields of the tool
        return chat(tools=[{**SEARCH, **fields}])

    pairs: list[tuple[str, str, Body, Body]] = [
        ("tools.shape", "tools.0: Input should be", chat(tools=["search"]), good),
        ("tools.shape", "tools.0.name: Field required", chat(tools=[{"input_schema": {}}]), good),
        ("tools.shape", "tools.0.custom.parameters", tools(parameters={}), tools(strict=True)),
        ("tools.shape", "description: Input should be", tools(description=None), tools(description="Search.")),
        ("tools.name", "should match pattern", tools(name="se arch"), tools(name="se-arch_2")),
        ("tools.name", "should match pattern", tools(name="s" * 129), tools(name="s" * 128)),
        ("tools.name", "should match pattern", tools(name=""), tools(name="s")),
        ("tools.unique", "Tool names must be unique.", chat(tools=[SEARCH, SEARCH]), good),
        ("tools.schema", "input_schema: Field required", chat(tools=[{"name": "search"}]), good),
        ("tools.schema", "'object'", tools(input_schema={"type": "string"}), tools(input_schema={"type": "object"})),
        ("tool_choice.shape", "'none'", chat(tool_choice={"type": "force"}), chat(tool_choice={"type": "auto"})),
        ("tool_choice.shape", "name: Field required", chat(tool_choice={"type": "tool"}), chat(tool_choice=forced)),
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
            chat(tool_choice=forced),
        ),
        *(
            ("tool_choice.forced", unforceable, chat(model=model, tool_choice=choice), right)
            for model in UNFORCEABLE
            for choice in (forced, {"type": "any"})
            for right in (chat(model=model, tool_choice={"type": "none"}),)
        ),
        *(
            (
                "tool_choice.manual_thinking",
                "Thinking may not be enabled when tool_choice forces tool use.",
                chat(model=model, tool_choice=choice, thinking=manual),
                chat(model=model, tool_choice=choice, thinking={"type": "adaptive"}),
            )
            for model in FORCEABLE
            for choice in (forced, {"type": "any"})
        ),
    ]
    return [Example(*pair) for pair in pairs]


SAMPLING = ("temperature", "top_p", "top_k")
REQUIRED = ("model", "max_tokens", "messages")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
UNFORCEABLE = (OPUS, "claude-sonnet-5-5", "claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-2")
FORCEABLE = (
    HAIKU,
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-sonnet-4-6",
)
