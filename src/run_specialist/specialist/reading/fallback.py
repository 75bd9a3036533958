"""Parse front matter that is invalid YAML field by field."""

import re
import textwrap
from dataclasses import dataclass

from run_specialist.specialist.keys import canonical, starts_field_in_prose
from run_specialist.specialist.problems import Problems
from run_specialist.specialist.reading.fences import KEY, MOST_LINES, is_key_line
from run_specialist.specialist.reading.nodes import Chunk, MappingNode, Node, ScalarNode, UnreadableError, parse

_OPEN, _CLOSE = re.compile(r"<example\b"), re.compile(r"</example\b")
_PROSE_KEYS = frozenset({"description", "landing_prompt"})
_TITLE = re.compile(r"# \S")
_COMMENT = re.compile(r"#+(?:[ \t]|\Z)")
_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(?:\n|$)")
_ESCAPE = re.compile(r'\\(["\\/nt])')
_QUOTES = frozenset("\"'")
_ESCAPED = {"n": "\n", "t": "\t"}


@dataclass(frozen=True, slots=True)
class FieldSpan:
    """Source lines of one field."""

    key: str
    text: str
    line: int
    """First line, counted in the file."""


def field_spans(front: str, line: int) -> tuple[list[FieldSpan], int]:
    """Split invalid front matter into fields; also return the number of characters they cover.

    The rest belongs to the body: if the closing fence is missing, a `---` rule far below may end `front`.
    """
    lines = front.split("\n", MOST_LINES)
    margin = _margin(lines)
    last_close = max((i for i, text in enumerate(lines) if _CLOSE.search(text)), default=-1)
    last_key = _last_key(lines, margin)
    last_text = max((i for i, text in enumerate(lines) if text.strip() and not _COMMENT.match(text)), default=-1)
    starts: list[tuple[int, str]] = []
    in_prose, open_examples, blank_before = False, 0, False
    for index, text in enumerate(lines):
        if not text.strip():
            blank_before = True
            continue
        key = is_key_line(text.removeprefix(margin))
        if key and in_prose and ((open_examples and index <= last_close) or not starts_field_in_prose(key)):
            key = None
        if key:
            starts.append((index, key))
            in_prose, open_examples = canonical(key) in _PROSE_KEYS, 0
        elif starts and blank_before and not in_prose and _is_body(text):
            lines = lines[: _back_over_headings(lines, index)]
            break
        elif in_prose and last_key < index < last_text and not open_examples and _TITLE.match(text):
            lines = lines[:index]
            break
        open_examples = max(0, open_examples + len(_OPEN.findall(text)) - len(_CLOSE.findall(text)))
        blank_before = blank_before and text.startswith("#")
    ends = [*(start for start, _ in starts[1:]), len(lines)]
    fields = [
        FieldSpan(key, "\n".join(lines[start:end]), line + start)
        for (start, key), end in zip(starts, ends, strict=False)
    ]
    return fields, len("\n".join(lines))


def read_span(span: FieldSpan, problems: Problems) -> tuple[Node, Chunk]:
    """Return the value of a field: parsed as YAML if the field alone is valid, otherwise its text."""
    chunk = Chunk(span.text, span.line)
    try:
        root = parse(span.text)
    except UnreadableError:
        root = None
    if isinstance(root, MappingNode) and len(root.pairs) == 1:
        key, node = root.pairs[0]
        if isinstance(key, ScalarNode) and key.text == span.key:
            return _with_line_breaks(node), chunk
    match = KEY.search(span.text)
    start = match.end() if match else 0
    if start < len(span.text) and not span.text[start].isspace():
        problems.warn(chunk.place(start), "no blank after the colon", span.key)
    start += len(span.text[start:]) - len(span.text[start:].lstrip())
    return _raw(span, start, chunk, problems), chunk


def _margin(lines: list[str]) -> str:
    """Return the indentation of the first line, which all keys share."""
    first = next((line for line in lines if line.strip()), "")
    return first[: len(first) - len(first.lstrip())]


def _last_key(lines: list[str], margin: str) -> int:
    """Return the index of the last line with a key that can end a description, or -1; code blocks are skipped."""
    last, in_code = -1, False
    for index, text in enumerate(lines):
        if text.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and (key := is_key_line(text.removeprefix(margin))) and starts_field_in_prose(key):
            last = index
    return last


def _without_comments(text: str) -> str:
    """Remove trailing comment lines, which belong to the next key."""
    lines = text.split("\n")
    while len(lines) > 1 and (not lines[-1].strip() or _COMMENT.match(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def _is_body(text: str) -> bool:
    return text[0] not in " \t-#]})\"'"


def _back_over_headings(lines: list[str], index: int) -> int:
    while index and (not lines[index - 1].strip() or lines[index - 1].startswith("#")):
        index -= 1
    return index


def _with_line_breaks(node: Node) -> Node:
    r"""Replace a literal `\n` in a plain scalar by a newline."""
    if isinstance(node, ScalarNode) and node.plain and "\\n" in node.text:
        return ScalarNode(node.start, node.end, node.text.replace("\\n", "\n"), plain=False)
    return node


def _raw(span: FieldSpan, start: int, chunk: Chunk, problems: Problems) -> ScalarNode:
    """Return the text after the colon as one scalar, with later lines dedented."""
    raw = _without_comments(span.text[start:]).rstrip()
    end = start + len(raw)
    block = _BLOCK.match(raw)
    last = chunk.place(end).line
    if raw and not block and last > span.line:
        problems.warn(chunk.place(0), f"is not valid YAML; using its text up to line {last}", span.key)
    first, _, rest = ("", "", raw[block.end() :]) if block else raw.partition("\n")
    text = f"{first}\n{textwrap.dedent(rest)}".strip() if rest else first
    unquoted = _unquote(text)
    if unquoted is None and text[:1] in _QUOTES and not _closing(text[0]).search(text, 1):
        problems.warn(chunk.place(start), "an opening quote is never closed", span.key)
        unquoted = text[1:].strip().replace("\\n", "\n")
    if unquoted is not None:
        return ScalarNode(start, end, unquoted, plain=False)
    if canonical(span.key) in _TEXT_KEYS:
        return ScalarNode(start, end, text.replace("\\n", "\n"), plain=False)
    return ScalarNode(start, end, text)


_TEXT_KEYS = _PROSE_KEYS | {"name", "model"}


def _unquote(text: str) -> str | None:
    """Return the text inside a pair of quotes; None if the quotes do not enclose the complete text."""
    quote = text[:1]
    if quote not in _QUOTES or len(text) < 2 or text[-1] != quote:  # noqa: PLR2004, an opening and a closing one
        return None
    inner = text[1:-1]
    # A closing quote before any opening one ends the first pair; apostrophes neither open nor close.
    closes = _closing(quote).search(inner)
    opens = re.search(rf"(?<![^\s(]){quote}(?=\w)", inner)
    if closes and not (opens and opens.start() < closes.start()):
        return None
    if quote == "'":
        return inner.replace("''", "'")
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), inner)


def _closing(quote: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=[^\s(\\{quote}]){quote}(?!\w)")
