"""The JSON Schema of files with cases, for editors."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_evals import Dataset

from run_specialist.evals.evaluators.known_evaluators import OWN


class Inputs(BaseModel):
    """A question with its own settings."""

    model_config = ConfigDict(extra="forbid")

    question: str
    settings: dict[str, Any] = {}
    """Keys of the specialist's file."""


def case_schema() -> dict[str, Any]:
    """Return the schema of pydantic-evals with the evaluators of this package."""
    return Dataset[str | Inputs, Any, Any].model_json_schema_with_evaluators(OWN)
