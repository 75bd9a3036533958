"""Apply the key `permission` of opencode: uses that it forbids, or would ask about, are not allowed here.

Source: https://opencode.ai/docs/permissions. There the last rule that matches a command applies.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from run_specialist.specialist.reading.frontmatter import FrontMatter
from run_specialist.specialist.reading.nodes import MappingNode, Node, ScalarNode
from run_specialist.specialist.tool_names import EDIT, SHELL, WRITE, shell_rules

KEY = "permission"
_ALLOW = "allow"
_EVERYTHING = "*"
_TOOLS = {"bash": (SHELL,), "edit": (EDIT, WRITE), "webfetch": ("fetch",)}
"""Tools by their names in the key."""


def take_permission(front: FrontMatter, given: dict[str, Any]) -> bool:
    """Restrict the tools of a file by its permissions; return whether all of them could be applied."""
    field = front.fields.get(KEY)
    if field is None:
        return False
    named = dict(_rules(field.node))
    for key, tools in _TOOLS.items():
        node = named.get(key, named.get(_EVERYTHING))
        if node is None:
            continue
        if key == "bash" and isinstance(node, MappingNode):
            _restrict_shell([*_rules(node)], given)
        elif not _is_allowed(node):
            given["disallowed_tools"] = (*given.get("disallowed_tools", ()), *tools)
    if "disallowed_tools" in given:
        front.fields.setdefault("disallowed_tools", field)
    return isinstance(field.node, MappingNode) and named.keys() <= {*_TOOLS, _EVERYTHING}


def _restrict_shell(rules: Sequence[tuple[str, Node]], given: dict[str, Any]) -> None:
    # A later rule for everything replaces all rules before it.
    last = max((index for index, (pattern, _) in enumerate(rules) if pattern == _EVERYTHING), default=-1)
    all_allowed = last < 0 or _is_allowed(rules[last][1])
    allowed = [pattern for pattern, node in rules[last + 1 :] if _is_allowed(node)]
    denied = [pattern for pattern, node in rules[last + 1 :] if not _is_allowed(node)]
    given["disallowed_tools"] = (*given.get("disallowed_tools", ()), *(f"{SHELL}({pattern})" for pattern in denied))
    if all_allowed or "tools" not in given:
        return
    others = [name for name in given["tools"] if not shell_rules([name])]
    named = shell_rules(given["tools"])
    # Rules of both kinds would both have to hold.
    kept = [] if any(rule is not None for _, rule in named) else allowed
    if named and kept:
        given["tools"] = (*others, *(f"{SHELL}({pattern})" for pattern in kept))
    else:
        given["disallowed_tools"] = (*given["disallowed_tools"], SHELL)


def _rules(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield each key with its value, only the last one of a repeated key; a single value applies to everything."""
    if isinstance(node, ScalarNode):
        yield _EVERYTHING, node
    elif isinstance(node, MappingNode):
        found: dict[str, Node] = {}
        for key, value in node.pairs:
            if isinstance(key, ScalarNode):
                # A repeated key counts in its last place.
                found.pop(key.text.strip(), None)
                found[key.text.strip()] = value
        yield from found.items()


def _is_allowed(node: Node) -> bool:
    if isinstance(node, MappingNode):
        return all(_is_allowed(value) for _, value in node.pairs)
    return isinstance(node, ScalarNode) and node.text.strip().lower() == _ALLOW
