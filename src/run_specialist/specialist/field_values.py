"""Convert the fields of a file to values for `Specialist`, with a warning for each tolerated deviation."""

from pydantic.fields import FieldInfo

from run_specialist.specialist.field_types import Expected
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.keys import canonical
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.reading.frontmatter import Field
from run_specialist.specialist.reading.nodes import (
    CORE_TAGS,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    UnreadableError,
    is_null,
    plain_value,
    scalar_value,
    value_of,
)
from run_specialist.specialist.tool_names import join_parentheses, split_names

TEXTS = frozenset({"name", "description", "model", "landing_prompt"})
NAMES = frozenset(
    (
        *("tools", "disallowed_tools", "agents", "paths", "python_tools"),
        *("allowed_domains", "required_mcp_servers", "skills", "writable", "fallback_models"),
    )
)
_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_VERBATIM = frozenset({"name", "description", "model"})


def expected(key: str, inner: str | None = None) -> Expected | None:
    """Return the expected value of a field, or of the key `inner` in its map; None for an unknown key."""
    info: FieldInfo | None = Specialist.model_fields[key]
    if inner is not None:
        info = next((f for name, f in Countdown.model_fields.items() if name.rstrip("_") == inner), None)
    return next((item for item in info.metadata if isinstance(item, Expected)), None) if info else None


def text_value(key: str, field: Field, problems: Problems) -> str | None:
    """Return a text value; keeps ` #`, a leading `!` and a leading `&`, although they have a meaning in YAML."""
    node = field.node
    if isinstance(node, ScalarNode):
        return (_as_written(field, node, problems, key) if key in _VERBATIM else node.text).strip()
    kind = "a list" if isinstance(node, SequenceNode) else "a map"
    texts = [item.text for item in node.items if isinstance(item, ScalarNode)] if isinstance(node, SequenceNode) else []
    if key == "name":
        problems.warn(field.place, f"must be text, got {kind}; using the file name", key)
        return None
    if key == "model":
        if not texts:
            problems.warn(field.place, f"must be a model or a list of models, got {kind}; ignored", key)
        return next((text.strip() for text in texts if text.strip()), None)
    problems.warn(field.place, f"must be text, got {kind}; using its text", key)
    return ", ".join(texts) if texts else " ".join(field.source.split())


def _as_written(field: Field, node: ScalarNode, problems: Problems, key: str) -> str:
    text = field.chunk.text
    marked = text[node.start : node.start + 1] in ("!", "&") and node.tag not in CORE_TAGS
    if not node.plain:
        return node.text
    stop = text.find("\n", node.end)
    line_end = len(text) if stop < 0 else stop
    tail = text[node.end : line_end].strip()
    if not marked and not tail.startswith("#"):
        return node.text
    part = "a leading ! or &" if marked else "the text after #"
    problems.warn(field.place, f"{part} is kept; put the value in quotes to apply the standard YAML rules", key)
    return " ".join(text[node.start : line_end].split())


def names_value(key: str, field: Field, problems: Problems) -> tuple[list[str] | None, list[str]]:
    """Return the names in a list, and the names that a map of booleans disables; None = not restricted."""
    node, warn = field.node, problems.warner(field.place, key)
    if isinstance(node, ScalarNode):
        return split_names(node.text, warn), []
    if isinstance(node, SequenceNode):
        return join_parentheses(name for item in node.items if (name := _name(item, field, problems, key))), []
    warn("must be a list, got a map; using the keys whose value is true")
    named = ((name.text.strip(), value) for name, value in node.pairs if isinstance(name, ScalarNode))
    switches = {name: _on(value) for name, value in named if name}
    on = [name for name, value in switches.items() if value]
    off = [name for name, value in switches.items() if not value]
    if "*" in off:
        return on, [name for name in off if name != "*"]
    # A map that only disables names does not restrict the others.
    return (on if on or not off else None), off


def _on(value: Node) -> bool:
    if not isinstance(value, ScalarNode):
        return True
    return scalar_value(value) not in (False, None, 0) and value.text.lower() not in ("no", "off", "deny", "false")


def _name(item: Node, field: Field, problems: Problems, key: str) -> str | None:
    if isinstance(item, ScalarNode):
        return item.text.strip()
    place = field.chunk.place(item.start)
    if isinstance(item, MappingNode):
        named = [(k.text, v.text) for k, v in item.pairs if isinstance(k, ScalarNode) and isinstance(v, ScalarNode)]
        # YAML parses `- Bash(git log: *)` as a map; `- name: read` is an intended one.
        if name := dict(named).get("name"):
            problems.warn(place, "must be a name, got a map; using its name", key)
            return name
        if len(named) == 1:
            problems.warn(place, "must be a name, got a map; using its text", key)
            return " ".join(field.chunk.text[item.start : item.end].split())
    # An unreadable name must neither allow a tool nor fail to disallow one.
    report = problems.error if key == "disallowed_tools" else problems.warn
    report(place, "must be a name, got a list or a map; ignored", key)
    return None


def other_value(key: str, field: Field, problems: Problems) -> tuple[bool, object]:
    """Return whether the field has a value to validate, and that value."""
    try:
        value, repeated = value_of(field.node)
    except UnreadableError as error:
        problems.error(field.place, str(error), key)
        return False, None
    for node in repeated:
        problems.warn(field.chunk.place(node.start), f"{shown(node.text)} is given twice; the last value is used", key)
    expected_value = expected(key)
    if key == "mcp_servers" and isinstance(value, str) and "\n" not in value and value[:1] not in ("[", "{"):
        return True, split_names(value, problems.warner(field.place, key))
    if key == "countdown" and isinstance(field.node, MappingNode) and isinstance(value, dict):
        _warn_about_empty(field.node, field, problems)
        return True, {canonical(inner): item for inner, item in value.items() if item is not None}
    if expected_value and isinstance(value, str) and not _has_own_tag(field.node):
        value = _unquoted(key, value, field, expected_value, problems)
    if key == "effort" and isinstance(value, str) and value.strip().lower() == "minimal":
        problems.notice(field.place, "minimal is read as low", key)
        value = "low"
    if key == "time_limit" and _in_minutes(field.key) and isinstance(value, int | float) and _is_number(value):
        value *= 60
    return True, value


def _warn_about_empty(node: MappingNode, field: Field, problems: Problems) -> None:
    """Warn about inner keys without a value; like top-level keys, they count as not given."""
    for key, value in node.pairs:
        if isinstance(key, ScalarNode) and is_null(value):
            text = f"{shown(key.text)} is empty and ignored"
            problems.warn(field.chunk.place(key.start), text, canonical(field.key))


def _has_own_tag(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag is not None and node.tag not in CORE_TAGS


def _in_minutes(key: str) -> bool:
    return key.replace("-", "").replace("_", "").lower() == "timeoutmins"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unquoted(key: str, value: str, field: Field, expected_value: Expected, problems: Problems) -> object:
    """Return the number or boolean in a quoted text, with a warning; otherwise the text."""
    converted: object = value
    if expected_value.number:
        number = plain_value(value.strip())
        converted = number if _is_number(number) else value
    elif expected_value.phrase == "true or false":
        converted = _SWITCHES.get(value.strip().lower(), value)
    if converted is not value:
        problems.warn(field.place, f"{shown(field.source)} is text; read as {shown(str(converted))}", key)
    return converted


def is_empty(field: Field) -> bool:
    """Return whether a key has no value and therefore counts as not given."""
    node = field.node
    if not is_null(node):
        return False
    rest = field.chunk.text[node.end :].partition("\n")[0]
    return not (canonical(field.key) in _VERBATIM and rest.strip().startswith("#"))
