"""Types and functions that tests decorate with `@tool`."""

from pydantic import BaseModel


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
