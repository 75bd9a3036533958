"""The tools `todo` and `think`, which only keep what the model writes."""

import asyncio

import pytest

from run_specialist.cli.live import call_text
from run_specialist.errors import ToolError
from run_specialist.record.events import Called
from run_specialist.tools.planning import TodoList, current, think_tool, todo_tool


def call(tool, **arguments):
    """Call a tool and return its text."""
    return asyncio.run(tool.call(arguments)).text


def test_the_list_is_kept_and_returned():
    """Each call gives the whole list; without one it is returned as it is."""
    tool = todo_tool(TodoList())
    assert call(tool) == "The list is empty."
    given = [
        {"content": "Read\nthe notes", "status": "completed"},
        {"step": "Answer", "status": "in_progress"},
        {"content": "x"},
    ]
    assert call(tool, todos=given) == "1 of 3 done\n[x] Read the notes\n[>] Answer\n[ ] x"
    assert call(tool) == "1 of 3 done\n[x] Read the notes\n[>] Answer\n[ ] x"
    assert call(tool, todos=[]) == "The list is empty."


@pytest.mark.parametrize(
    "todos", [[{"content": ""}], [{"status": "done", "content": "a"}], [{"content": "a"}] * 51, "a"]
)
def test_a_list_that_is_none_is_refused(todos):
    """Invalid lists are an error for the model, and the list stays as it was."""
    tool = todo_tool(TodoList())
    call(tool, todos=[{"content": "kept"}])
    with pytest.raises(ToolError):
        call(tool, todos=todos)
    assert call(tool).endswith("[ ] kept")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"todos": [{"content": "b", "status": "in_progress"}]}, "0 of 1 done: b"),
        ({"todos": [{"content": "a"}]}, "0 of 1 done"),
        ({"todos": [{"nothing": 1}]}, ""),
        ({"todos": 3}, ""),
        (None, ""),
    ],
)
def test_the_item_in_progress_is_shown(arguments, text):
    """A call is shown by its item in progress, whatever a model has given."""
    assert current(arguments) == text


def test_the_live_view_shows_the_item_in_progress():
    """Not the whole list, as the model has written it; and the result of a thought is short."""
    assert call(think_tool(), thought="Both say 30.") == "Noted."
    todos = [{"content": "Read\x1b[31m", "status": "in_progress"}, {"content": "Answer"}]
    assert call_text(Called("finished", "call_1", "todo", {"todos": todos})) == "todo    0 of 2 done: Read\ufffd[31m"
