"""The models that a file names: the first one, and the fallbacks used if it cannot answer."""

from typing import Any

from run_specialist.specialist.model_list import KEY, split_models
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.reading.frontmatter import FrontMatter
from run_specialist.specialist.reading.nodes import ScalarNode, SequenceNode

NO_MODELS = ("inherit", "offline")
"""Values of `model` that cannot be fallbacks."""


def take_models(front: FrontMatter, given: dict[str, Any], problems: Problems) -> None:
    """Move all models after the first one to the fallbacks, without duplicates."""
    field = front.fields.get("model")
    first, *others = split_models(given["model"]) if "model" in given else ("",)
    if field is not None and isinstance(field.node, SequenceNode):
        others += _after_the_first(field.node, first)
    if first:
        given["model"] = first
    named = dict.fromkeys([*others, *given.get(KEY, ())])
    place = front.fields.get(KEY) or field
    if not named or place is None:
        return
    for name in [name for name in named if name.lower() in NO_MODELS]:
        problems.warn(place.place, f"{shown(name)} cannot follow another model; ignored", KEY)
    given[KEY] = tuple(name for name in named if name != first and name.lower() not in NO_MODELS)
    front.fields.setdefault(KEY, place)


def _after_the_first(node: SequenceNode, first: str) -> list[str]:
    names = [name for item in node.items if isinstance(item, ScalarNode) for name in split_models(item.text.strip())]
    return [name for name in names if name and name != first]
