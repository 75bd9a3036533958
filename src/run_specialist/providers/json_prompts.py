"""Texts for a model whose tool calls are JSON."""

CALLS_ARE_JSON = (
    'Each of your replies is one tool call in JSON, {"call": {"tool": NAME, "arguments": {...}}}, and the next message '
    "is its result. Give null for an argument that you do not need. Never repeat a call."
)
WHEN_TO_RESPOND = "As soon as a result contains the answer, call respond. Copy each quote word for word from a result."
CUT_SHORTER = "Your last reply was cut off because it was too long. Repeat it, much shorter."
ANSWER_IN_TEXT = "Answer now, as plain text and not as JSON."


def with_tools(system: str, tools: str) -> str:
    """Return the system prompt of a run whose tool calls are JSON.

    tools: the list of the tools.
    """
    return f"{system}\n\n{CALLS_ARE_JSON}\n\nTools:\n{tools}\n\n{WHEN_TO_RESPOND}"


def result_of(tool: str, result: str) -> str:
    """Return the message with the result of a tool call that was written as JSON."""
    return f"Result of {tool}:\n{result}"
