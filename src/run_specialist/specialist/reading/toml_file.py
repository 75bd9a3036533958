"""Parse an agent file in TOML into the same fields, body and problems as one in Markdown."""

import json

from run_specialist.specialist.keys import canonical
from run_specialist.specialist.problems import START, Position, Problems, shown
from run_specialist.specialist.reading.decoding import decode
from run_specialist.specialist.reading.frontmatter import Field, FrontMatter
from run_specialist.specialist.reading.nodes import DEEPEST, Chunk, MappingNode, Node, ScalarNode, SequenceNode
from run_specialist.specialist.reading.toml_table import InvalidToml, TomlTable, read_table

PROMPT = "developer_instructions"
"""The key whose text is the prompt."""


def read_toml(data: bytes | str, problems: Problems) -> FrontMatter:
    """Parse a file; invalid TOML and a missing prompt are added to `problems` as errors.

    Places have the line of the key and column 1.
    Source: https://developers.openai.com/codex/subagents
    """
    try:
        table = read_table(decode(data, problems), ())
    except InvalidToml as error:
        problems.error(Position(error.line, 1), f"is not valid TOML: {error}")
        return FrontMatter({}, "", present=False)
    if table is None:
        return FrontMatter({}, "", present=False)
    prompt = table.values.get(PROMPT)
    if not isinstance(prompt, str) or not prompt.strip():
        text = "must be a text, which is the prompt" if prompt is not None else "missing, so there is no prompt"
        problems.error(Position(table.line(PROMPT), 1), text, PROMPT)
        prompt = ""
    fields = _fields(table, problems)
    return FrontMatter(fields, prompt.strip("\n"), present=True)


def _fields(table: TomlTable, problems: Problems) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for key, value in table.values.items():
        if key == PROMPT:
            continue
        if key == "skills" and isinstance(value, dict):
            problems.notice(Position(table.line(key), 1), "has no effect here, because it is not a list of names", key)
            continue
        place = Position(table.line(key), START.column)
        node, text = _node(value, 0, 0)
        name = canonical(key)
        if name in fields:
            problems.warn(place, f"is given more than once, in several spellings; {shown(key)} is used", shown(name))
        fields[name] = Field(key, node, Chunk(text, place.line), place)
    return fields


def _node(value: object, start: int, depth: int) -> tuple[Node, str]:
    """Return a value as a node, and its text on one line, of which the node is the part from `start` on."""
    if depth <= DEEPEST and isinstance(value, list):
        text = "["
        items: list[Node] = []
        for item in value:
            text += ", " if items else ""
            node, part = _node(item, start + len(text), depth + 1)
            items.append(node)
            text += part
        return SequenceNode(start, start + len(text) + 1, tuple(items)), f"{text}]"
    if depth <= DEEPEST and isinstance(value, dict):
        text = "{"
        pairs: list[tuple[Node, Node]] = []
        for key, item in value.items():
            text += ", " if pairs else ""
            name, written = _node(key, start + len(text), depth + 1)
            text += f"{written} = "
            node, part = _node(item, start + len(text), depth + 1)
            pairs.append((name, node))
            text += part
        return MappingNode(start, start + len(text) + 1, tuple(pairs)), f"{text}}}"
    is_text = not isinstance(value, bool | int | float)
    text = json.dumps(str(value) if is_text else value, ensure_ascii=False)
    return ScalarNode(start, start + len(text), str(value) if is_text else text, plain=not is_text), text
