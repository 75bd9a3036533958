"""`@tool`: what a model is told of a function, whatever kind of function it is."""

import asyncio
import enum
import functools
import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

import run_specialist
from run_specialist.budget.budget import Budget, Kind
from run_specialist.errors import ToolError, UsageError
from run_specialist.tools.base import Tool
from run_specialist.tools.context import Context
from run_specialist.tools.decorator import tool

if TYPE_CHECKING:
    from collections.abc import Mapping as OnlyForTypes

pytestmark = pytest.mark.anyio

CONTEXT = Context("run-1", "call-1", Budget.of({Kind.TOOL_CALLS: 4}), 60, None)


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A place on a map."""

    x: int
    y: int = 0


@dataclass
class Size:
    """How large something is."""

    width: float


def properties(made):
    """Return the properties of a tool's schema."""
    return made.input_schema["properties"]


def test_bare_and_with_arguments_it_makes_a_tool_that_is_public():
    """`from run_specialist import tool`: the function's own words, or those that are given."""

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
    :type word: str
    :param limit: At most so many.
    :param ctx: What is left.
    :returns: What was found.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_docstring_tells_what_the_parameters_mean(docstring):
    """In each of the three styles; the section itself is no part of the description, and all the rest is."""

    def look(word: str, limit: int = 3, ctx: Context | None = None) -> str:
        return word * limit

    look.__doc__ = docstring
    made = tool(look)
    told = {name: value.get("description") for name, value in properties(made).items()}
    assert told == {"word": "The word to look for. It may go on here.", "limit": "At most so many."}
    assert made.description.startswith("Look up a word.\n\nTakes long: it asks twice.\n\n")
    assert "What was found." in made.description
    assert "The word" not in made.description
    assert "Args" not in made.description
    assert "Parameters" not in made.description
    assert "What is left" not in made.description


def test_a_field_beats_the_docstring_and_says_what_else_holds():
    """`Annotated[..., Field(...)]` stands nearer to the parameter."""

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


@pytest.mark.parametrize(
    "docstring",
    [
        "Look: it finds.\n\nExample:\n    word: 3\n",
        "Look.\n\nArgs:\n",
        "Look.\n\nArguments are: word.\n",
        "Look.\n\n:word: is no field of Sphinx",
    ],
)
def test_a_docstring_without_parameters_is_the_description_as_it_stands(docstring):
    """What only looks like a section is not cut out."""

    def look(word: str) -> str:
        return word

    look.__doc__ = docstring
    assert tool(look).description == docstring.strip()
    assert "description" not in properties(tool(look))["word"]


def test_a_function_without_a_docstring_is_described_by_its_name():
    """A description is never empty."""

    def look() -> str:
        return ""

    assert tool(look).description == "look"


def test_defaults_make_parameters_optional_and_odd_ones_are_left_out_in_silence():
    """What JSON has no word for is no default of the schema; warnings are errors here, so none was given."""
    nothing = object()

    @tool
    def look(word: str, where: Path = Path("a"), other: Any = nothing, plain=3) -> str:
        """Look."""
        return f"{word}{where}{plain}{other is nothing}"

    assert look.input_schema["required"] == ["word"]
    assert "default" not in properties(look)["other"]
    assert "type" not in properties(look)["plain"]
    assert properties(look)["plain"]["default"] == 3


async def test_arguments_become_what_the_annotations_say():
    """Models, dataclasses, enumerations, choices and optional values arrive as such."""
    seen = []

    @tool
    def look(
        place: Place,
        size: Size,
        colour: Colour,
        how: Literal["fast", "slow"],
        names: list[str],
        maybe: Optional[int] = None,  # noqa: UP045 - the older spelling is taken too
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
    """Nothing that JSON knows."""

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
async def test_what_a_function_returns_is_told_as_text_or_json(value, text):
    """Text as it is, nothing for None, JSON for the rest; never the `repr` of Python."""

    def give():
        return value

    async def give_later():
        return value

    assert (await tool(give).call({})).text == text
    if not text.startswith("[0"):
        assert (await tool(give_later).call({})).text == text


async def test_what_yields_without_an_end_stops_when_it_is_given_up():
    """Nobody waits for it any more, and it would fill the memory."""
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


async def test_what_a_function_yields_is_gathered_where_it_runs():
    """In its thread: it may block as long as the function itself."""

    @tool
    def give():
        """Give."""
        yield threading.current_thread() is threading.main_thread()

    assert (await give.call({})).text == "[false]"


async def test_what_a_function_does_to_its_arguments_changes_nothing_that_was_said():
    """The model's words are history."""

    @tool
    def give(names: Any) -> str:
        """Give."""
        names.append("b")
        return str(names)

    said = {"names": ["a"]}
    assert (await give.call(said)).text == "['a', 'b']"
    assert said == {"names": ["a"]}


async def test_what_cannot_be_told_is_an_error_result():
    """A list that holds itself has no end."""
    endless: list[Any] = []
    endless.append(endless)

    def give():
        return endless

    with pytest.raises(ToolError, match="cannot be written as JSON"):
        await tool(give).call({})


class Desk:
    """Has a method, can be called, and knows something."""

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


async def test_methods_objects_and_partial_functions_are_functions():
    """A bound method, an object that can be called, and a partial, whose bound arguments no model sees."""
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


async def test_a_wrapped_function_is_seen_through_its_wrapper():
    """`functools.wraps` keeps name, docstring and parameters."""

    @functools.wraps(looks)
    def wrapper(*arguments, **named):
        return looks(*arguments, **named).upper()

    assert list(properties(tool(wrapper))) == ["word", "where", "times"]
    assert (await tool(wrapper).call({"word": "x"})).text == "X HERE 1"


def starred(*words: str) -> str:
    """Look."""


def by_place(word, /) -> str:
    """Look."""


def unknown(word: "Nowhere") -> str:  # noqa: F821 - that is the point
    """Look."""


def only_for_types(word: "OnlyForTypes") -> str:
    """Look."""


def no_schema(good: str, word: Desk) -> str:
    """Look."""


def takes_callable(word: "asyncio.Future") -> str:
    """Look."""


def two(one: Context, other: Context) -> str:
    """Look."""


def broken(word: "1 / 0") -> str:
    """Look."""


async def yields(word: str):
    """Look."""
    yield word


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (starred, "starred: the parameter *words cannot be given by name"),
        (by_place, "by_place: the parameter word cannot be given by name"),
        (unknown, "unknown: no JSON Schema can be made of the parameter word: name 'Nowhere' is not defined"),
        (only_for_types, "only_for_types: no JSON Schema can be made of the parameter word: name 'OnlyForTypes'"),
        (no_schema, "no_schema: no JSON Schema can be made of the parameter word: "),
        (takes_callable, "takes_callable: no JSON Schema can be made of the parameter word: "),
        (two, "two: no JSON Schema can be made of the parameter other: "),
        (broken, "broken: no JSON Schema can be made of the parameter word: division by zero"),
        (yields, "yields: is an asynchronous generator"),
        (Desk.look, "look: is the method of no object yet"),
        (Place, "Place: is a class; a tool is made of a function"),
        (3, "int: is of the type int; a tool is made of a function"),
        (lambda: "", "'<lambda>': a tool's name is made of"),
        (Tool("look", "Look.", looks), "Tool: is a tool already"),
        (math.hypot, "hypot: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_function_that_no_model_could_call_is_refused_in_one_line(function, said):
    """The function is named, and the parameter where one is at fault."""
    with pytest.raises(UsageError) as caught:
        tool(function)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"name": "two words"}, {"name": ""}, {"name": "x" * 65}, {"timeout": 0}, {"timeout": -1}], ids=str
)
def test_a_name_or_a_timeout_that_makes_no_sense_is_refused(given):
    """Before any model sees it."""
    with pytest.raises(UsageError):
        tool(**given)(looks)


def typed(word: str, context: Context) -> str:
    """Look."""
    return context.call_id


def optional(word: str, context: Context | None = None) -> str:
    """Look."""
    return context.call_id


def older(word: str, context: Optional[Context] = None) -> str:  # noqa: UP045 - the older spelling is taken too
    """Look."""
    return context.call_id


def annotated(word: str, context: Annotated[Context, "a note"]) -> str:
    """Look."""
    return context.call_id


def text(word: str, context: "Context") -> str:
    """Look."""
    return context.call_id


def named(word: str, ctx) -> str:
    """Look."""
    return ctx.call_id


async def late(word: str, context: Context) -> str:
    """Look."""
    return context.call_id


def elsewhere(word, context) -> str:
    """Look."""
    return context.call_id


# As a function whose module imports the name for type checkers alone.
elsewhere = type(elsewhere)(elsewhere.__code__, {"__builtins__": __builtins__}, "elsewhere")
elsewhere.__annotations__ = {"word": "str", "context": "run_specialist.Context | None"}


@pytest.mark.parametrize("function", [typed, optional, older, annotated, text, named, late, elsewhere])
async def test_the_context_is_handed_in_and_never_shown(function):
    """By its type in any spelling, or by the name `ctx`; no model sees it or can give it."""
    made = tool(function)
    assert list(properties(made)) == ["word"]
    assert (await made.call({"word": "x"}, CONTEXT)).text == "call-1"
    with pytest.raises(ToolError):
        await made.call({"word": "x", "context": {}, "ctx": {}}, CONTEXT)


async def test_what_is_left_can_be_asked_for():
    """By the kind's name; None where there is no limit, and an unknown kind is told."""

    @tool
    def look(kind: str, ctx: run_specialist.Context) -> str:
        """Look."""
        return f"{ctx.left(kind)} of {ctx.limit(kind).limit}, {ctx.left()} calls, {ctx.seconds} s"

    assert (await look.call({"kind": "tool_calls"}, CONTEXT)).text == "4 of 4, 4 calls, 60 s"
    assert (await look.call({"kind": "tokens"}, CONTEXT)).text == "None of None, 4 calls, 60 s"
    with pytest.raises(ValueError, match="calls"):
        await look.call({"kind": "calls"}, CONTEXT)
