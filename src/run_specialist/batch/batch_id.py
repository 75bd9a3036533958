"""Compute the id of a batch, which is the same for the same call."""

import hashlib
import json
import re
from collections.abc import Sequence

from run_specialist.errors import UsageError

LONGEST = 60
"""Maximum length; the ids of runs begin with it [characters]."""
_DIGITS = 8
_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")


def batch_id(project: str, specialist: Sequence[str | None], question: str | None, source: str) -> str:
    """Return `b` and 8 hexadecimal digits that depend on the question of the batch, but not on its items.

    specialist: its name, the digest of its file, its settings and the model.
    question: template of the questions; None = each item is its question.
    source: name of the source of the items.
    """
    parts = json.dumps([project, specialist, question, source])
    return f"b{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def checked_id(given: str) -> str:
    """Return a valid id; raises UsageError for an id that cannot name a batch."""
    if not _ID.fullmatch(given):
        raise UsageError(
            f"batch: {given!r} cannot be the id of a batch; use 1 to {LONGEST} letters, digits, `.`, `_` and `-`"
        )
    return given
