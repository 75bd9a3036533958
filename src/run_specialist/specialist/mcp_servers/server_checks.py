"""Check the MCP servers of a file: invalid ones are reported with their position and removed."""

import difflib
from typing import Any

from run_specialist.specialist.mcp_servers.servers import listed_in_project, named_entry, server_of
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.reading.frontmatter import Field, FrontMatter
from run_specialist.specialist.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode

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
"""Keys of an entry; other programs have more, so an unknown key is reported only if it resembles one of these."""


def check_servers(given: dict[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about unusable servers and remove them from `given`."""
    value = given.get(_KEY)
    if isinstance(value, dict):
        usable = {key: entry for key, entry in value.items() if _fits(str(key), entry, front.fields[_KEY], problems)}
        given[_KEY] = usable
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
        problems.warn(place, f"{shown(name)}: {shown(why, None)}; ignored", _KEY)
    return not why


def _unusable(name: str, entry: object, problems: Problems) -> str:
    if entry is None:
        return listed_in_project(name, problems.path.parent)
    server = server_of(name, entry)
    return server.unusable if server else ""


def _node(node: Node, name: str, index: int | None) -> Node | None:
    """Return the node of an entry, or None if it cannot be found."""
    if isinstance(node, SequenceNode) and index is not None and index < len(node.items):
        return node.items[index]
    if isinstance(node, MappingNode):
        return next((key for key, _ in node.pairs if isinstance(key, ScalarNode) and key.text == name), None)
    return None
