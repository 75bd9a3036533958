"""Types and functions that tests decorate with `@tool`."""

from pydantic import BaseModel


class Place(BaseModel):
    """A place on a map."""

    x: int
    y: int = 0


def properties(made):
    """Return the properties of a tool's schema."""
    return made.input_schema["properties"]
