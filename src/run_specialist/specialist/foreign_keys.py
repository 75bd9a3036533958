"""Convert keys of other programs that have no direct equivalent in this program."""

import re
from collections.abc import Sequence
from typing import Any

from run_specialist.specialist.dialects import dialect_of
from run_specialist.specialist.permissions import KEY as PERMISSION
from run_specialist.specialist.permissions import take_permission
from run_specialist.specialist.problems import START, Problems, shown
from run_specialist.specialist.reading.frontmatter import FrontMatter
from run_specialist.specialist.reading.nodes import ScalarNode, scalar_value
from run_specialist.specialist.tool_names import names_tool, split_names

_HEAD = 4096
"""Length of the beginning of a file that is searched for a list of remote agents [characters]."""
_AGENTS = re.compile(r"(?:agent|task|runsubagent)\s*\((?P<names>.*)\)", re.IGNORECASE | re.DOTALL)
_CARDS = ("agent_card_url", "agent_card_json")
_LIST_OF_REMOTE = re.compile(
    r"\s*-{3,}[ \t]*\n(?:[ \t]*#[^\n]*\n)*-[ \t](?:.*\n)*?[-\t ]+(?:kind:[ \t]*remote\b|agent_card_url:)"
)


def take_foreign(front: FrontMatter, given: dict[str, Any], problems: Problems) -> frozenset[str]:
    """Add the values that follow from keys of other programs; report an agent that this program cannot run.

    A derived key gets the field of the key from which it was derived.
    Returns the keys that had an effect or were reported.
    """
    _refuse_remote(front, problems)
    if "agents" not in front.fields and (names := agents_in(given.get("tools") or ())):
        given["agents"] = names
        front.fields["agents"] = front.fields["tools"]
    infer = front.fields.get("infer")
    if infer and "disable_model_invocation" not in front.fields and _is(infer.node, False):
        given["disable_model_invocation"] = True
        front.fields["disable_model_invocation"] = infer
    if "memory" not in front.fields and names_tool(given.get("tools"), "memory"):
        given["memory"] = "local"
        front.fields["memory"] = front.fields["tools"]
    _take_instructions(front, given, problems)
    restricts_only_tools = take_permission(front, given)
    return frozenset({"kind", "infer", "omit_claude_md", *_CARDS, *([PERMISSION] if restricts_only_tools else [])})


def _take_instructions(front: FrontMatter, given: dict[str, Any], problems: Problems) -> None:
    """Add the project's instructions to agents of programs that do the same, unless the file says otherwise."""
    if "project_instructions" in front.fields:
        return
    omit = front.fields.get("omit_claude_md")
    if omit and _is(omit.node, True):
        given["project_instructions"] = False
        front.fields["project_instructions"] = omit
    elif dialect_of(problems.path).has_instructions:
        given["project_instructions"] = True


def agents_in(tools: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the specialists that entries such as `Agent(a, b)` and `Task(a)` allow."""
    found = (match for tool in tools if (match := _AGENTS.fullmatch(tool.strip())))
    names = (name for match in found for name in split_names(match["names"], lambda _: None))
    return tuple(dict.fromkeys(names))


def _refuse_remote(front: FrontMatter, problems: Problems) -> None:
    text = "a remote agent, which works on another server, cannot be run here"
    kind = front.fields.get("kind")
    if kind and isinstance(kind.node, ScalarNode) and kind.node.text.strip().lower() == "remote":
        problems.error(kind.place, text, "kind")
    elif card := next((front.fields[key] for key in _CARDS if key in front.fields), None):
        problems.error(card.place, text, shown(card.key))
    elif not front.present and _LIST_OF_REMOTE.match(front.body[:_HEAD]):
        # Gemini CLI takes several remote agents in one file, as a list.
        problems.error(START, text)


def _is(node: object, value: bool) -> bool:  # noqa: FBT001 - a value to compare with
    return isinstance(node, ScalarNode) and scalar_value(node) is value
