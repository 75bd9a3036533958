"""Texts for the model about an answer that is not accepted and is returned to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from run_specialist.prompts import NOT_RUN_BESIDE_RESPOND

TOO_EARLY = (
    "Not delivered: you called `respond` in the same turn as other tools, before you could read their results. Read "
    "them now, and call `respond` again with an answer that takes them into account."
)
NOT_RUN_BESIDE_RETURNED = "Not run: `respond` was called in the same turn. Call {tool} again if you still need it."
NOT_DELIVERED = "Your answer was not delivered"
"""Begins the message that follows an answer given as text."""
MOST_NAMED = 3
"""Maximum number of quotes that a text names."""
QUOTE_LENGTH = 100
"""Maximum length of each named quote [characters]."""

_HOW_TO_QUOTE = (
    "Quote word for word what a result shows, in `evidence`, with its `path:line`. If nothing there answers the "
    "question, say in `gaps` what you looked for and did not find."
)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why an answer is returned to the model, in the text that the model reads."""

    to_call: str
    """Result of the call of `respond`."""
    to_text: str
    """Message that follows an answer given as text."""
    beside: str = NOT_RUN_BESIDE_RESPOND
    """Result of another call in the same turn, with the name of its tool as `{tool}`."""


def does_not_fit(reason: str) -> Objection:
    """Return the objection to an answer that does not match its schema."""
    return Objection(
        f"Not delivered, because `answer` does not match its schema: {reason}. Call `respond` again with an `answer` "
        "that matches; leave the rest as it was.",
        f"Your answer does not match the schema that `respond` has for `answer`: {reason}. Give it again, in a call of "
        "`respond`; if you cannot call it, let your whole reply be JSON that matches.",
    )


def without_quote(not_found: Sequence[str]) -> Objection:
    """Return the objection to an answer without a verified quote.

    not_found: its quotes; empty if it has none.
    """
    if not_found:
        why = f"none of its quotes stands in the results of your calls: {listed(not_found)}"
    else:
        why = "it has no quote from the results of your calls"
    return Objection(
        f"Not delivered: {why}. {_HOW_TO_QUOTE} Then call `respond` again.",
        f"{NOT_DELIVERED}: {why}. {_HOW_TO_QUOTE} Give the answer again, in a call of `respond`; if you "
        "cannot call it, let your whole reply be JSON with the keys `answer`, `evidence` (a list of objects with "
        "`source` and `quote`) and `gaps` (a list of strings).",
        NOT_RUN_BESIDE_RETURNED,
    )


def listed(quotes: Sequence[str]) -> str:
    """Return a few quotes on one line, each cut to QUOTE_LENGTH."""
    folded = (" ".join(quote.split()) for quote in quotes[:MOST_NAMED])
    named = [f'"{quote if len(quote) <= QUOTE_LENGTH else quote[: QUOTE_LENGTH - 2] + " …"}"' for quote in folded]
    more = len(quotes) - MOST_NAMED
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
