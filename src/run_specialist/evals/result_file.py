"""Read the result of an eval from a file that `--json` wrote."""

import json
from collections.abc import Mapping
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.eval_results import EvalResult
from run_specialist.safe_files import safe_open

LARGEST = 256 * 1024 * 1024
"""[bytes]"""


def read_result(path: Path) -> EvalResult:
    """Return the result in a file that `--json` wrote; raises UsageError with the place of the problem."""
    try:
        with safe_open.open_file(path, None) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path}: is larger than {LARGEST // 1024**2} MiB")
    try:
        return _result(json.loads(data))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: is not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}:1:1: is not a result of an eval: {reason}") from None


def _result(value: object) -> EvalResult:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only needed here

    if not isinstance(value, Mapping):
        raise ValueError("expected what `specialists eval NAME --json` prints")  # noqa: TRY004 - bad input
    try:
        return TypeAdapter(EvalResult).validate_python({**value, "eval_id": value.get("eval")})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])).replace("eval_id", "eval")
        raise ValueError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
