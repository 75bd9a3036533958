"""Check the values of a specialist file and report each problem with its position."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from run_specialist.specialist.editor_tools import is_editor_tool
from run_specialist.specialist.field_values import expected
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.foreign_models import served_name, unserved
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.json_schema.evidence_shape import NEEDS_QUOTES, has_quotes
from run_specialist.specialist.keys import canonical
from run_specialist.specialist.model_list import KEY as FALLBACKS
from run_specialist.specialist.problems import START, Problems, shown
from run_specialist.specialist.reading.frontmatter import Field, FrontMatter
from run_specialist.specialist.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode
from run_specialist.specialist.reading.toml_file import PROMPT
from run_specialist.specialist.tool_names import BUILT_IN, EDIT, SEARCH, WRITE, names_tool, resolve_tools

# Bad values of these keys are replaced with a warning, because that lifts no restriction; None = ignored.
_REPLACED: Mapping[str, str | None] = {"effort": None, "memory": None, "mcp_servers": None, "offline": "refuse"}
_REQUIRED = {"delegate": "agents", EDIT: "writable", WRITE: "writable", "memory": "memory"}
"""Tools that need another key in the file, by name."""
_LONGEST_TOOLS = 300
_NEAR = 0.7
_PROPOSED, _COMPARED = 10, 200
"""Maximum number of unknown names that get suggestions, and of candidates compared with each."""


def check_tools(given: dict[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about unknown tools; when all tools are known, the run checks again that at least one is left."""
    if not given.get("tools"):
        return
    available = [name for name in BUILT_IN if not (key := _REQUIRED.get(name)) or given.get(key)]
    if not given.get("server_tools"):
        available.remove(SEARCH)
    # Python tools are available even if `tools` does not list them.
    available += [re.split("[:.]", reference)[-1] for reference in given.get("python_tools") or ()]
    resolved = resolve_tools(given["tools"], (), available)
    lacking = [name for name in resolved.unknown if not (given.get("mcp_servers") and _is_mcp(name))]
    billed = next((name for name in lacking if names_tool([name], SEARCH)), None)
    if billed:
        text = f"{shown(billed)} is run by the API, which bills it; `server_tools: true` allows that"
        problems.warn(front.fields["tools"].place, text, "server_tools")
    lacking = [name for name in lacking if not names_tool([name], SEARCH)]
    if not lacking:
        return
    of_editor = [name for name in lacking if is_editor_tool(name)]
    unknown = [name for name in lacking if name not in set(of_editor)]
    texts = [_editor_text(of_editor)] if of_editor else []
    texts += [_unknown_text(unknown, available)] if unknown else []
    if resolved.nothing_known and len(lacking) == len(resolved.unknown):
        texts[-1] += "; no tool is left, so the specialist cannot be run"
    for text in texts:
        problems.warn(front.fields["tools"].place, text, "tools")


def _editor_text(names: Sequence[str]) -> str:
    listed = shown(", ".join(names), _LONGEST_TOOLS)
    return f"{len(names)} tool{' of an editor is' if len(names) == 1 else 's of an editor are'} not here: {listed}"


def _unknown_text(names: Sequence[str], available: Sequence[str]) -> str:
    text = f"not available here: {shown(', '.join(names), _LONGEST_TOOLS)}"
    # Comparing all pairs would take minutes for a file with thousands of names.
    likely = available[:_COMPARED]
    near = [one for name in names[:_PROPOSED] for one in get_close_matches(name.lower(), likely, 1, _NEAR)]
    text += f"; did you mean {shown(' and '.join(near), _LONGEST_TOOLS)}?" if near else ""
    for key in dict.fromkeys(_REQUIRED.values()):
        tools = [tool for tool, required in _REQUIRED.items() if required == key and tool not in available]
        asks = next((name for name in names[:_PROPOSED] if resolve_tools([name], (), tools).names), None)
        text += f"; `{shown(asks)}` requires the key `{key}`" if asks else ""
    return text


def _is_mcp(name: str) -> bool:
    return name.startswith("mcp__") or "/" in name


def check_output_schema(
    given: Mapping[str, Any], front: FrontMatter, problems: Problems, project: Path | None = None
) -> None:
    """Report an output schema that cannot validate answers as an error, so that the file cannot be run.

    The schema also needs a field for quotes if `evidence` requires them.
    project: Folder that the path of the schema must stay in.
    """
    value = given.get("output_schema")
    known = any(problem.key == "output_schema" and problem.level == "error" for problem in problems.found)
    if known or not isinstance(value, dict | str):
        return
    try:
        schema = AnswerSchema.load(value, problems.path.parent, project)
    except ValueError as error:
        problems.error(front.fields["output_schema"].place, shown(str(error), None), "output_schema")
        return
    requires_quotes = str(given.get("evidence")).strip().lower() == "require"
    if requires_quotes and not has_quotes(schema.schema):
        problems.error(front.fields["evidence"].place, NEEDS_QUOTES, "evidence")


def validate(given: Mapping[str, Any], front: FrontMatter, problems: Problems) -> Specialist | None:
    """Return the specialist, or None after reporting one error for each invalid value."""
    # Unreadable values are already reported as errors.
    if not front.body.strip() and not any(p.level == "error" and p.key in (None, PROMPT) for p in problems.found):
        problems.warn(START, "the body is empty: there is no prompt")
    values = {**given, "prompt": front.body, "path": problems.path}
    if "model" in given:
        values["model"] = _served(given["model"], front.fields["model"], problems)
    if FALLBACKS in given:
        served = (_served(name, front.fields[FALLBACKS], problems) for name in given[FALLBACKS])
        values[FALLBACKS] = tuple(name for name in dict.fromkeys(served) if name != values.get("model"))
    try:
        specialist = Specialist.model_validate(values)
    except ValidationError as error:
        spots = {_spot(*map(str, details["loc"])) for details in error.errors(include_url=False)}
        for key, inner in spots:
            _report(key, inner, front.fields[key], problems)
        bad = {key for key, _ in spots}
        if bad - _REPLACED.keys():
            return None
        replaced = {key: value for key, value in _REPLACED.items() if key in bad and value}
        specialist = Specialist.model_validate({key: v for key, v in values.items() if key not in bad} | replaced)
    # Fallbacks, such as the name taken from the file name, do not count as set by the file.
    specialist.model_fields_set.intersection_update(front.fields)
    return specialist


def _served(model: str, field: Field, problems: Problems) -> str:
    """Return the name under which an endpoint serves a model; warn if none can."""
    served = served_name(model)
    if why := unserved(served):
        problems.warn(field.place, f"{shown(model)}: {why}", "model")
    return served


def _spot(key: str, inner: str | None = None, *_: str) -> tuple[str, str | None]:
    """Return the invalid key with the item or inner key, without pydantic's union branches."""
    return key, inner if inner and (key == "countdown" or inner.isdecimal()) else None


def _report(key: str, inner: str | None, field: Field, problems: Problems) -> None:
    node = _inner_node(field.node, inner)
    if key != "countdown" or not isinstance(field.node, MappingNode):
        inner = None
    expected_value = expected(key, inner)
    found = _found(node, field)
    text = (
        f"must be {expected_value.phrase}, got {found}{expected_value.hint(found)}" if expected_value else "unknown key"
    )
    text += f"; read as {replacement}" if (replacement := _REPLACED.get(key)) else ""
    report = problems.warn if key in _REPLACED else problems.error
    place = field.place if node is field.node else field.chunk.place(node.start)
    report(place, text, f"{key}.{inner}" if inner else key)


def _inner_node(node: Node, inner: str | None) -> Node:
    """Return the node of an item or inner key; the node itself if it cannot be found."""
    if isinstance(node, SequenceNode) and inner and inner.isdecimal() and int(inner) < len(node.items):
        return node.items[int(inner)]
    if isinstance(node, MappingNode):
        for key, value in node.pairs:
            if isinstance(key, ScalarNode) and canonical(key.text) == inner:
                return value
    return node


def _found(node: Node, field: Field) -> str:
    if isinstance(node, ScalarNode):
        return shown(field.chunk.text[node.start : node.end].strip()) or "nothing"
    return "a list" if isinstance(node, SequenceNode) else "a map"
