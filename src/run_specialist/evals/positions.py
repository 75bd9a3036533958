"""Parse YAML or JSON and keep the position of each value."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from run_specialist.errors import UsageError
from run_specialist.safe_files import safe_open
from run_specialist.specialist.problems import START, Position, shown
from run_specialist.specialist.reading.nodes import DEEPEST

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

LARGEST = 8 * 1024 * 1024
"""Maximum size of a file [bytes]."""
MOST_VALUES = 50_000
"""Maximum number of values: a small file may refer to the same values often, so bytes do not limit them."""


_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)")


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value with its position."""

    value: Any
    """A JSON value, or a date in YAML."""
    place: Position
    fields: "tuple[tuple[str, PlacedValue, PlacedValue], ...]" = ()
    """Entries of a mapping: the key as text, the key's position, and the value."""
    items: "tuple[PlacedValue, ...]" = ()
    """Items of a list."""

    def get(self, key: str) -> "PlacedValue | None":
        """Return the value of a key."""
        return next((value for name, _, value in self.fields if name == key), None)


def read(path: Path) -> PlacedValue:
    """Return the content of a file; raises UsageError with the position of the first error."""
    try:
        with safe_open.open_file(path, None) as file:
            data = file.read(LARGEST + 1)
    except safe_open.NotRegular:
        raise UsageError(f"{_file(path)}: is not a regular file") from None
    except OSError as error:
        raise UsageError(f"{_file(path)}: cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{_file(path)}: is larger than {LARGEST // 1024**2} MiB")
    try:
        text = data.decode("utf-8-sig")
        return parse(_json_as_yaml(text) if path.suffix == ".json" else text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{_file(path)}:{line}:1: is not UTF-8") from None
    except NotReadable as error:
        line, column = error.place
        raise UsageError(f"{_file(path)}:{line}:{column}: {error}") from None


class NotReadable(ValueError):
    """A text is not YAML, or too large."""

    def __init__(self, text: str, place: Position = START) -> None:
        """Store the position with the message."""
        super().__init__(text)
        self.place = place


def parse(text: str) -> PlacedValue:
    """Return the value of a YAML text, which may be JSON; raises NotReadable."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise NotReadable("the file is empty")
            return _NodeReader(loader).placed(node, 0)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = START if mark is None else Position(mark.line + 1, mark.column + 1)
        # Of a tab, the parser says only that it cannot start a token.
        is_tab = mark is not None and "".join(text.split("\n")[mark.line : mark.line + 1])[mark.column :][:1] == "\t"
        reason = "a tab cannot indent a line; use spaces" if is_tab else error.problem or error.context
        raise NotReadable(f"is not YAML: {reason}", place) from None
    except yaml.YAMLError as error:
        raise NotReadable(f"is not YAML: {shown(' '.join(str(error).split()), 200)}") from None
    except RecursionError:
        raise NotReadable(f"is nested deeper than {DEEPEST} levels") from None


class _NodeReader:
    def __init__(self, loader: Any) -> None:  # noqa: ANN401 - either loader of PyYAML
        self._loader = loader
        self._left = MOST_VALUES

    def placed(self, node: yaml.Node, depth: int) -> PlacedValue:
        place = Position(node.start_mark.line + 1, node.start_mark.column + 1)
        self._left -= 1
        if self._left < 0:
            raise NotReadable(f"has more than {MOST_VALUES:,} values", place)
        if depth > DEEPEST:
            raise NotReadable(f"is nested deeper than {DEEPEST} levels", place)
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.placed(one, depth + 1) for one in node.value)
            return PlacedValue([one.value for one in items], place, items=items)
        if isinstance(node, yaml.MappingNode):
            fields = tuple(self._fields(node, depth))
            return PlacedValue({name: value.value for name, _, value in fields}, place, fields=fields)
        try:
            return PlacedValue(self._loader.construct_object(node), place)
        except (ValueError, OverflowError):
            # A date such as 2026-99-99 has the form of one.
            return PlacedValue(node.value, place)

    def _fields(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, PlacedValue, PlacedValue]]:
        self._loader.flatten_mapping(node)
        seen = set()
        for key_node, value_node in node.value:
            key = self.placed(key_node, depth + 1)
            if not isinstance(key.value, str | int | float | bool):
                raise NotReadable("a key must be a text", key.place)
            if key.value in seen:
                raise NotReadable(f"the key {shown(str(key.value))} occurs twice", key.place)
            seen.add(key.value)
            yield str(key.value), key, self.placed(value_node, depth + 1)


def _json_as_yaml(text: str) -> str:
    """Return JSON that a YAML parser accepts: without tabs as indentation, and without surrogate escapes."""
    return _ESCAPE.sub(_whole, text.replace("\t", " "))


def _whole(match: re.Match[str]) -> str:
    if not match[1]:
        return match[0]
    return (int(match[1], 16).to_bytes(2, "big") + int(match[2], 16).to_bytes(2, "big")).decode("utf-16-be")


def _file(path: Path) -> str:
    return shown(str(path), None)
