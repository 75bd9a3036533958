"""Parse YAML to nodes with positions, and convert nodes to plain values."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from run_specialist.specialist.problems import Position

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

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


def parse(text: str) -> Node | None:
    """Return the root node of a YAML text, None for an empty one; no Python object is constructed from it.

    Uses the parser's events, because the composer of libyaml overflows the C stack on deep nesting.
    Raises UnreadableError.
    """
    if len(text) > LONGEST:
        raise UnreadableError(f"longer than {LONGEST:,} characters", 0)
    try:
        return _compose(iter(yaml.parse(text, Loader=_Loader)), text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableError(error.problem or str(error), mark.index if mark else 0) from None
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
            node = _collection(source, children, end)
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


def _collection(opened: yaml.CollectionStartEvent, children: list[Node], end: int) -> Node:
    start = _span(opened)[0]
    if isinstance(opened, yaml.SequenceStartEvent):
        return SequenceNode(start, end, tuple(children))
    return MappingNode(start, end, tuple(zip(children[::2], children[1::2], strict=True)))


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
    expansion = _Expansion(MOST_VALUES, [])
    return expansion.value(node, 0), tuple(expansion.repeated)


@dataclass(slots=True)
class _Expansion:
    left: int
    repeated: list[ScalarNode]

    def value(self, node: Node, depth: int) -> object:
        self.left -= 1
        # Expanded aliases can nest deeper than the text.
        if self.left < 0 or depth > DEEPEST:
            raise UnreadableError(f"contains more than {MOST_VALUES:,} values or {DEEPEST} levels", node.start)
        if isinstance(node, ScalarNode):
            return scalar_value(node)
        if isinstance(node, SequenceNode):
            return [self.value(item, depth + 1) for item in node.items]
        result: dict[str, object] = {}
        for key, item in node.pairs:
            if not isinstance(key, ScalarNode):
                raise UnreadableError("a key is a list or a map", key.start)
            if key.text in result:
                self.repeated.append(key)
            result[key.text] = self.value(item, depth + 1)
        return result
