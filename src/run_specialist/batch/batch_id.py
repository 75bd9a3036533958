"""The id of a batch, which is the same for the same call."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from run_specialist.errors import UsageError

LONGEST = 60
"""So that the ids of runs, which begin with it, are not too long [characters]."""
_DIGITS = 8
_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")


def batch_id(project: str, specialist: str, given: Mapping[str, Any], question: str | None, source: str) -> str:
    """Return `b` and 8 hexadecimal digits that change with what the batch asks, but not with its items.

    specialist: name and digest.
    given: the settings and the model of the call.
    question: template of the questions; None = each item is its question.
    source: where the items are from.
    """
    parts = json.dumps([project, specialist, given, question, source], sort_keys=True, default=str)
    return f"b{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def checked_id(given: str) -> str:
    """Return an id that was given from outside; raises UsageError for one that cannot name a batch."""
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise UsageError(
            f"batch: {given!r} cannot be the id of a batch; use 1 to {LONGEST} letters, digits, `.`, `_` and `-`"
        )
    return given
