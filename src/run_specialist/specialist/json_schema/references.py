"""Resolve local references in a JSON Schema."""

from collections.abc import Mapping
from typing import Any


def target(root: Mapping[str, Any], pointer: str) -> Mapping[str, Any] | None:
    """Return the object that a JSON pointer such as `#/$defs/item` refers to; None if there is none."""
    if not pointer.startswith("#"):
        return None
    part: Any = root
    for escaped in pointer.split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else None
