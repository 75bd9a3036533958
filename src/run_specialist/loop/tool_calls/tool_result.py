"""Build the result that the model reads from a finished call."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from run_specialist.loop.executed import Augmenter, Executed
from run_specialist.record.messages import ToolResult


def augmented(executed: Executed, augmenters: Iterable[Augmenter], warn: Callable[[str], None]) -> ToolResult:
    """Return the result of a call with the additions of the augmenters.

    warn: called with one line for each augmenter that raises; its addition is omitted.
    """
    lines = executed.lines
    fields: dict[str, Any] = {}
    for augmenter in augmenters:
        try:
            added = augmenter(executed)
            if isinstance(added, Mapping):
                fields |= added
            elif added:
                lines.append(str(added))
        except Exception as error:  # noqa: BLE001 - a foreign augmenter must not harm the result
            warn(f"an augmenter failed on {executed.call.name}: {error_line(error)}")
    content = "\n".join(lines)
    return ToolResult(executed.call.id, with_fields(content, fields) if fields else content, executed.is_error)


def with_fields(content: str, fields: Mapping[str, Any]) -> str:
    """Return a result as a JSON object with further fields; other content becomes its `output`."""
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        read = None
    whole = read if isinstance(read, dict) else {"output": content}
    return json.dumps({**whole, **fields}, ensure_ascii=False, default=lambda value: type(value).__name__)


def error_line(error: BaseException) -> str:
    """Return an exception as a line of text that a model may read."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - `__str__` of a foreign exception is foreign code
        return type(error).__name__
