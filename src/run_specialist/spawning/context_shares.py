"""Share a context of known length between prompt, tools, results and reply: defaults and warnings that follow from it.

The provider limits a reply to a quarter. The rest, without the prompt, the tools, the question and the reply, is the
room for the work. One result takes at most a third of it and all results of a turn half, so that two turns fit whatever
they read. The transcript is summarized above three quarters: the estimate of what was added last may be a sixth too
low. docs/models.md explains the shares.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from run_specialist.loop.compaction.summarizer import SUMMARY_LIMIT
from run_specialist.providers.base import Capabilities
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.presets import PRESETS

CHARACTERS_PER_TOKEN = 3
"""Low estimate, so that results fit even if they consist of code, numbers or names [characters]."""
RESULT_SHARE, TURN_SHARE, SUMMARY_SHARE = 3, 2, 8
"""Divisors of the room: the maximum of one result, of all results of a turn, and of a summary."""
SHORTEST_RESULT = 400
"""Minimum length of a result, below which searching would be pointless [characters]."""
SHORTEST_SUMMARY = 100
"""Minimum length of a summary [tokens]."""


@dataclass(frozen=True, slots=True)
class ContextShares:
    """The shares of a context."""

    front: int
    """Estimated size of what is in every request: system prompt, tools and question [tokens]."""
    room: int
    """The remainder for results and replies of the run [tokens]; at least 0."""

    @property
    def result_chars(self) -> int:
        """Maximum length of one result [characters]."""
        return max(self.room * CHARACTERS_PER_TOKEN // RESULT_SHARE, SHORTEST_RESULT)

    @property
    def turn_chars(self) -> int:
        """Maximum length of all results of one turn [characters]."""
        return max(self.room * CHARACTERS_PER_TOKEN // TURN_SHARE, SHORTEST_RESULT)

    @property
    def longest_history(self) -> int:
        """Maximum size of a request beside the newest results, which take the other half of the room [tokens]."""
        return self.front + max(self.room // TURN_SHARE, 1)

    @property
    def summarizing(self) -> dict[str, int]:
        """The settings of summarizing, by key [tokens]."""
        return {
            "summarize_at": self.front + max(3 * self.room // 4, 1),
            "context_target": self.longest_history,
            "summary_limit": min(SUMMARY_LIMIT, max(self.room // SUMMARY_SHARE, SHORTEST_SUMMARY)),
        }


@dataclass(frozen=True, slots=True)
class FittedSettings:
    """Settings of a run that fit the context of its model."""

    settings: Specialist
    turn_chars: int | None = None
    """Maximum length of all results of a turn [characters]; None = no limit."""
    longest_history: int | None = None
    """Size above which the results of another turn might not fit [tokens]; None = not known."""
    warnings: tuple[str, ...] = ()


def share(context_tokens: int, reply_tokens: int, front_chars: int) -> ContextShares:
    """Share a context.

    reply_tokens: maximum length of a reply.
    front_chars: length of what is in every request [characters].
    """
    front = -(-front_chars // CHARACTERS_PER_TOKEN)
    return ContextShares(front, max(context_tokens - reply_tokens - front, 0))


def fit_to_context(settings: Specialist, capabilities: Capabilities, front_chars: Callable[[], int]) -> FittedSettings:
    """Return settings that fit the context, if its length is known; explicit ones stay, with a warning if too large.

    front_chars: returns the length of what is in every request [characters].
    """
    context = capabilities.context_tokens
    if context is None:
        return FittedSettings(settings)
    shares = share(context, capabilities.max_output_tokens, front_chars())
    given = _given(settings)
    changed: dict[str, Any] = {} if "summarize_at" in given else shares.summarizing
    if "tool_result_limit" not in given:
        changed["tool_result_limit"] = min(settings.tool_result_limit, shares.result_chars)
    fitted = settings.model_copy(update={key: value for key, value in changed.items() if key not in given})
    # A result of the length that the user has set passes whole, even if it is the only one of its turn.
    turn_chars = max(shares.turn_chars, fitted.tool_result_limit)
    warnings = _warnings(settings, given, capabilities, shares)
    return FittedSettings(fitted, turn_chars, shares.longest_history, tuple(warnings))


def _given(settings: Specialist) -> set[str]:
    """Return the keys that were set for this specialist, not only by a preset, which must suit every model."""
    preset = PRESETS[settings.preset] if settings.preset else {}
    return {key for key in settings.model_fields_set if key not in preset or preset[key] != getattr(settings, key)}


def _warnings(settings: Specialist, given: set[str], capabilities: Capabilities, shares: ContextShares) -> list[str]:
    context = capabilities.context_tokens or 0
    found = [capabilities.context_note] if capabilities.context_note else []
    if shares.room * CHARACTERS_PER_TOKEN < SHORTEST_RESULT:
        found.append(
            f"system prompt, tools and question take about {shares.front:,} of the {context:,} tokens of the context, "
            "and little is left for results; give the model a longer context, or the specialist fewer tools"
        )
    most = shares.room * CHARACTERS_PER_TOKEN
    if "tool_result_limit" in given and settings.tool_result_limit > most:
        found.append(
            f"tool_result_limit: a result of {settings.tool_result_limit:,} characters does not fit into the context "
            f"of {context:,} tokens, which holds about {most:,} characters of results"
        )
    at = settings.summarize_at
    if "summarize_at" in given and at is not None and at > shares.front + shares.room:
        found.append(
            f"summarize_at: {at:,} tokens are never reached, because the context of {context:,} tokens is full at "
            f"about {shares.front + shares.room:,}"
        )
    return found
