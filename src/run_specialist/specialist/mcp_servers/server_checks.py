"""Check the servers of a file: one that makes no sense is told with its line, and left out."""

import difflib
from typing import Any

from run_specialist.specialist.mcp_servers.servers import listed_in_project, named_entry, server_of
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.reading.frontmatter import Field, FrontMatter
from run_specialist.specialist.reading.nodes import Items, Node, Pairs, Scalar

_KEY = "mcp_servers"
KEYS = (
    "name",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "type",
    "transport",
    "timeout",
    "disabled",
    "enabled",
)
"""What an entry may hold; other programs know more, so only what is near to one of these is told."""


def check_servers(given: dict[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about servers that cannot be started or talked to, and take them out of what is given."""
    value = given.get(_KEY)
    if isinstance(value, dict):
        kept = {key: entry for key, entry in value.items() if _fits(str(key), entry, front.fields[_KEY], problems)}
        given[_KEY] = kept
    elif isinstance(value, list):
        field = front.fields[_KEY]
        given[_KEY] = [
            item for index, item in enumerate(value) if _fits(*named_entry(item), field, problems, index=index)
        ]


def _fits(name: str, entry: object, field: Field, problems: Problems, *, index: int | None = None) -> bool:
    why = _unusable(name, entry, problems)
    node = _node(field.node, name, index)
    place = field.chunk.place(node.start) if node else field.place
    for key in entry if isinstance(entry, dict) else ():
        near = difflib.get_close_matches(str(key), KEYS, 1)
        if str(key) not in KEYS and near:
            problems.warn(place, f"{shown(name)}: {shown(str(key))}: unknown key; did you mean {near[0]}?", _KEY)
    if why:
        problems.warn(place, f"{shown(name)}: {shown(why, None)}; left out", _KEY)
    return not why


def _unusable(name: str, entry: object, problems: Problems) -> str:
    if entry is None:
        return listed_in_project(name, problems.path.parent)
    server = server_of(name, entry)
    return server.unusable if server else ""


def _node(node: Node, name: str, index: int | None) -> Node | None:
    """Return where an entry stands, as near as it can be told."""
    if isinstance(node, Items) and index is not None and index < len(node.items):
        return node.items[index]
    if isinstance(node, Pairs):
        return next((key for key, _ in node.pairs if isinstance(key, Scalar) and key.text == name), None)
    return None
