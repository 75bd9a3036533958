"""Split a file into front matter and body, and read the fields, even of broken front matter."""

import codecs
import json
import re
import textwrap
from dataclasses import dataclass, replace

from yaml.reader import Reader

from run_specialist.specialist import positions
from run_specialist.specialist.fields import canonical, is_known, starts_field_in_prose
from run_specialist.specialist.problems import START, Position, Problems, shown

# Maximum number of lines searched for keys; real front matter has a few dozen.
MOST_LINES = 10_000

# Blank lines, a comment line or an HTML comment.
_LEAD = re.compile(r"[ \t\n]*\n|[ \t]*#[^\n]*\n|[ \t]*<!--.*?-->[ \t]*(?:\n|\Z)", re.DOTALL)
_OPENING = re.compile(r"([ \t]*)-{3,}([ \t]*)(?:\n|\Z)")
_CLOSING = re.compile(r"^(?:-{3,}|\.\.\.)[ \t]*$", re.MULTILINE)
KEY = re.compile(r"""(["']?)([A-Za-z_][\w.-]*)\1[ \t]*:""")


@dataclass(frozen=True, slots=True)
class FencedParts:
    """Positions of front matter and body in a file."""

    text: str
    """The complete file, dedented if it was indented."""
    start: int
    """First character of the front matter."""
    end: int
    body: int
    """First character of the body."""
    indent: int = 0
    """Number of columns removed from every line."""
    closed: bool = True
    """Whether there is a closing fence."""


def cut(text: str, problems: Problems) -> FencedParts | None:
    """Split a file into its parts, with warnings for malformed fences; None if it has no front matter."""
    at, hashes = _skip_lead(text)
    opening = _OPENING.match(text, at)
    if opening is None:
        return None
    if opening[1]:
        lines = text.split("\n")
        if any(line.strip() and not line.startswith(opening[1]) for line in lines):
            return None
        indent = len(opening[1])
        problems.warn(START, f"every line is indented by {indent}; the indentation is ignored")
        parts = cut("\n".join(line.removeprefix(opening[1]) for line in lines), problems)
        return parts and replace(parts, indent=indent)
    if hashes:
        first, hashes = _skip_lead(text, opening.end())
        key = is_key_line(text[first:].lstrip().partition("\n")[0])
        if key is None or (hashes and not is_known(key)):
            return None  # a heading and a rule below it, not a comment and a fence
    fence = positions.Chunk(text, 1).place(opening.start())
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        problems.warn(fence, "the front matter has no closing fence; using its leading key lines")
        return FencedParts(text, opening.end(), len(text), len(text), closed=False)
    if at:
        problems.warn(fence, "the front matter does not start on line 1")
    for found, which in ((opening, "opening"), (closing, "closing")):
        if found[0].removesuffix("\n") != "---":
            place = positions.Chunk(text, 1).place(found.start())
            problems.warn(place, f"the {which} fence is not exactly three dashes")
    return FencedParts(text, opening.end(), closing.start(), min(closing.end() + 1, len(text)))


def is_key_line(line: str) -> str | None:
    """Return the key at the start of a line, or None; `key:value` without a blank counts for known keys only."""
    match = KEY.match(line)
    if match is None:
        return None
    spaced = line[match.end() : match.end() + 1].strip() == ""
    return match[2] if spaced or is_known(match[2]) else None


def _skip_lead(text: str, at: int = 0) -> tuple[int, bool]:
    """Return the end of the blank and comment lines, and whether any of them starts with `#`."""
    hashes = False
    while match := _LEAD.match(text, at):
        at = match.end()
        hashes = hashes or match[0].lstrip().startswith("#")
    return at, hashes


# A blank line followed only by headings.
_BLANK_BEFORE = re.compile(r"\n[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the front matter with its parsed, unchecked value."""

    key: str
    """Key as written in the file."""
    node: positions.Node
    chunk: positions.Chunk
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


def _holds_prose(root: positions.MappingNode, front: str) -> bool:
    """Return whether a sentence after a blank line was parsed as a key, because the closing fence is missing."""
    keys = [key for key, _ in root.pairs if isinstance(key, positions.ScalarNode)]
    return any(" " in key.text.strip() and _BLANK_BEFORE.search(front[: key.start]) for key in keys)


def read(data: bytes | str, problems: Problems) -> FrontMatter:
    """Parse a file; any content gives a usable result, and deviations are added to `problems`."""
    text = decode(data, problems)
    parts = cut(text, problems)
    found = _fields(parts, problems) if parts else None
    if found is None:
        why = " (the file starts with a code fence)" if text.lstrip().startswith("```") else ""
        fallback_used = "using the file name as name and the first line of text as description"
        problems.warn(START, f"no front matter{why}; {fallback_used}")
        return FrontMatter({}, text.strip("\n"), present=False)
    fields, body = found
    # Without the blank lines at the top, but with the indentation of the first line.
    first = body.rfind("\n", 0, len(body) - len(body.lstrip())) + 1
    return FrontMatter(fields, body[first:].rstrip(), present=True)


def _fields(parts: FencedParts, problems: Problems) -> tuple[dict[str, Field], str] | None:
    """Return the fields and the body of a file; None if there are no keys between the fences."""
    front, body = parts.text[parts.start : parts.end], parts.text[parts.body :]
    line = parts.text.count("\n", 0, parts.start) + 1
    chunk = positions.Chunk(front, line, parts.indent)
    fields: dict[str, Field] = {}
    try:
        root = positions.parse(front, line=line) if parts.closed else None
    except positions.UnreadableError as error:
        # An error at the end is reported on the last line, not on the fence below.
        place = chunk.place(min(error.index, len(front.rstrip())))
        problems.warn(place, f"is not valid YAML ({error}); parsed line by line")
    else:
        if root is None and parts.closed:
            return fields, body
        if isinstance(root, positions.MappingNode) and not _holds_prose(root, front):
            for name, value in root.pairs:
                if isinstance(name, positions.ScalarNode):
                    _add(fields, Field(name.text.strip(), value, chunk, chunk.place(name.start)), problems)
                else:
                    problems.warn(chunk.place(name.start), "a key that is a list or a map is ignored")
            return fields, body
        if root is not None:
            problems.warn(chunk.place(root.start), "the front matter contains more than keys; parsed line by line")
    spans, used = field_spans(front, line, closed=parts.closed)
    # Damaged files may have thousands of fields, so only the values that are used are parsed as YAML.
    last = {canonical(key): part for key, part in spans}
    for key, part in spans:
        node: positions.Node = positions.ScalarNode(0, len(part.text), part.text)
        if part is last[canonical(key)] and is_known(key):
            node = read_span(key, part, problems)
        _add(fields, Field(key, node, part, Position(part.line, parts.indent + 1)), problems)
    if not fields:
        return None
    if used < len(front):
        if parts.closed:
            text = "the front matter has no closing fence; the body is assumed to start here"
            problems.warn(chunk.place(used + 1), text)
        body = parts.text[parts.start + used :]
    return fields, body


def _add(fields: dict[str, Field], field: Field, problems: Problems) -> None:
    key = canonical(field.key)
    if earlier := fields.get(key):
        lines = f"lines {earlier.key_place.line} and {field.key_place.line}"
        problems.warn(field.key_place, f"given on {lines}; the last one is used", shown(key))
    fields[key] = field


PROMPT = "developer_instructions"
"""The key whose text is the prompt."""


def read_toml(data: bytes | str, problems: Problems) -> FrontMatter:
    """Parse a file; invalid TOML and a missing prompt are added to `problems` as errors.

    Places have the line of the key and column 1.
    Source: https://developers.openai.com/codex/subagents
    """
    try:
        table = positions.read_table(decode(data, problems), ())
    except positions.InvalidToml as error:
        problems.error(Position(error.line, 1), f"is not valid TOML: {error}")
        return FrontMatter({}, "", present=False)
    if table is None:
        return FrontMatter({}, "", present=False)
    prompt = table.values.get(PROMPT)
    if not isinstance(prompt, str) or not prompt.strip():
        text = "must be a text, which is the prompt" if prompt is not None else "missing, so there is no prompt"
        problems.error(Position(table.line(PROMPT), 1), text, PROMPT)
        prompt = ""
    fields: dict[str, Field] = {}
    for key, value in table.values.items():
        place = Position(table.line(key), 1)
        if key == "skills" and isinstance(value, dict):
            problems.notice(place, "has no effect here, because it is not a list of names", key)
        elif key != PROMPT:
            # As JSON it is one line of YAML.
            text = json.dumps(value, ensure_ascii=False, default=str)
            text = Reader.NON_PRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
            try:
                node = positions.parse(text) or positions.ScalarNode(0, 0, "")
            except positions.UnreadableError as error:
                problems.error(place, str(error), shown(key))
                continue
            if (name := canonical(key)) in fields:
                repeated = f"is given more than once, in several spellings; {shown(key)} is used"
                problems.warn(place, repeated, shown(name))
            fields[name] = Field(key, node, positions.Chunk(text, place.line), place)
    return FrontMatter(fields, prompt.strip("\n"), present=True)


# NUL and lone surrogates, which neither databases nor model APIs accept.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def decode(data: bytes | str, problems: Problems) -> str:
    """Return the text of a file; all repairs except of line ends are reported as warnings."""
    if isinstance(data, str):
        text = data
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        problems.warn(START, "is UTF-16; other programs expect UTF-8")
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = _with_lf(data[: error.start].decode("utf-8", "replace"))
            place, reason = positions.Chunk(before, 1).place(len(before)), error.reason
            problems.warn(place, f"is not valid UTF-8 here ({reason}); invalid bytes are replaced by {_REPLACEMENT}")
            text = data.decode("utf-8", "replace")
    if text.startswith("\ufeff"):
        problems.warn(START, "starts with a byte order mark, which is ignored")
    text = _with_lf(text.lstrip("\ufeff"))
    if bad := _UNUSABLE.search(text):
        place = positions.Chunk(text, 1).place(bad.start())
        problems.warn(place, f"contains unusable characters, replaced by {_REPLACEMENT}")
        text = _UNUSABLE.sub(_REPLACEMENT, text)
    return text


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


_OPEN, _CLOSE = re.compile(r"<example\b"), re.compile(r"</example\b")
_PROSE_KEYS = frozenset({"description", "landing_prompt"})
# First characters of lines that cannot begin a body.
_CONTINUED = " \t-#]})\"'"
_TITLE = re.compile(r"# \S")
_COMMENT = re.compile(r"#+(?:[ \t]|\Z)")
_ESCAPE = re.compile(r'\\(["\\/nt])')


def field_spans(front: str, line: int, *, closed: bool) -> tuple[list[tuple[str, positions.Chunk]], int]:
    """Split invalid front matter into fields, each with its key; also return the number of characters they cover.

    The rest belongs to the body: if the closing fence is missing, a `---` rule far below may end `front`.
    """
    lines = front.split("\n", MOST_LINES)
    last_close = max((i for i, text in enumerate(lines) if _CLOSE.search(text)), default=-1)
    keys = (is_key_line(text) or "" for text in lines)
    last_key = max((i for i, key in enumerate(keys) if starts_field_in_prose(key)), default=-1)
    starts: list[tuple[int, str]] = []
    in_prose, open_examples, blank_before = False, 0, False
    for index, text in enumerate(lines):
        if not text.strip():
            blank_before = True
            continue
        key = is_key_line(text)
        if key and in_prose and ((open_examples and index <= last_close) or not starts_field_in_prose(key)):
            key = None
        if key and blank_before and not closed and not is_known(key):
            key = None
        if key:
            starts.append((index, key))
            in_prose, open_examples = canonical(key) in _PROSE_KEYS, 0
        elif (
            starts and blank_before and not (in_prose and closed) and text[0] not in (_CONTINUED if closed else " \t#")
        ):
            end = index
            while end and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
                end -= 1
            lines = lines[:end]
            break
        elif in_prose and last_key < index and not open_examples and _TITLE.match(text):
            lines = lines[:index]
            break
        open_examples = max(0, open_examples + len(_OPEN.findall(text)) - len(_CLOSE.findall(text)))
        blank_before = blank_before and text.startswith("#")
    ends = [*(start for start, _ in starts[1:]), len(lines)]
    fields = [
        (key, positions.Chunk("\n".join(lines[start:end]), line + start))
        for (start, key), end in zip(starts, ends, strict=False)
    ]
    return fields, len("\n".join(lines))


def read_span(written: str, chunk: positions.Chunk, problems: Problems) -> positions.Node:
    """Return the value of a field: parsed as YAML if the field alone is valid, otherwise its text."""
    try:
        root = positions.parse(chunk.text)
    except positions.UnreadableError:
        root = None
    if isinstance(root, positions.MappingNode) and len(root.pairs) == 1:
        key, node = root.pairs[0]
        if isinstance(key, positions.ScalarNode) and key.text == written:
            if isinstance(node, positions.ScalarNode) and node.plain and "\\n" in node.text:
                node = positions.ScalarNode(node.start, node.end, node.text.replace("\\n", "\n"), plain=False)
            return node
    match = KEY.search(chunk.text)
    start = match.end() if match else 0
    if start < len(chunk.text) and not chunk.text[start].isspace():
        problems.warn(chunk.place(start), "no blank after the colon", written)
    start += len(chunk.text[start:]) - len(chunk.text[start:].lstrip())
    lines = chunk.text[start:].split("\n")
    # Comment lines at the end belong to the next key.
    while len(lines) > 1 and (not lines[-1].strip() or _COMMENT.match(lines[-1])):
        lines.pop()
    raw = "\n".join(lines).rstrip()
    end = start + len(raw)
    last = chunk.place(end).line
    if raw and last > chunk.line:
        problems.warn(chunk.place(0), f"is not valid YAML; using its text up to line {last}", written)
    first, _, rest = raw.partition("\n")
    text = f"{first}\n{textwrap.dedent(rest)}".strip() if rest else first
    quote = text[:1] if text.startswith(("'", '"')) else ""
    is_text = bool(quote) or canonical(written) in _TEXT_KEYS
    if quote and quote not in text[1:]:
        problems.warn(chunk.place(start), "an opening quote is never closed", written)
        text = text[1:].strip()
    elif quote and text[-1] == quote:
        escaped, inner = {"n": "\n", "t": "\t"}, text[1:-1]
        inner = inner.replace("''", "'") if quote == "'" else _ESCAPE.sub(lambda e: escaped.get(e[1], e[1]), inner)
        return positions.ScalarNode(start, end, inner, plain=False)
    elif quote:
        is_text = canonical(written) in _TEXT_KEYS
    return positions.ScalarNode(start, end, text.replace("\\n", "\n") if is_text else text, plain=not is_text)


_TEXT_KEYS = _PROSE_KEYS | {"name", "model"}
