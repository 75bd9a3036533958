"""The rules on `response_format`, the JSON Schema that the reply has to match."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.wire import structured_outputs as outputs

from .rule import NAME, Call, Rule

SCHEMA_KEYS = {"name", "description", "schema", "strict"}


def _format(call: Call) -> Iterator[str]:
    form = call.body.get("response_format", {"type": "text"})
    match form:
        case {"type": "text" | "json_object"} if len(form) == 1:
            return
        case {"type": "json_schema", "json_schema": dict(given)} if len(form) == 2:
            yield from (
                f"Unknown parameter: 'response_format.json_schema.{key}'." for key in given.keys() - SCHEMA_KEYS
            )
            if not NAME.fullmatch(str(given.get("name", ""))):
                yield "Invalid 'response_format.json_schema.name': string does not match the pattern."
            if not isinstance(given.get("schema"), dict) or not isinstance(given.get("strict", False), bool):
                yield "Invalid 'response_format.json_schema': expected a schema."
        case _:
            yield "Invalid value for 'response_format'."


def _root(schema: outputs.Schema) -> Iterator[str]:
    if schema.get("type") != "object" or "anyOf" in schema:
        yield ": schema must be a JSON Schema of 'type: \"object\"'"


def _rule(rule_id: str, check: Callable[[outputs.Schema], Iterator[str]]) -> Rule:
    def checked(call: Call) -> Iterator[str]:
        given: Any = call.body.get("response_format", {}).get("json_schema", {})
        if given.get("strict") is True:
            name = given["name"]
            yield from (f"Invalid schema for response_format '{name}': {broken}" for broken in check(given["schema"]))

    return Rule(rule_id, checked, 400)


RULES = (
    Rule("response_format", _format, 400),
    _rule("schema_root", _root),
    _rule("schema_type", outputs.mistyped),
    _rule("schema_bounds", outputs.bounded),
    _rule("schema_keywords", outputs.unsupported),
    _rule("schema_closed", outputs.open_objects),
    _rule("schema_required", outputs.optional),
    _rule("schema_values", outputs.complex_values),
    _rule("schema_recursion", outputs.recursive),
    _rule("schema_size", outputs.too_large),
)
