"""The tool `think`, for agents whose prompts ask them to write down thoughts between other calls."""

from typing import Annotated

from pydantic import Field

from run_specialist.tools.base import Tool

NAME = "think"

_DESCRIPTION = "Write down a thought before you go on. It does nothing else, and it counts as a call."


def think_tool() -> Tool:
    """Return the tool."""
    return Tool(NAME, _DESCRIPTION, _think)


def _think(thought: Annotated[str, Field(description="What you think.")]) -> str:
    return "Noted." if thought.strip() else "There was nothing to note."
