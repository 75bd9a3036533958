"""Placeholders of files that `specialists new` wrote without a description, and the check that finds them."""

import re
from collections.abc import Mapping
from typing import Any

from run_specialist.specialist.problems import Position, Problems
from run_specialist.specialist.reading.frontmatter import FrontMatter

DESCRIPTION = "TODO: say in a sentence or two when a parent agent should use this specialist"
PURPOSE = "TODO: say what you are for, and what you need to know before you start."
"""Line of the prompt in place of a missing purpose."""
PROBLEM = "is a placeholder"
"""Text that each problem of this check contains."""

_PLACEHOLDER = re.compile(r"\s*TODO\b")


def check_placeholders(data: bytes | str, given: Mapping[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about a description, a model or a path that begins with TODO, and about the template's line in the prompt.

    data: The whole file.
    """
    for key, what in (("description", "say when a parent should use it"), ("model", "name a model, or remove the key")):
        if isinstance(value := given.get(key), str) and _PLACEHOLDER.match(value) and key in front.fields:
            problems.warn(front.fields[key].place, f"{PROBLEM}; {what}", key)
    for key in ("paths", "writable"):
        if any(_PLACEHOLDER.match(str(path)) for path in given.get(key) or ()):
            problems.warn(front.fields[key].place, f"{PROBLEM}; name folders, or remove the key", key)
    if PURPOSE in front.body:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.strip() == PURPOSE]
        for number in lines:
            problems.warn(Position(number, 1), f"the prompt {PROBLEM}; say what the specialist is for")
