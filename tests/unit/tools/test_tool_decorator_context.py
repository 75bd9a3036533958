"""`@tool`: the context passed to a function."""

from typing import Annotated, Optional

import pytest

import run_specialist
from run_specialist.budget import Budget, Kind
from run_specialist.errors import ToolError
from run_specialist.tools.base import Context
from run_specialist.tools.python_tools import tool
from tests.unit.tools.decorated_functions import annotated, properties

pytestmark = pytest.mark.anyio


CONTEXT = Context("run-1", "call-1", Budget.of({Kind.TOOL_CALLS: 4}), 60)


def named(word: str, ctx) -> str:
    """Look."""
    return ctx.call_id


async def late(word: str, context: Context) -> str:
    """Look."""
    return context.call_id


TYPES = [Context, Context | None, Optional[Context], Annotated[Context, "a note"]]  # noqa: UP045 - supported too
# As in a module that imports `Context`, and in one that imports it only for type checkers.
TEXTS = [annotated("Context", {"Context": Context}), annotated("run_specialist.Context | None")]


@pytest.mark.parametrize("function", [*map(annotated, TYPES), *TEXTS, named, late])
async def test_the_context_is_passed_and_hidden_from_the_model(function):
    """The context is passed by its type, in any spelling, or by the name `ctx`; a model can neither see nor set it."""
    made = tool(function)
    assert list(properties(made)) == ["word"]
    assert (await made.call({"word": "x"}, CONTEXT)).text == "call-1"
    with pytest.raises(ToolError):
        await made.call({"word": "x", "context": {}, "ctx": {}}, CONTEXT)


async def test_the_context_reports_the_remaining_budget():
    """The context reports the remaining budget of a kind, or None without a limit; an unknown kind is a ValueError."""

    @tool
    def look(kind: str, ctx: run_specialist.Context) -> str:
        """Look."""
        return f"{ctx.left(kind)} of {ctx.limit(kind).limit}, {ctx.left()} calls, {ctx.seconds} s"

    assert (await look.call({"kind": "tool_calls"}, CONTEXT)).text == "4 of 4, 4 calls, 60 s"
    assert (await look.call({"kind": "tokens"}, CONTEXT)).text == "None of None, 4 calls, 60 s"
    with pytest.raises(ValueError, match="calls"):
        await look.call({"kind": "calls"}, CONTEXT)
