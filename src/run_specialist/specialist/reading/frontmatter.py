"""Read a specialist's file: bytes to fields with their places, the body, and what was wrong."""

import re
from dataclasses import dataclass

from frontmatter.default_handlers import YAMLHandler

from run_specialist.specialist.keys import canonical, is_known
from run_specialist.specialist.problems import START, Position, Problems, shown
from run_specialist.specialist.reading import fallback
from run_specialist.specialist.reading.decoding import decode
from run_specialist.specialist.reading.fences import FencedParts, cut
from run_specialist.specialist.reading.nodes import Chunk, Node, Pairs, Scalar, UnreadableError, parse, value_of

# A blank line, and after it nothing but headings.
_BLANK_BEFORE = re.compile(r"\n[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the front matter with its value as it was read, not yet checked."""

    key: str
    """As written; the canonical spelling is what it is filed under."""
    node: Node
    chunk: Chunk
    key_place: Position

    @property
    def place(self) -> Position:
        """Where the value starts, or its key where the value stands on lines of its own."""
        start = self.chunk.place(self.node.start)
        return start if start.line == self.key_place.line else self.key_place

    @property
    def source(self) -> str:
        """The value as written."""
        return self.chunk.text[self.node.start : self.node.end]


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A file taken apart."""

    fields: dict[str, Field]
    """By canonical key, unknown ones included; of repeated keys the last."""
    body: str
    present: bool
    """Whether there was any front matter."""


class LenientHandler(YAMLHandler):
    """Handler for `frontmatter.loads(text, handler=...)` that takes what real files hold; one per file."""

    def __init__(self, problems: Problems) -> None:
        """Report to `problems` what had to be forgiven."""
        super().__init__()
        self._problems = problems
        self.fields: dict[str, Field] = {}
        """What `split` found, by canonical key."""

    def detect(self, text: str) -> bool:
        """Tell whether the text starts with front matter."""
        return cut(text, Problems(self._problems.path)) is not None

    def split(self, text: str) -> tuple[str, str]:
        """Return front matter and body, and fill `fields`; raises ValueError where there is no front matter."""
        parts = cut(text, self._problems)
        if parts is None:
            raise ValueError("no front matter")
        front, body = parts.front, parts.text[parts.body :]
        chunk = Chunk(front, parts.line, parts.indent)
        try:
            root = parse(front)
        except UnreadableError as error:
            # The end of the text stands on its last line, not on the fence below.
            place = chunk.place(min(error.index, len(front.rstrip())))
            self._problems.warn(place, f"is no valid YAML ({error}); read line by line")
        else:
            if root is None:
                return front, body
            if isinstance(root, Pairs) and not _holds_prose(root, front):
                self._take_pairs(root, chunk)
                return front, body
            self._problems.warn(chunk.place(root.start), "the front matter is not keys only; read line by line")
        used = self._take_stretches(front, parts)
        if not self.fields:
            raise ValueError("no keys between the fences")
        if used < len(front):
            self._problems.warn(chunk.place(used + 1), "the front matter is never closed; this is taken for the body")
            return front[:used], parts.text[parts.start + used :]
        return front, body

    def load(self, fm: str, **_: object) -> dict[str, object]:  # noqa: ARG002, `split` has read it already
        """Return the fields as plain values."""
        return {key: value_of(field.node)[0] for key, field in self.fields.items()}

    def _take_pairs(self, root: Pairs, chunk: Chunk) -> None:
        for key, node in root.pairs:
            if isinstance(key, Scalar):
                self._file(Field(key.text.strip(), node, chunk, chunk.place(key.start)))
            else:
                self._problems.warn(chunk.place(key.start), "a key that is a list or a map is left out")

    def _take_stretches(self, front: str, parts: FencedParts) -> int:
        stretches, used = fallback.stretches(front, parts.line)
        # Of a damaged file with thousands of lines only what is used is worth reading as YAML.
        last = {canonical(stretch.key): stretch for stretch in stretches}
        for stretch in stretches:
            place = Position(stretch.line, parts.indent + 1)
            if stretch is last[canonical(stretch.key)] and is_known(stretch.key):
                node, chunk = fallback.read_stretch(stretch, self._problems)
            else:
                node, chunk = Scalar(0, len(stretch.text), stretch.text), Chunk(stretch.text, stretch.line)
            self._file(Field(stretch.key, node, chunk, place))
        return used

    def _file(self, field: Field) -> None:
        key = canonical(field.key)
        if earlier := self.fields.get(key):
            self._problems.warn(
                field.key_place,
                f"given on line {earlier.key_place.line} and again on line {field.key_place.line}; the last wins",
                shown(key),
            )
        self.fields[key] = field


def _holds_prose(root: Pairs, front: str) -> bool:
    """Tell whether a sentence after a blank line was taken for a key: the fence was never closed."""
    keys = [key for key, _ in root.pairs if isinstance(key, Scalar)]
    return any(" " in key.text.strip() and _BLANK_BEFORE.search(front[: key.start]) for key in keys)


def read(data: bytes | str, problems: Problems) -> FrontMatter:
    """Take a file apart; whatever it holds, the result is usable and what was odd stands in `problems`."""
    text = decode(data, problems)
    handler = LenientHandler(problems)
    try:
        _, body = handler.split(text)
    except ValueError:
        why = ", the file starts with a code fence" if text.lstrip().startswith("```") else ""
        problems.warn(START, f"no front matter{why}: the file's name and first words stand in for name and description")
        return FrontMatter({}, text.strip("\n"), present=False)
    return FrontMatter(handler.fields, _without_leading_blank_lines(body), present=True)


def _without_leading_blank_lines(body: str) -> str:
    text = body.lstrip()
    first = body.rfind("\n", 0, len(body) - len(text)) + 1
    return body[first:].rstrip()
