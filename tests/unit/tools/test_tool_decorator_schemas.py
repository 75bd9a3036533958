"""`@tool`: the description and input schema made from a function."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

import run_specialist
from run_specialist.tools.base import Context
from run_specialist.tools.python_tools import tool
from tests.unit.tools.decorated_functions import properties

pytestmark = pytest.mark.anyio


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
def test_parameter_descriptions_come_from_the_docstring(docstring):
    """Parameter descriptions come from Google, NumPy and Sphinx docstrings.

    The parameter section is removed from the tool's description; everything else is kept.
    """

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


@pytest.mark.parametrize(
    "docstring",
    [
        "Look: it finds.\n\nExample:\n    word: 3\n",
        "Look.\n\nArgs:\n",
        "Look.\n\nArguments are: word.\n",
        "Look.\n\n:word: is no field of Sphinx",
    ],
)
def test_a_docstring_without_parameters_is_the_description(docstring):
    """Text that only looks like a parameter section stays in the description."""

    def look(word: str) -> str:
        return word

    look.__doc__ = docstring
    assert tool(look).description == docstring.strip()
    assert "description" not in properties(tool(look))["word"]


def test_a_function_without_a_docstring_is_described_by_its_name():
    """A function without a docstring has its name as description, since a description is never empty."""

    def look() -> str:
        return ""

    assert tool(look).description == "look"


def test_parameters_with_a_default_are_optional():
    """A default makes a parameter optional.

    The schema omits a default that JSON cannot represent; a warning would fail this test.
    """
    nothing = object()

    @tool
    def look(word: str, where: Path = Path("a"), other: Any = nothing, plain=3) -> str:
        """Look."""
        return f"{word}{where}{plain}{other is nothing}"

    assert look.input_schema["required"] == ["word"]
    assert "default" not in properties(look)["other"]
    assert "type" not in properties(look)["plain"]
    assert properties(look)["plain"]["default"] == 3
