"""Extract the values from the fields of a file, key by key."""

from typing import Any

from run_specialist.specialist import field_values
from run_specialist.specialist.fallback_models import take_models
from run_specialist.specialist.foreign_keys import take_foreign
from run_specialist.specialist.keys import CANONICAL, INERT, KEPT_BY_READING, RESTRICTING, nearest
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.reading.frontmatter import Field, FrontMatter
from run_specialist.specialist.reading.nodes import ScalarNode


def take_values(front: FrontMatter, problems: Problems) -> dict[str, Any]:
    """Return the values of the known keys; report every other key as a problem."""
    given: dict[str, Any] = {}
    others = {key: field for key, field in front.fields.items() if key not in CANONICAL}
    for key, field in front.fields.items():
        if key not in others:
            _take_value(key, field, given, problems)
    take_models(front, given, problems)
    only_reads = not any(given.get(key) for key in ("agents", "mcp_servers", "python_tools", "writable"))
    taken = take_foreign(front, given, problems)
    only_reads = only_reads and not given.get("memory")
    for key, field in others.items():
        if key not in taken:
            _report_other_key(key, field, problems, only_reads=only_reads)
    return given


def _take_value(key: str, field: Field, given: dict[str, Any], problems: Problems) -> None:
    if field_values.is_empty(field):
        problems.warn(field.place, "is empty and ignored", key)
    elif key in field_values.TEXTS:
        if text := field_values.text_value(key, field, problems):
            given[key] = text
        elif isinstance(field.node, ScalarNode):
            problems.warn(field.place, "is empty and ignored", key)
    elif key in field_values.NAMES:
        _take_names(key, field, given, problems)
    else:
        usable, value = field_values.other_value(key, field, problems)
        if usable:
            given[key] = value


def _take_names(key: str, field: Field, given: dict[str, Any], problems: Problems) -> None:
    names, off = field_values.names_value(key, field, problems)
    if key == "tools" and names is not None and "*" in names:
        problems.notice(field.place, "* does not restrict anything", key)
        names = None
    if key == "tools" and names == [] and isinstance(field.node, ScalarNode):
        problems.warn(field.place, "contains no name, so no tool is allowed", key)
    if off and key == "tools":
        given["disallowed_tools"] = (*given.get("disallowed_tools", ()), *off)
    if names is not None:
        given[key] = (*given.get(key, ()), *names)


def _report_other_key(key: str, field: Field, problems: Problems, *, only_reads: bool) -> None:
    written = shown(field.key)
    if only_reads and key in KEPT_BY_READING and KEPT_BY_READING[key] in {None, field.source.strip("\"' ").lower()}:
        problems.notice(field.key_place, "has no effect here, because all tools only read", written)
    elif key in RESTRICTING:
        problems.warn(field.key_place, "restricts agents in other programs but has no effect here", written)
    elif key in INERT:
        problems.notice(field.key_place, "has no effect here", written)
    else:
        close = None if problems.full else nearest(key)
        problems.warn(field.key_place, f"unknown key{f'; did you mean {close}?' if close else ''}", written)
