"""`@tool`: the kinds of functions it accepts and refuses."""

import asyncio
import functools
import math

import pytest

from run_specialist.errors import ToolError, UsageError
from run_specialist.tools.base import Context, Tool
from run_specialist.tools.python_tools import tool
from tests.unit.tools.decorated_functions import Place, annotated, properties

pytestmark = pytest.mark.anyio


class Desk:
    """A callable object with a method."""

    def look(self, word: str) -> str:
        """Look on the desk."""
        return f"desk {word}"

    async def __call__(self, word: str) -> str:
        """Ask the desk."""
        return f"asked {word}"


def looks(word: str, where: str = "here", *, times: int = 1) -> str:
    """Look somewhere.

    Args:
        word: The word.
        where: The place.
        times: How often.
    """
    return f"{word} {where} {times}"


async def test_methods_callable_objects_and_partials_become_tools():
    """Bound methods, callable objects and partials become tools.

    Arguments that a partial binds are hidden from models, which cannot set them.
    """
    method, thing = tool(Desk().look), tool(Desk())
    assert (method.name, method.description, list(properties(method))) == ("look", "Look on the desk.", ["word"])
    assert (await method.call({"word": "x"})).text == "desk x"
    assert (thing.name, thing.description) == ("Desk", "Ask the desk.")
    assert (await thing.call({"word": "x"})).text == "asked x"
    partial = tool(functools.partial(looks, where="there"))
    assert (partial.name, partial.description) == ("looks", "Look somewhere.")
    assert list(properties(partial)) == ["word", "times"]
    assert properties(partial)["word"]["description"] == "The word."
    assert (await partial.call({"word": "x", "times": 2})).text == "x there 2"
    with pytest.raises(ToolError, match="where"):
        await partial.call({"word": "x", "where": "elsewhere"})
    assert (await tool(functools.partial(looks, "bound")).call({"where": "y"})).text == "bound y 1"


async def test_a_wrapper_keeps_the_signature_of_its_function():
    """A wrapper with `functools.wraps` keeps the function's name, docstring and parameters."""

    @functools.wraps(looks)
    def wrapper(*arguments, **named):
        return looks(*arguments, **named).upper()

    assert list(properties(tool(wrapper))) == ["word", "where", "times"]
    assert (await tool(wrapper).call({"word": "x"})).text == "X HERE 1"


def starred(*words: str) -> str:
    """Look."""


def by_place(word, /) -> str:
    """Look."""


def two(one: Context, other: Context) -> str:
    """Look."""


async def yields(word: str):
    """Look."""
    yield word


NO_SCHEMA = "look: cannot create a JSON Schema for parameter context: "


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (starred, "starred: parameter *words cannot be passed by keyword"),
        (by_place, "by_place: parameter word cannot be passed by keyword"),
        (annotated("Nowhere"), f"{NO_SCHEMA}name 'Nowhere' is not defined"),
        (annotated(Desk), NO_SCHEMA),
        (annotated(asyncio.Future), NO_SCHEMA),
        (annotated("1 / 0"), f"{NO_SCHEMA}division by zero"),
        (two, "two: both one and other are a Context"),
        (yields, "yields: asynchronous generators are not supported"),
        (Desk.look, "look: unbound method"),
        (Place, "Place: expected a function, got a class"),
        (3, "int: expected a function, got an object of type int"),
        (lambda: "", "'<lambda>': invalid tool name; use at most"),
        (Tool("look", "Look.", looks), "Tool: is already a tool"),
        (math.hypot, "hypot: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_unsuitable_function_is_a_one_line_error(function, said):
    """An unsuitable function is a one-line error that names it and, if one is at fault, the parameter."""
    with pytest.raises(UsageError) as caught:
        tool(function)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"name": "two words"}, {"name": ""}, {"name": "x" * 65}, {"timeout": 0}, {"timeout": -1}], ids=str
)
def test_an_invalid_name_or_timeout_is_refused(given):
    """An invalid name or timeout is refused when the tool is defined."""
    with pytest.raises(UsageError):
        tool(**given)(looks)
