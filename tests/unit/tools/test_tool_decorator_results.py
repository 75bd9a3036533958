"""`@tool`: arguments converted to the annotated types, and the results returned to the model."""

import asyncio
import enum
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.python_tools import tool
from tests.unit.tools.decorated_functions import Place, properties

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Size:
    """The size of an object."""

    width: float


async def test_arguments_are_converted_to_their_annotations():
    """Arguments become models, dataclasses, enum members, literals and optional values, as annotated."""
    seen = []

    @tool
    def look(
        place: Place,
        size: Size,
        colour: Colour,
        how: Literal["fast", "slow"],
        names: list[str],
        maybe: Optional[int] = None,  # noqa: UP045 - the older spelling is supported too
    ) -> None:
        """Look."""
        seen.append((place, size, colour, how, names, maybe))

    given = {"place": {"x": 1}, "size": {"width": 2}, "colour": "red", "how": "fast", "names": ["a"]}
    assert (await look.call(given)).text == ""
    assert seen == [(Place(x=1), Size(2.0), Colour.RED, "fast", ["a"], None)]
    assert properties(look)["how"]["enum"] == ["fast", "slow"]
    with pytest.raises(ToolError) as caught:
        await look.call({**given, "colour": "green", "how": "now", "size": {}, "speed": 1})
    for reason in ("colour: Input should be 'red' or 'blue'", "how: Input", "size.width: Field", "speed: Unexpected"):
        assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


class Odd:
    """A type that JSON cannot represent."""

    def __str__(self):
        return "an odd thing"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, ""),
        ({"a": [1, None, True]}, '{"a": [1, null, true]}'),
        (["ä", 2], '["ä", 2]'),
        ([], "[]"),
        (Place(x=1), '{"x": 1, "y": 0}'),
        ([Place(x=1)], '[{"x": 1, "y": 0}]'),
        (Size(2.0), '{"width": 2.0}'),
        (Colour.RED, "red"),
        ({"colour": Colour.BLUE, "path": Path("a/b")}, '{"colour": "blue", "path": "a/b"}'),
        (3, "3"),
        (False, "false"),
        (b"bytes\xff", "bytes\ufffd"),
        ((number for number in range(3)), "[0, 1, 2]"),
        ({"odd": Odd()}, '{"odd": "an odd thing"}'),
        ({"odd": "\ud800"}, '{"odd": "\ud800"}'),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_return_values_become_text_or_json(value, text):
    """Text is returned unchanged, None as empty text, and other values as JSON, never as Python's `repr`."""

    def give():
        return value

    async def give_later():
        return value

    assert (await tool(give).call({})).text == text
    if not text.startswith("[0"):
        assert (await tool(give_later).call({})).text == text


async def test_an_endless_generator_stops_at_its_timeout():
    """An endless generator stops when its call times out, since its output would fill the memory."""
    stopped = threading.Event()

    @tool
    def tail():
        """Yield for ever."""
        try:
            while True:
                yield "a line"
                time.sleep(0.001)
        finally:
            stopped.set()

    assert await tail.call_within(0.05, {}) is None
    assert await asyncio.to_thread(stopped.wait, 30)


async def test_a_generator_is_consumed_in_its_thread():
    """A generator is consumed in its own thread, so it may block as long as a function may."""

    @tool
    def give():
        """Give."""
        yield threading.current_thread() is threading.main_thread()

    assert (await give.call({})).text == "[false]"


async def test_changing_an_argument_does_not_change_the_recorded_call():
    """A function that changes its arguments does not change the recorded call."""

    @tool
    def give(names: Any) -> str:
        """Give."""
        names.append("b")
        return str(names)

    said = {"names": ["a"]}
    assert (await give.call(said)).text == "['a', 'b']"
    assert said == {"names": ["a"]}


async def test_a_result_that_json_cannot_represent_is_an_error():
    """A result that cannot be written as JSON, such as a list that contains itself, is a ToolError."""
    endless: list[Any] = []
    endless.append(endless)

    def give():
        return endless

    with pytest.raises(ToolError, match="cannot be written as JSON"):
        await tool(give).call({})
