"""Types of the values of a specialist's fields, each with a description of valid values."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected value of a field."""

    phrase: str
    """Noun phrase for error messages, following "must be"."""
    number: bool = False
    """Whether a quoted number is accepted as a number, with a warning."""
    if_number: str = ""
    """The key that was probably meant if the value is a number; empty if there is none."""

    def hint(self, found: object) -> str:
        """Return advice for an invalid value, as the end of the error message; empty if there is none.

        found: the value, or its text in the file.
        """
        is_limit = re.fullmatch(r"[0-9]+|none", str(found).strip().strip("'\""), re.IGNORECASE)
        return f"; to limit their number use {self.if_number}" if self.if_number and is_limit else ""


def none_word(value: object) -> object:
    """Return None for the word `none`; other values unchanged."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _duration(value: object) -> object:
    match = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    return float(match[1]) * _SECONDS[match[2]] if match else value


def lower(value: object) -> object:
    """Return a text in lower case, without spaces at its ends; other values unchanged."""
    return value.strip().lower() if isinstance(value, str) else value


def _share_or_calls(value: object) -> object:
    if isinstance(value, float) and value > 1:
        raise ValueError("a share is at most 1.0")
    return value


def _inside(folder: str) -> str:
    if not folder.strip():
        raise ValueError("empty")
    if folder.startswith(("/", "~")) or ".." in folder.replace("\\", "/").split("/"):
        raise ValueError("outside of the root")
    return folder


def path_not_markup(value: object) -> object:
    """Return the value; raise ValueError for a text that cannot be a path."""
    # Invalid YAML arrives as text and must not be used as a file name.
    if isinstance(value, str) and (value.startswith(("{", "[")) or "\n" in value):
        raise ValueError("not a path")
    return value


def _function(name: str) -> str:
    if not _FUNCTION.fullmatch(name):
        raise ValueError("not module:function")
    return name


def _schema(kind: str, *, none: bool = False, least: int = 0, text: bool = False) -> WithJsonSchema:
    """Return the schema for editors: a number, or the string "none" or a duration."""
    choices: list[dict[str, Any]] = [{"type": kind, "minimum": least}]
    if text:
        choices.append({"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)? ?[smh]|none)$"})
    elif none:
        choices.append({"const": "none"})
    return WithJsonSchema({"anyOf": choices} if len(choices) > 1 else choices[0])


_Whole = Annotated[int, Field(strict=True, ge=0)]
_Positive = Annotated[int, Field(strict=True, ge=1)]
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]

_OrNone = BeforeValidator(none_word)
Limit = Annotated[
    _Whole | None, _OrNone, _schema("integer", none=True), Expected("an integer of at least 0, or none", number=True)
]
Money = Annotated[
    _Amount | None,
    _OrNone,
    _schema("number", none=True),
    Expected("an amount in USD of at least 0, or none", number=True),
]
Time = Annotated[
    _Amount | None,
    BeforeValidator(_duration),
    _OrNone,
    _schema("number", text=True),
    Expected("a number of seconds, a duration like 90s, 10m or 1h, or none", number=True),
]
Seconds = Annotated[
    Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)],
    BeforeValidator(_duration),
    _schema("number", text=True),
    Expected("a number of seconds above 0, or a duration like 90s or 10m", number=True),
]
Count = Annotated[_Positive, _schema("integer", least=1), Expected("an integer of at least 1", number=True)]
OptionalCount = Annotated[
    _Positive | None,
    _OrNone,
    _schema("integer", none=True, least=1),
    Expected("an integer of at least 1, or none", number=True),
]
Switch = Annotated[bool, Field(strict=True), Expected("true or false")]
Share = Annotated[
    Annotated[int, Field(strict=True, ge=0)] | Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None,
    _OrNone,
    AfterValidator(_share_or_calls),
    _schema("number", none=True),
    Expected("a share from 0.0 to 1.0, an integer number of calls left, or none"),
]
AsList = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
Names = Annotated[tuple[str, ...], AsList, Expected("a list of names")]
OptionalNames = Annotated[tuple[str, ...] | None, AsList, Expected("a list of names")]
InnerPath = Annotated[str, AfterValidator(_inside)]
FunctionName = Annotated[str, AfterValidator(_function)]
