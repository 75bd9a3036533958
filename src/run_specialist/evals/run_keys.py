"""The ids of the runs of an eval, derived from their inputs, so that the same run is not made twice."""

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest

_DIGITS = 16


def run_key(asked: "RunRequest", model: str, project: str, kind: Literal["e", "j"] = "e") -> str:
    """Return a letter and 16 hexadecimal digits that depend on every input of the run.

    model: id of the model.
    project: the folder whose files the run reads; their content is compared before a run is reused.
    kind: `e` for a case, `j` for a judge.
    """
    from run_specialist.spawning.spawner import answer_schema  # noqa: PLC0415 - fast `--help`

    settings: dict[str, Any] = asked.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    schema = answer_schema(asked.file, asked.settings)
    settings["output_schema"] = None if schema is None else dict(schema.schema)
    parts = [project, asked.file.name, asked.file.digest, settings, model, asked.question]
    return f"{kind}{_digest(parts)}"


def run_id(key: str, repeat: int, generation: int = 1) -> str:
    """Return the id of a run.

    repeat: from 1.
    generation: from 1; a later one replaces a run whose files have changed, or that was to be repeated.
    """
    return f"{key}-{repeat}" if generation == 1 else f"{key}-{repeat}.{generation}"


def eval_id(parts: Any) -> str:  # noqa: ANN401 - JSON values
    """Return `eval-` and 8 hexadecimal digits that depend on the compared variants and cases."""
    return f"eval-{_digest(parts)[:8]}"


def _digest(parts: Any) -> str:  # noqa: ANN401 - JSON values
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
