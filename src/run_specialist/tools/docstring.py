"""A function's docstring, taken apart: what it does, and what its parameters mean."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SECTIONS = {
    "GOOGLE": r"(?:Args|Arguments|Parameters|Params):[ \t]*\n(?:[ \t]+.*(?:\n|\Z)|[ \t]*\n)*",
    "NUMPYDOC": r"(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?:(?!\S.*\n-{3,}).*(?:\n|(?<=.)\Z))*",
    "REST": r":(?:param|parameter|arg|argument|key|keyword|type)\b.*(?:\n|\Z)(?:[ \t]+.*(?:\n|\Z))*",
}
"""How the parameters stand in each style."""


@dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring tells a model."""

    description: str
    """All but the section on parameters."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What each of them means, on one line."""


def read(text: str) -> Docstring:
    """Take a docstring apart, written as Google, NumPy or Sphinx have it; of any other it is all description.

    text: without the indentation of the code.
    """
    import docstring_parser  # noqa: PLC0415 - 30 ms that only tools of one's own cost

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docstring(text)
    told = {
        name.strip(): " ".join((one.description or "").split())
        for one in parsed.params
        for name in one.arg_name.split(",")
    }
    section = _SECTIONS.get(parsed.style.name) if parsed.style and told else None
    if section is None:
        return Docstring(text)
    rest = re.sub(rf"^{section}", "", text, flags=re.MULTILINE)
    description = re.sub(r"\n{3,}", "\n\n", rest).strip()
    return Docstring(description, {name: words for name, words in told.items() if words})
