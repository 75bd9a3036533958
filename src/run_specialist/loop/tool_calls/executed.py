"""A tool call that was run, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind
from run_specialist.record.messages import ToolCall

_UNKNOWN = Budget(())


@dataclass(frozen=True, slots=True)
class Executed:
    """A tool call that was run, with what came of it."""

    call: ToolCall
    text: str
    """The raw output: redacted, cut to what a result may hold, without any notice of ours."""
    is_error: bool = False
    truncated: bool = False
    """True when the output was longer than its text."""
    note: str = ""
    """A line of ours that belongs to the output, e.g. how to read on."""
    repeated: bool = False
    """True when an identical call was made before and this is its result."""
    whole: str | None = None
    """All of the output, redacted; None where the text is all."""
    drawn: Mapping[Kind, float] = field(default_factory=dict)
    """What a child took of the budget, beside the call itself."""
    budget: Budget = _UNKNOWN
    """The budget after this call, in call order."""
    number: int = 1
    """Which call of its turn it is, counted from 1 over those that were run."""
    of_turn: int = 1
    """How many calls were run in its turn."""

    @property
    def all(self) -> str:
        """The whole output."""
        return self.text if self.whole is None else self.whole

    @property
    def lines(self) -> list[str]:
        """What its result says before any augmenter: the output, and what there is to say of it."""
        lines = [self.text if self.text.strip() or self.truncated else prompts.EMPTY_RESULT]
        lines += [prompts.TRUNCATED] if self.truncated else []
        lines += [self.note] if self.note else []
        lines += [prompts.SAME_CALL] if self.repeated else []
        return lines

    def cut(self, most: float | None) -> "Executed":
        """Return the call with no more text than this; None = however much there is."""
        if most is None or len(self.text) <= most:
            return self
        return replace(self, text=self.text[: int(most)], truncated=True, whole=self.all)


Augmenter = Callable[[Executed], str | Mapping[str, Any] | None]
"""Looks at a finished call and may return a line to stand at the end of its result, or fields to join it as JSON."""
