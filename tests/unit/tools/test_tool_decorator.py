"""`@tool`: descriptions and schemas, suitable functions, their context, arguments and results."""

import asyncio
import enum
import functools
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

import run_specialist
from run_specialist.budget import Budget, Kind
from run_specialist.errors import ToolError, UsageError
from run_specialist.tools.base import Context, Tool
from run_specialist.tools.python_tools import tool


class Place(BaseModel):
    """A place on a map."""

    x: int
    y: int = 0


def properties(made):
    """Return the properties of a tool's schema."""
    return made.input_schema["properties"]


def annotated(annotation, known=None):
    """Return a function `look` whose second parameter, `context`, has this annotation.

    known: the names that its module knows; None = all.
    """

    def look(word, context):
        """Look."""
        return context.call_id

    made = type(look)(look.__code__, {"__builtins__": __builtins__} if known is None else known, "look")
    made.__annotations__ = {"word": "str", "context": annotation}
    return made


def test_the_decorator_uses_name_and_docstring_unless_overridden():
    """`@tool` from `run_specialist` uses the function's name and docstring unless arguments override them."""

    @run_specialist.tool
    def look(word: str) -> str:
        """Look up a word."""
        return word

    @run_specialist.tool(name="find", description="Find it.", timeout=5, repeatable=True)
    def other(word: str) -> str:
        """Look up a word."""
        return word

    assert isinstance(look, run_specialist.Tool)
    assert (look.name, look.description, look.timeout, look.repeatable) == ("look", "Look up a word.", None, False)
    assert (other.name, other.description, other.timeout, other.repeatable) == ("find", "Find it.", 5, True)
    assert look("still a function") == "still a function"
    assert run_specialist.tool(name="bare")(lambda: "").description == "bare"


GOOGLE = """Look up a word.

    Takes long: it asks twice.

    Args:
        word: The word to look for. It may
            go on here.
        limit (int, optional): At most so many.
        ctx: What is left.

    Returns:
        What was found.
    """
NUMPY = """Look up a word.

    Takes long: it asks twice.

    Parameters
    ----------
    word : str
        The word to look for. It may
        go on here.
    limit : int, optional
        At most so many.

    Returns
    -------
    str
        What was found.
    """
SPHINX = """Look up a word.

    Takes long: it asks twice.

    :param word: The word to look for. It may
        go on here.
    :param limit: At most so many.
    :param ctx: What is left.
    :returns: What was found.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_parameter_descriptions_come_from_the_docstring(docstring):
    """Parameter descriptions come from Google, NumPy and Sphinx docstrings."""

    def look(word: str, limit: int = 3, ctx: Context | None = None) -> str:
        return word * limit

    look.__doc__ = docstring
    made = tool(look)
    told = {name: value.get("description") for name, value in properties(made).items()}
    assert told == {"word": "The word to look for. It may go on here.", "limit": "At most so many."}
    assert made.description.startswith("Look up a word.\n\nTakes long: it asks twice.\n\n")
    assert "What was found." in made.description
    assert not re.search("The word|Args|Parameters|What is left", made.description)


def test_a_field_overrides_the_docstring():
    """`Annotated[..., Field(...)]` overrides the docstring's description and adds constraints."""

    @tool
    def look(word: Annotated[str, Field(description="Nearer.", min_length=2)], limit: int = 1) -> str:
        """Look.

        Args:
            word: Farther.
            limit: Most.
            other: Is no parameter.
        """
        return word * limit

    assert properties(look)["word"] == {"description": "Nearer.", "minLength": 2, "type": "string"}
    assert properties(look)["limit"]["description"] == "Most."
    assert (look.description, set(properties(look))) == ("Look.", {"word", "limit"})


def test_parameters_with_a_default_are_optional():
    """A default makes a parameter optional."""
    nothing = object()

    @tool
    def look(word: str, where: Path = Path("a"), other: Any = nothing, plain=3) -> str:
        """Look."""
        return f"{word}{where}{plain}{other is nothing}"

    assert look.input_schema["required"] == ["word"]
    assert "default" not in properties(look)["other"]
    assert "type" not in properties(look)["plain"]
    assert properties(look)["plain"]["default"] == 3


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
    """Bound methods, callable objects and partials become tools."""
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


def starred(*words: str) -> str:
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
        (annotated("Nowhere"), f"{NO_SCHEMA}name 'Nowhere' is not defined"),
        (annotated(Desk), NO_SCHEMA),
        (annotated("1 / 0"), f"{NO_SCHEMA}division by zero"),
        (two, "two: both one and other are a Context"),
        (yields, "yields: asynchronous generators are not supported"),
        (Desk.look, "look: unbound method"),
        (Place, "Place: expected a function, got a class"),
        (lambda: "", "'<lambda>': invalid tool name; use at most"),
        (Tool("look", "Look.", looks), "Tool: parameter *arguments cannot be passed by keyword"),
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
        (None, ""),
        ({"a": [1, None, True]}, '{"a": [1, null, true]}'),
        (Place(x=1), '{"x": 1, "y": 0}'),
        (Size(2.0), '{"width": 2.0}'),
        ({"colour": Colour.BLUE, "path": Path("a/b")}, '{"colour": "blue", "path": "a/b"}'),
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

    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ToolError, match="cannot be written as JSON"):
        await tool(name="endless")(lambda: endless).call({})
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
