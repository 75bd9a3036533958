"""Parser that splits a docstring into a description and the parameters' descriptions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SECTIONS = {
    "GOOGLE": r"(?:Args|Arguments|Parameters|Params):[ \t]*\n(?:[ \t]+.*(?:\n|\Z)|[ \t]*\n)*",
    "NUMPYDOC": r"(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?:(?!\S.*\n-{3,}).*(?:\n|(?<=.)\Z))*",
    "REST": r":(?:param|parameter|arg|argument|key|keyword|type)\b.*(?:\n|\Z)(?:[ \t]+.*(?:\n|\Z))*",
}
"""Pattern of the parameter section in each docstring style."""


@dataclass(frozen=True, slots=True)
class Docstring:
    """Parsed docstring."""

    description: str
    """Text without the parameter section."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Description of each parameter, on one line."""


def read(text: str) -> Docstring:
    """Parse a docstring in Google, NumPy or Sphinx style; in any other style, all of it is the description.

    text: the docstring without the indentation of the code.
    """
    import docstring_parser  # noqa: PLC0415 - takes 30 ms, and only custom tools need it

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docstring(text)
    parameters = {
        name.strip(): " ".join((one.description or "").split())
        for one in parsed.params
        for name in one.arg_name.split(",")
    }
    section = _SECTIONS.get(parsed.style.name) if parsed.style and parameters else None
    if section is None:
        return Docstring(text)
    rest = re.sub(rf"^{section}", "", text, flags=re.MULTILINE)
    description = re.sub(r"\n{3,}", "\n\n", rest).strip()
    return Docstring(description, {name: meaning for name, meaning in parameters.items() if meaning})
