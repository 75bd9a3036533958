"""Parse a specialist file into fields with positions, the body, and problems."""

import re
from dataclasses import dataclass

from frontmatter.default_handlers import YAMLHandler

from run_specialist.specialist.keys import canonical, is_known
from run_specialist.specialist.problems import START, Position, Problems, shown
from run_specialist.specialist.reading import fallback
from run_specialist.specialist.reading.decoding import decode
from run_specialist.specialist.reading.fences import FencedParts, cut
from run_specialist.specialist.reading.nodes import (
    Chunk,
    MappingNode,
    Node,
    ScalarNode,
    UnreadableError,
    parse,
    value_of,
)

# A blank line followed only by headings.
_BLANK_BEFORE = re.compile(r"\n[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the front matter with its parsed, unchecked value."""

    key: str
    """Key as written in the file."""
    node: Node
    chunk: Chunk
    key_place: Position

    @property
    def place(self) -> Position:
        """Start of the value, or of the key if the value is on separate lines."""
        start = self.chunk.place(self.node.start)
        return start if start.line == self.key_place.line else self.key_place

    @property
    def source(self) -> str:
        """Value as written in the file."""
        return self.chunk.text[self.node.start : self.node.end]


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A parsed file."""

    fields: dict[str, Field]
    """Fields by canonical key, including unknown keys; the last of a repeated key."""
    body: str
    present: bool
    """Whether the file has front matter."""


class LenientHandler(YAMLHandler):
    """Lenient handler for `frontmatter.loads(text, handler=...)`; use one per file."""

    def __init__(self, problems: Problems) -> None:
        """Set where tolerated deviations are reported."""
        super().__init__()
        self._problems = problems
        self.fields: dict[str, Field] = {}
        """Fields found by `split`, by canonical key."""

    def detect(self, text: str) -> bool:
        """Return whether the text starts with front matter."""
        return cut(text, Problems(self._problems.path)) is not None

    def split(self, text: str) -> tuple[str, str]:
        """Return front matter and body, and fill `fields`; raises ValueError if there is no front matter."""
        parts = cut(text, self._problems)
        if parts is None:
            raise ValueError("no front matter")
        front, body = parts.front, parts.text[parts.body :]
        chunk = Chunk(front, parts.line, parts.indent)
        try:
            root = parse(front)
        except UnreadableError as error:
            # An error at the end is reported on the last line, not on the fence below.
            place = chunk.place(min(error.index, len(front.rstrip())))
            self._problems.warn(place, f"is not valid YAML ({error}); parsed line by line")
        else:
            if root is None:
                return front, body
            if isinstance(root, MappingNode) and not _holds_prose(root, front):
                self._take_pairs(root, chunk)
                return front, body
            self._problems.warn(
                chunk.place(root.start), "the front matter contains more than keys; parsed line by line"
            )
        used = self._take_spans(front, parts)
        if not self.fields:
            raise ValueError("no keys between the fences")
        if used < len(front):
            text = "the front matter has no closing fence; the body is assumed to start here"
            self._problems.warn(chunk.place(used + 1), text)
            return front[:used], parts.text[parts.start + used :]
        return front, body

    def load(self, fm: str, **_: object) -> dict[str, object]:  # noqa: ARG002, already parsed by `split`
        """Return the fields as plain values."""
        return {key: value_of(field.node)[0] for key, field in self.fields.items()}

    def _take_pairs(self, root: MappingNode, chunk: Chunk) -> None:
        for key, node in root.pairs:
            if isinstance(key, ScalarNode):
                self._add(Field(key.text.strip(), node, chunk, chunk.place(key.start)))
            else:
                self._problems.warn(chunk.place(key.start), "a key that is a list or a map is ignored")

    def _take_spans(self, front: str, parts: FencedParts) -> int:
        spans, used = fallback.field_spans(front, parts.line)
        # Damaged files may have thousands of fields, so only the values that are used are parsed as YAML.
        last = {canonical(span.key): span for span in spans}
        for span in spans:
            place = Position(span.line, parts.indent + 1)
            if span is last[canonical(span.key)] and is_known(span.key):
                node, chunk = fallback.read_span(span, self._problems)
            else:
                node, chunk = ScalarNode(0, len(span.text), span.text), Chunk(span.text, span.line)
            self._add(Field(span.key, node, chunk, place))
        return used

    def _add(self, field: Field) -> None:
        key = canonical(field.key)
        if earlier := self.fields.get(key):
            self._problems.warn(
                field.key_place,
                f"given on lines {earlier.key_place.line} and {field.key_place.line}; the last one is used",
                shown(key),
            )
        self.fields[key] = field


def _holds_prose(root: MappingNode, front: str) -> bool:
    """Return whether a sentence after a blank line was parsed as a key, because the closing fence is missing."""
    keys = [key for key, _ in root.pairs if isinstance(key, ScalarNode)]
    return any(" " in key.text.strip() and _BLANK_BEFORE.search(front[: key.start]) for key in keys)


def read(data: bytes | str, problems: Problems) -> FrontMatter:
    """Parse a file; any content gives a usable result, and deviations are added to `problems`."""
    text = decode(data, problems)
    handler = LenientHandler(problems)
    try:
        _, body = handler.split(text)
    except ValueError:
        why = " (the file starts with a code fence)" if text.lstrip().startswith("```") else ""
        fallback_used = "using the file name as name and the first line of text as description"
        problems.warn(START, f"no front matter{why}; {fallback_used}")
        return FrontMatter({}, text.strip("\n"), present=False)
    return FrontMatter(handler.fields, _without_leading_blank_lines(body), present=True)


def _without_leading_blank_lines(body: str) -> str:
    text = body.lstrip()
    first = body.rfind("\n", 0, len(body) - len(text)) + 1
    return body[first:].rstrip()
