"""Convert and check the values of a file; each problem has a position."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from run_specialist.specialist import fields, positions, tool_names
from run_specialist.specialist.answer_schema import NEEDS_QUOTES, AnswerSchema, has_quotes
from run_specialist.specialist.dialects import served_name, take_foreign, unserved
from run_specialist.specialist.front_matter import PROMPT, Field, FrontMatter
from run_specialist.specialist.problems import START, Position, Problems, shown

# Bad values of these keys are replaced with a warning, because that lifts no restriction; None = ignored.
_REPLACED: Mapping[str, str | None] = {"effort": None, "memory": None, "mcp_servers": None, "offline": "refuse"}
# Tools that need another key in the file, by name.
_REQUIRED = {"delegate": "agents", tool_names.EDIT: "writable", tool_names.WRITE: "writable", "memory": "memory"}
_LONGEST_TOOLS = 300
_NEAR = 0.7
# Maximum number of unknown names that get suggestions, and of candidates compared with each.
_PROPOSED, _COMPARED = 10, 200


def check_tools(given: dict[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about unknown tools; when all tools are known, the run checks again that at least one is left."""
    if not given.get("tools"):
        return
    available = [name for name in tool_names.BUILT_IN if not (key := _REQUIRED.get(name)) or given.get(key)]
    if not given.get("server_tools"):
        available.remove(tool_names.SEARCH)
    # Python tools are available even if `tools` does not list them.
    available += [re.split("[:.]", reference)[-1] for reference in given.get("python_tools") or ()]
    resolved = tool_names.resolve_tools(given["tools"], (), available)
    lacking = [*resolved.unknown]
    if given.get("mcp_servers"):
        lacking = [name for name in lacking if not name.startswith("mcp__") and "/" not in name]
    if billed := [name for name in lacking if tool_names.names_tool([name], tool_names.SEARCH)]:
        text = f"{shown(billed[0])} is run by the API, which bills it; `server_tools: true` allows that"
        problems.warn(front.fields["tools"].place, text, "server_tools")
    unknown = [name for name in lacking if name not in billed]
    if not unknown:
        return
    text = f"not available here: {shown(', '.join(unknown), _LONGEST_TOOLS)}"
    # Comparing all pairs would take minutes for a file with thousands of names.
    likely, names = available[:_COMPARED], unknown[:_PROPOSED]
    if near := [one for name in names for one in get_close_matches(name.lower(), likely, 1, _NEAR)]:
        text += f"; did you mean {shown(' and '.join(near), _LONGEST_TOOLS)}?"
    for tool, key in _REQUIRED.items():
        asks = next((name for name in names if tool not in available and tool_names.names_tool([name], tool)), None)
        if asks and f"`{key}`" not in text:
            text += f"; `{shown(asks)}` requires the key `{key}`"
    if resolved.nothing_known and len(unknown) == len(resolved.unknown):
        text += "; no tool is left, so the specialist cannot be run"
    problems.warn(front.fields["tools"].place, text, "tools")


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


def validate(given: Mapping[str, Any], front: FrontMatter, problems: Problems) -> fields.Specialist | None:
    """Return the specialist, or None after reporting one error for each invalid value."""
    # Unreadable values are already reported as errors.
    if not front.body.strip() and not any(p.level == "error" and p.key in (None, PROMPT) for p in problems.found):
        problems.warn(START, "the body is empty: there is no prompt")
    values = {**given, "prompt": front.body, "path": problems.path}
    if "model" in given:
        values["model"] = _served(given["model"], front.fields["model"], problems)
    if KEY in given:
        served = (_served(name, front.fields[KEY], problems) for name in given[KEY])
        values[KEY] = tuple(name for name in dict.fromkeys(served) if name != values.get("model"))
    try:
        specialist = fields.Specialist.model_validate(values)
    except ValidationError as error:
        # Invalid keys with the item or inner key, without pydantic's branches of unions.
        places = ([*map(str, details["loc"]), ""] for details in error.errors(include_url=False))
        spots = {(key, inner if key == "countdown" or inner.isdecimal() else "") for key, inner, *_ in places}
        for key, inner in spots:
            _report(key, inner, front.fields[key], problems)
        bad = {key for key, _ in spots}
        if bad - _REPLACED.keys():
            return None
        replaced = {key: value for key, value in _REPLACED.items() if key in bad and value}
        specialist = fields.Specialist.model_validate(
            {key: v for key, v in values.items() if key not in bad} | replaced
        )
    # Fallbacks, such as the name taken from the file name, do not count as set by the file.
    specialist.model_fields_set.intersection_update(front.fields)
    return specialist


def _served(model: str, field: Field, problems: Problems) -> str:
    """Return the name under which an endpoint serves a model; warn if none can."""
    served = served_name(model)
    if why := unserved(served):
        problems.warn(field.place, f"{shown(model)}: {why}", "model")
    return served


def _report(key: str, inner: str, field: Field, problems: Problems) -> None:
    """Report an invalid value, an item of a list or an entry of a map, by its place."""
    node = field.node
    if isinstance(node, positions.SequenceNode) and inner.isdecimal() and int(inner) < len(node.items):
        node = node.items[int(inner)]
    elif isinstance(node, positions.MappingNode):
        named = {
            fields.canonical(name.text): value for name, value in node.pairs if isinstance(name, positions.ScalarNode)
        }
        node = named.get(inner, node)
    if key == "countdown" and inner and isinstance(field.node, positions.MappingNode):
        key = f"{key}.{inner}"
    if isinstance(node, positions.ScalarNode):
        found = shown(field.chunk.text[node.start : node.end].strip()) or "nothing"
    else:
        found = _kind(node)
    text = fields.EXPECTED[key].complaint(found) if key in fields.EXPECTED else "unknown key"
    text += f"; read as {replacement}" if (replacement := _REPLACED.get(key)) else ""
    report = problems.warn if key in _REPLACED else problems.error
    report(field.place if node is field.node else field.chunk.place(node.start), text, key)


def _kind(node: positions.SequenceNode | positions.MappingNode) -> str:
    return "a list" if isinstance(node, positions.SequenceNode) else "a map"


_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_VERBATIM = frozenset({"name", "description", "model"})


def _text_value(key: str, field: Field, problems: Problems) -> str | None:
    """Return a text value; keeps ` #`, a leading `!` and a leading `&`, although they have a meaning in YAML."""
    node, text = field.node, field.chunk.text
    if not isinstance(node, positions.ScalarNode):
        items = node.items if isinstance(node, positions.SequenceNode) else ()
        texts = [item.text.strip() for item in items if isinstance(item, positions.ScalarNode)]
        if key == "model" and any(texts):
            return ", ".join(filter(None, texts))
        is_ignored = key in ("name", "model")
        used = "ignored" if is_ignored else "using its text"
        problems.warn(field.place, f"must be text, got {_kind(node)}; {used}", key)
        return None if is_ignored else ", ".join(texts) or " ".join(field.source.split())
    marked = text[node.start : node.start + 1] in ("!", "&") and node.tag not in positions.CORE_TAGS
    tail = text[node.end :].partition("\n")[0]
    if key not in _VERBATIM or not node.plain or not (marked or tail.strip().startswith("#")):
        return node.text.strip()
    part = "a leading ! or &" if marked else "the text after #"
    problems.warn(field.place, f"{part} is kept; put the value in quotes to apply the standard YAML rules", key)
    return " ".join(f"{field.source}{tail}".split())


def _take_names(key: str, field: Field, given: dict[str, Any], problems: Problems) -> None:
    """Add the names in a list, and the names that a map of booleans disables."""
    node, warn = field.node, problems.warner(field.place, key)
    off: list[str] = []
    if isinstance(node, positions.ScalarNode):
        names: list[str] | None = tool_names.split_names(node.text, warn)
        if key == "tools" and not names:
            warn("contains no name, so no tool is allowed")
    elif isinstance(node, positions.SequenceNode):
        names = tool_names.join_parentheses(name for item in node.items if (name := _name(item, field, problems, key)))
    else:
        warn("must be a list, got a map; using the keys whose value is true")
        named = {name.text.strip(): value for name, value in node.pairs if isinstance(name, positions.ScalarNode)}
        names = [name for name, value in named.items() if _is_on(value)]
        off = [name for name in named if name not in names and name != "*"]
        if not names and off and "*" not in named:
            # A map that only disables names does not restrict the others.
            names = None
    if key == "tools" and names is not None and "*" in names:
        problems.notice(field.place, "* does not restrict anything", key)
        names = None
    if off and key == "tools":
        given["disallowed_tools"] = (*given.get("disallowed_tools", ()), *off)
    if names is not None:
        given[key] = (*given.get(key, ()), *names)


def _is_on(value: positions.Node) -> bool:
    if not isinstance(value, positions.ScalarNode):
        return True
    return bool(positions.scalar_value(value)) and value.text.lower() not in ("no", "off", "deny", "false")


def _name(item: positions.Node, field: Field, problems: Problems, key: str) -> str | None:
    if isinstance(item, positions.ScalarNode):
        return item.text.strip()
    place = field.chunk.place(item.start)
    if isinstance(item, positions.MappingNode) and len(item.pairs) == 1:
        # YAML parses `- Bash(git log: *)` as a map.
        problems.warn(place, "must be a name, got a map; using its text", key)
        return " ".join(field.chunk.text[item.start : item.end].split())
    # An unreadable name must neither allow a tool nor fail to disallow one.
    report = problems.error if key == "disallowed_tools" else problems.warn
    report(place, "must be a name, got a list or a map; ignored", key)
    return None


def _other_value(key: str, field: Field, problems: Problems) -> object:
    """Return a value to validate; raises UnreadableError."""
    node = field.node
    value, repeated = positions.value_of(node)
    for again in repeated:
        text = f"{shown(again.text)} is given twice; the last value is used"
        problems.warn(field.chunk.place(again.start), text, key)
    if key == "mcp_servers" and isinstance(value, str) and "\n" not in value and value[:1] not in ("[", "{"):
        return tool_names.split_names(value, problems.warner(field.place, key))
    if key == "countdown" and isinstance(node, positions.MappingNode) and isinstance(value, dict):
        # Like top-level keys, inner keys without a value count as not given.
        for name, inner in node.pairs:
            if isinstance(name, positions.ScalarNode) and positions.is_null(inner):
                problems.warn(field.chunk.place(name.start), f"{shown(name.text)} is empty and ignored", key)
        return {fields.canonical(name): item for name, item in value.items() if item is not None}
    if isinstance(value, str) and isinstance(node, positions.ScalarNode) and node.tag in (None, *positions.CORE_TAGS):
        is_number = isinstance(fields.EXPECTED[key], fields.Number)
        converted = positions.plain_value(value.strip()) if is_number else _SWITCHES.get(value.strip().lower())
        if isinstance(converted, int | float) and (is_number or fields.EXPECTED[key].phrase == "true or false"):
            problems.warn(field.place, f"{shown(field.source)} is text; read as {shown(str(converted))}", key)
            value = converted
    if key == "effort" and fields.lower(value) == "minimal":
        problems.notice(field.place, "minimal is read as low", key)
        value = "low"
    in_minutes = field.key.replace("-", "").replace("_", "").lower() == "timeoutmins"
    if in_minutes and isinstance(value, int | float) and not isinstance(value, bool):
        value *= 60
    return value


KEY = "fallback_models"
WEIGHTS = "local:"
"""Prefix of a weights file, which comes last, because its path may contain commas."""
_COMMA = re.compile(r",(?![^()]*\))")


def split_models(text: str) -> tuple[str, ...]:
    """Return the models in a text such as `sonnet, openai:gpt-5`, each once; the text itself if there are none."""
    found = re.search(rf"(?:^|,)\s*{WEIGHTS}", text)
    head, weights = (text, "") if found is None else (text[: found.start()], text[found.start() :].lstrip(", "))
    names = (name.strip() for name in (*_COMMA.split(head), weights))
    return tuple(dict.fromkeys(name for name in names if name)) or (text,)


def model_settings(model: str | None, settings: Mapping[str, Any], by_file: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a call that names one model or several; they replace all models of the file.

    settings: the other settings of the call.
    by_file: the fallback models of the file.
    """
    if model is None:
        return {}
    first, *others = split_models(model)
    others += [name for name in settings.get(KEY, ()) if name != first]
    # The settings identify a batch, so they contain only what differs.
    return {"model": first, **({KEY: tuple(dict.fromkeys(others))} if others or by_file else {})}


def take_values(front: FrontMatter, problems: Problems) -> dict[str, Any]:
    """Return the values of the known keys; report every other key as a problem."""
    given: dict[str, Any] = {}
    for key, field in front.fields.items():
        if key in fields.CANONICAL:
            _take_value(key, field, given, problems)
    take_models(front, given, problems)
    only_reads = not any(given.get(key) for key in ("agents", "mcp_servers", "python_tools", "writable"))
    taken = take_foreign(front, given, problems)
    only_reads = only_reads and not given.get("memory")
    for key, field in front.fields.items():
        if key in fields.CANONICAL or key in taken:
            continue
        is_kept = only_reads and key in fields.KEPT_BY_READING and (key != "permission_mode" or "plan" in field.source)
        if key in fields.RESTRICTING and not is_kept:
            text = "restricts agents in other programs but has no effect here"
            problems.warn(field.key_place, text, shown(field.key))
        elif key in fields.INERT:
            problems.notice(field.key_place, "has no effect here", shown(field.key))
        else:
            close = None if problems.full else fields.nearest(key)
            hint = f"; did you mean {close}?" if close else ""
            problems.warn(field.key_place, f"unknown key{hint}", shown(field.key))
    return given


def _take_value(key: str, field: Field, given: dict[str, Any], problems: Problems) -> None:
    # The text after a `#` may be the value.
    rest = field.chunk.text[field.node.end :].partition("\n")[0].strip()
    if positions.is_null(field.node) and not (key in _VERBATIM and rest.startswith("#")):
        problems.warn(field.place, "is empty and ignored", key)
    elif key in fields.TEXTS:
        if text := _text_value(key, field, problems):
            given[key] = text
        elif isinstance(field.node, positions.ScalarNode):
            problems.warn(field.place, "is empty and ignored", key)
    elif key in fields.NAMES:
        _take_names(key, field, given, problems)
    else:
        try:
            given[key] = _other_value(key, field, problems)
        except positions.UnreadableError as error:
            problems.error(field.place, str(error), key)


# Values of `model` that cannot be fallbacks.
_NO_MODELS = ("inherit", "offline")


def take_models(front: FrontMatter, given: dict[str, Any], problems: Problems) -> None:
    """Move all models after the first one to the fallbacks, without duplicates."""
    first, *others = split_models(given["model"]) if "model" in given else ("",)
    if first:
        given["model"] = first
    named = dict.fromkeys([*others, *given.get(KEY, ())])
    place = front.fields.get(KEY) or front.fields.get("model")
    if not named or place is None:
        return
    for name in [name for name in named if name.lower() in _NO_MODELS]:
        problems.warn(place.place, f"{shown(name)} cannot follow another model; ignored", KEY)
    given[KEY] = tuple(name for name in named if name != first and name.lower() not in _NO_MODELS)
    front.fields.setdefault(KEY, place)


DESCRIPTION = "TODO: say in a sentence or two when a parent agent should use this specialist"
PURPOSE = "TODO: say what you are for, and what you need to know before you start."
"""Line of the prompt in place of a missing purpose."""
PROBLEM = "is a placeholder"
"""Text that each problem of this check contains."""

_PLACEHOLDER = re.compile(r"\s*TODO\b")


def check_placeholders(data: bytes | str, given: Mapping[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about a description that begins with TODO, and about the template's line in the prompt.

    data: The whole file.
    """
    if "description" in front.fields and _PLACEHOLDER.match(given.get("description", "")):
        problems.warn(front.fields["description"].place, f"{PROBLEM}; replace it, or remove the key", "description")
    if PURPOSE in front.body:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        place = Position(text.count("\n", 0, text.find(PURPOSE)) + 1, 1)
        problems.warn(place, f"the prompt {PROBLEM}; say what the specialist is for")
