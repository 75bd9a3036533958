"""Parse YAML, JSON and TOML with the line of each value."""

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from run_specialist.errors import UsageError, errors_as
from run_specialist.safety import safe_files
from run_specialist.specialist.problems import Position, shown

# Without libyaml, PyYAML has only its own parser.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Two escapes of JSON for one character, which YAML would refuse.
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")
LARGEST = 8 * 1024 * 1024
"""Maximum size of a file [bytes]."""
MOST_CASE_VALUES = 50_000
"""Maximum number of values: a small file may refer to the same values often, so bytes do not limit them."""


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value with its position."""

    value: Any
    """A JSON value."""
    place: Position
    fields: "tuple[tuple[str, PlacedValue, PlacedValue], ...]" = ()
    """Entries of a mapping: the key as text, the key's position, and the value."""
    items: "tuple[PlacedValue, ...]" = ()
    """Items of a list."""

    def get(self, key: str) -> "PlacedValue | None":
        """Return the value of a key."""
        return next((value for name, _, value in self.fields if name == key), None)


def read_file(path: Path, project: Path | None, most: int) -> bytes:
    """Return the content of a regular file of at most so many bytes; raises ValueError with one clause.

    project: Folder that symlinks must not lead out of; None to follow all.
    """
    try:
        with safe_files.open_file(path, project) as file:
            data = file.read(most + 1)
    except safe_files.NotRegular:
        raise ValueError("is not a regular file") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most:
        raise ValueError(f"is larger than {most // 1024:,} KiB")
    return data


def read(path: Path, project: Path | None = None) -> PlacedValue:
    """Return the content of a YAML or JSON file; raises UsageError with the position of the first error.

    project: as for `read_file`.
    """
    name = shown(str(path), None)
    with errors_as(UsageError, name, ValueError):
        text = read_file(path, project, LARGEST).decode("utf-8-sig")
    if path.suffix == ".json":
        text = _SURROGATES.sub(lambda found: found[1] + json.loads(f'"{found[2]}"'), text)
    left = MOST_CASE_VALUES
    line_ends = [found.start() for found in re.finditer("\n", text)]

    def place(index: int) -> Position:
        line = bisect_left(line_ends, index)
        return Position(line + 1, index - (line_ends[line - 1] if line else -1))

    def placed(node: Node, depth: int = 0) -> PlacedValue:
        nonlocal left
        left -= 1
        if left < 0 or depth > DEEPEST:
            reason = f"has more than {MOST_CASE_VALUES:,} values" if left < 0 else f"is deeper than {DEEPEST} levels"
            raise UnreadableError(reason, node.start)
        if isinstance(node, ScalarNode):
            return PlacedValue(scalar_value(node), place(node.start))
        if isinstance(node, SequenceNode):
            items = tuple(placed(one, depth + 1) for one in node.items)
            return PlacedValue([one.value for one in items], place(node.start), items=items)
        fields: dict[str, tuple[str, PlacedValue, PlacedValue]] = {}
        for key, value in node.pairs:
            if not isinstance(key, ScalarNode):
                raise UnreadableError("a key must be a text", key.start)
            if key.text in fields:
                raise UnreadableError(f"the key {shown(key.text)} occurs twice", key.start)
            fields[key.text] = key.text, placed(key, depth + 1), placed(value, depth + 1)
        values = {key: value.value for key, _, value in fields.values()}
        return PlacedValue(values, place(node.start), fields=tuple(fields.values()))

    try:
        return placed(parse(text, LARGEST) or ScalarNode(0, 0, ""))
    except UnreadableError as error:
        line, column = place(error.index)
        raise UsageError(f"{name}:{line}:{column}: {error}") from None


DEEPEST = 60
LONGEST = 256 * 1024
MOST_VALUES = 10_000

_STR_TAG = "tag:yaml.org,2002:str"
CORE_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null"))
_INT = re.compile(r"[-+]?[0-9]+")
_INT_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


class UnreadableError(ValueError):
    """The text is invalid or unsupported YAML; `index` is the position of the error [characters]."""

    def __init__(self, text: str, index: int) -> None:
        """Store the position with the message."""
        super().__init__(text)
        self.index = index


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A scalar as text; `start` and `end` are the span of its source [characters]."""

    start: int
    end: int
    text: str
    plain: bool = True
    """Whether it is written without quotes and not as a block."""
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    start: int
    end: int
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A map, in the order of the file, including repeated keys."""

    start: int
    end: int
    pairs: tuple[tuple["Node", "Node"], ...]


Node = ScalarNode | SequenceNode | MappingNode


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file that is parsed separately."""

    text: str
    line: int
    """First line, counted in the file."""
    indent: int = 0
    """Number of columns removed from each line."""

    def place(self, index: int) -> Position:
        """Return the position in the file of a character in this chunk."""
        before = self.text.rfind("\n", 0, index)
        return Position(self.line + self.text.count("\n", 0, index), index - before + self.indent)


def parse(text: str, longest: int = LONGEST, line: int = 1) -> Node | None:
    """Return the root node of a YAML text, None for an empty one; no Python object is constructed from it.

    Uses the parser's events, because the composer of libyaml overflows the C stack on deep nesting.
    line: Number of its first line, for messages.
    Raises UnreadableError.
    """
    if len(text) > longest:
        raise UnreadableError(f"longer than {longest:,} characters", 0)
    try:
        return _compose(iter(yaml.parse(text, Loader=_Loader)), text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        index, reason = mark.index if mark else 0, error.problem or str(error)
        before = text[text.rfind("\n", 0, index) + 1 : index]
        # The parser names neither the tab nor the remedy.
        if text[index : index + 1] == "\t" and not before.strip():
            reason = f"line {line + text.count(chr(10), 0, index)} begins with a tab; use spaces"
        elif reason.startswith("mapping values are not allowed"):
            reason += '; put quotes around the value with ": " inside' if ": " in before else "; check the indentation"
        raise UnreadableError(reason, index) from None
    except yaml.reader.ReaderError as error:
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        raise UnreadableError(error.reason, bad.start() if bad else 0) from None
    except (ValueError, OverflowError) as error:  # PyYAML without libyaml, on an escape beyond Unicode
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(str(error), 0) from None


def _compose(events: Iterator[yaml.Event], text: str) -> Node | None:
    """Build the tree with an explicit stack, so that deep nesting is an error and not a crash."""
    root: Node | None = None
    anchors: dict[str, Node] = {}
    opened: list[tuple[yaml.CollectionStartEvent, list[Node]]] = []
    for event in events:
        node: Node
        source: yaml.Event = event
        start, end = _span(event)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(opened) >= DEEPEST:
                raise UnreadableError(f"nested more than {DEEPEST} levels deep", start)
            opened.append((event, []))
            continue
        if isinstance(event, yaml.ScalarEvent):
            node = ScalarNode(start, end, event.value, not event.style, None if event.tag == "!" else event.tag)
        elif isinstance(event, yaml.AliasEvent):
            node = anchors.get(str(event.anchor)) or ScalarNode(start, end, text[start:end])
        elif isinstance(event, yaml.CollectionEndEvent):
            source, children = opened.pop()
            start = _span(source)[0]
            if isinstance(source, yaml.SequenceStartEvent):
                node = SequenceNode(start, end, tuple(children))
            else:
                node = MappingNode(start, end, tuple(zip(children[::2], children[1::2], strict=True)))
        else:
            continue
        if isinstance(source, yaml.ScalarEvent | yaml.CollectionStartEvent) and source.anchor:
            anchors[source.anchor] = node
        if opened:
            opened[-1][1].append(node)
        elif root is None:
            # Continue parsing to find errors in the rest.
            root = node
        else:
            raise UnreadableError("more than one document", start)
    return root


def _span(event: yaml.Event) -> tuple[int, int]:
    return (event.start_mark.index if event.start_mark else 0, event.end_mark.index if event.end_mark else 0)


def scalar_value(node: ScalarNode) -> str | int | float | bool | None:
    """Return the YAML 1.2 value of a scalar: no yes/no booleans, no dates, no base 60."""
    if not node.plain or node.tag == _STR_TAG or (node.tag and node.tag not in CORE_TAGS):
        return node.text
    return plain_value(node.text)


def plain_value(text: str) -> str | int | float | bool | None:
    """Return the YAML 1.2 value of the text of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        if _INT.fullmatch(text):
            return int(text)
        if _INT_BASED.fullmatch(text):
            return int(text, 0)
    except ValueError:  # more digits than Python converts to an integer
        return text
    return float(text) if _FLOAT.fullmatch(text) else text


def is_null(node: Node) -> bool:
    """Return whether the value is empty, null or ~."""
    return isinstance(node, ScalarNode) and scalar_value(node) is None


def value_of(node: Node) -> tuple[object, tuple[ScalarNode, ...]]:
    """Return a node as dicts, lists and scalars, and the repeated keys of its maps, of which the last value wins.

    Raises UnreadableError if aliases expand it beyond `MOST_VALUES`, or if a key is not a scalar.
    """
    left = MOST_VALUES
    repeated: list[ScalarNode] = []

    def expanded(node: Node, depth: int) -> object:
        nonlocal left
        left -= 1
        # Expanded aliases can nest deeper than the text.
        if left < 0 or depth > DEEPEST:
            raise UnreadableError(f"contains more than {MOST_VALUES:,} values or {DEEPEST} levels", node.start)
        if isinstance(node, ScalarNode):
            return scalar_value(node)
        if isinstance(node, SequenceNode):
            return [expanded(item, depth + 1) for item in node.items]
        result: dict[str, object] = {}
        for key, item in node.pairs:
            if not isinstance(key, ScalarNode):
                raise UnreadableError("a key is a list or a map", key.start)
            if key.text in result:
                repeated.append(key)
            result[key.text] = expanded(item, depth + 1)
        return result

    return expanded(node, 0), tuple(repeated)


_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_AT_END = re.compile(r" ?\(at end of document\)$")
# Maximum number of parts of a dotted key, and of nested values; the parser's time for a key is quadratic in it.
_DEEPEST_TOML = 50
_TOO_MANY_PARTS = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_DEEPEST_TOML}}}(?=[\w"'-])"""
)

# The start of a line with the header of a table, or with a key and its value.
_STATEMENT = re.compile(r"""\s*+(?:\[\[?\s*+)?["']?([\w-]++)["']?\s*+[].=]""")


class InvalidToml(ValueError):
    """The text is not valid TOML."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(slots=True)
class TomlTable:
    """A table with the places of its keys."""

    values: dict[str, Any]
    places: dict[str, int] = field(default_factory=dict)
    """Line of each key whose place could be found."""
    header: int = 1
    """Line of the table's header; 1 if there is none."""

    def line(self, key: str) -> int:
        """Return the line on which a key is set; if unknown, that of the header."""
        return self.places.get(key, self.header)


def read_table(text: str, names: tuple[str, ...]) -> TomlTable | None:
    """Return a table of a TOML text; None if it does not exist.

    names: names of the table and its parents; empty for the whole text.
    Raises InvalidToml with the line.
    """
    import tomllib  # noqa: PLC0415 - only if there is such a file

    lines = text.splitlines(keepends=True)
    if found := _TOO_MANY_PARTS.search(text):
        raise InvalidToml(text.count("\n", 0, found.start()) + 1, f"a key has more than {_DEEPEST_TOML} parts")
    try:
        document: Any = tomllib.loads(text)
    except RecursionError:
        raise InvalidToml(1, "it is nested too deeply") from None
    except ValueError as error:
        reason = str(error)
        found = _AT_LINE.search(reason)
        raise InvalidToml(
            int(found[1]) if found else max(len(lines), 1), _AT_END.sub(" at the end", _AT_LINE.sub("", reason))
        ) from None
    if is_deeper(document, _DEEPEST_TOML):
        raise InvalidToml(1, "it is nested too deeply")
    for name in names:
        document = document.get(name)
        if not isinstance(document, dict):
            return None
    table = TomlTable(document)
    if names:
        header = r"\s*\.\s*".join(f"[\"']?{name}[\"']?" for name in names)
        starts = (number for number, line in enumerate(lines, 1) if re.match(rf"\s*\[\s*{header}\s*\]", line))
        table.header = next(starts, 1)
    # The first line that begins with a key; in a text of several lines, such a line is mistaken for the key.
    for number, line in enumerate(lines[table.header - 1 :], table.header):
        if found := _STATEMENT.match(line):
            table.places.setdefault(found[1], number)
    return table


def is_deeper(value: object, levels: int) -> bool:
    """Return whether maps and lists are nested in more than so many levels."""
    parts = [value]
    for _ in range(levels):
        inner = [part.values() if isinstance(part, dict) else part for part in parts if isinstance(part, dict | list)]
        parts = [item for items in inner for item in items]
    return bool(parts)
