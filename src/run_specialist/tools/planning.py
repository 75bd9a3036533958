"""The tools `todo` and `think`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from run_specialist.tools.base import Tool

TODO = "todo"
MOST = 50
"""Maximum number of items."""

_TODO_DESCRIPTION = (
    "Keep the plan of this task as a list. Each call gives the whole list anew, in order, with one item in_progress; "
    "without `todos` it returns the list. A call counts like any other, so use it for tasks of several steps only."
)
_MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]", "cancelled": "[-]"}


class Todo(BaseModel):
    """One item of the list."""

    content: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        validation_alias=AliasChoices("content", "step", "task", "title", "description", "text")
    )
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class TodoList:
    """The list of a run."""

    def __init__(self) -> None:
        self._items: Sequence[Todo] = ()

    def todo(
        self, todos: Annotated[list[Todo] | None, Field(max_length=MOST, description="The whole list.")] = None
    ) -> str:
        """Replace the list, if one is given, and return it as text."""
        if todos is not None:
            self._items = todos
        if not self._items:
            return "The list is empty."
        done = sum(item.status == "completed" for item in self._items)
        lines = [f"{_MARKS[item.status]} {' '.join(item.content.split())}" for item in self._items]
        return "\n".join([f"{done} of {len(self._items)} done", *lines])

    def take(self, arguments: Mapping[str, Any] | None) -> None:
        """Adopt the list of an earlier call, if it has one."""
        if items := _items_of(arguments):
            self._items = items


def todo_tool(plan: TodoList) -> Tool:
    """Return the tool that keeps a plan."""
    return Tool(TODO, _TODO_DESCRIPTION, plan.todo)


def current(arguments: object) -> str:
    """Return the item in progress in a call, with the number of finished items; empty without a list.

    arguments: arguments of the call, possibly invalid.
    """
    items = _items_of(arguments)
    if not items:
        return ""
    done = sum(item.status == "completed" for item in items)
    at_work = next((item.content for item in items if item.status == "in_progress"), "")
    return f"{done} of {len(items)} done{at_work and f': {at_work}'}"


def _items_of(arguments: object) -> list[Todo]:
    given = arguments.get("todos") if isinstance(arguments, dict) else None
    try:
        return [Todo.model_validate(one) for one in given[:MOST]] if isinstance(given, list) else []
    except ValidationError:
        return []


THINK = "think"

_THINK_DESCRIPTION = "Write down a thought before you go on. It does nothing else, and it counts as a call."


def think_tool() -> Tool:
    """Return the tool."""
    return Tool(THINK, _THINK_DESCRIPTION, _think)


def _think(thought: Annotated[str, Field(description="What you think.")]) -> str:
    return "Noted." if thought.strip() else "There was nothing to note."
