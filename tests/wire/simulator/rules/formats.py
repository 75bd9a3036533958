"""Rules on `output_config.format`, the JSON Schema that the reply has to match."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.wire import structured_outputs as outputs

from .base import Call, Table

MOST_UNIONS = 16
"""Alternatives of types that the API compiles in one request."""


RULES = Table()


@RULES.rule("output_config.format")
def shape(call: Call) -> Iterator[str]:
    """Require a type and a schema, and nothing else."""
    form = call.body.get("output_config", {}).get("format")
    if form is None:
        return
    if not isinstance(form, dict) or form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
        yield "output_config.format: Input should be a JSON schema format"
        return
    unknown = form.keys() - {"type", "schema"}
    yield from (f"output_config.format.{name}: Extra inputs are not permitted" for name in unknown)


def _unions(schema: outputs.Schema) -> Iterator[str]:
    found = sum("anyOf" in part for _, part in outputs.parts(schema))
    if found > MOST_UNIONS:
        yield f": Schemas contain too many parameters with union types ({found}); the limit is {MOST_UNIONS}"


def _too_large(schema: outputs.Schema) -> Iterator[str]:
    yield from (f": Schema is too complex: {broken}" for broken in outputs.too_large(schema))


def _enter(rule_id: str, check: Callable[[outputs.Schema], Iterator[str]]) -> None:
    @RULES.rule(f"output_config.schema_{rule_id}")
    def checked(call: Call) -> Iterator[str]:
        schema: Any = (call.body.get("output_config", {}).get("format") or {}).get("schema")
        if schema is not None:
            yield from (f"output_config.format.schema{broken}" for broken in check(schema))


for _id, _check in (*outputs.RULES.items(), ("unions", _unions), ("size", _too_large)):
    _enter(_id, _check)
