"""The JSON Schema of files with cases, for editors."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_evals import Dataset

from run_specialist.evals.evaluators.known_evaluators import OWN, UNBILLED


class Inputs(BaseModel):
    """A question with its own settings."""

    model_config = ConfigDict(extra="forbid")

    question: str
    settings: dict[str, Any] = {}
    """Keys of the specialist's file."""


def case_schema() -> dict[str, Any]:
    """Return the schema of pydantic-evals with the evaluators of this package, and without unbilled ones."""
    schema = Dataset[str | Inputs, Any, Any].model_json_schema_with_evaluators(OWN)
    refused = {name for name in schema["$defs"] if name.endswith(UNBILLED)}
    references = [{"$ref": f"#/$defs/{name}"} for name in refused]

    def without(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key not in refused}
        return [without(one) for one in value if one not in references] if isinstance(value, list) else value

    found: dict[str, Any] = without(schema)
    return found
