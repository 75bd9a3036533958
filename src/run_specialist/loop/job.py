"""All that a run needs, resolved and frozen: the spawner makes it, the runner works on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from run_specialist.budget.budget import Budget, Kind
from run_specialist.budget.ladder import Style
from run_specialist.loop.compaction.summarizer import Summarizer
from run_specialist.loop.spending.account import NOTHING
from run_specialist.loop.tool_calls.dispatcher import DispatchSettings, EarlierCalls
from run_specialist.loop.tool_calls.executed import Augmenter
from run_specialist.providers.base import Opening, Provider
from run_specialist.record.events import Started
from run_specialist.record.journal import Opened, RunSnapshot
from run_specialist.record.messages import Message, Reply
from run_specialist.redaction import redactor
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.tools.archive import Archive


@dataclass(frozen=True)
class ResumeNote:
    """What is new to a model when its run goes on."""

    changed: tuple[Kind, ...] = ()
    """The kinds whose limits are others now."""
    question: str | None = None
    """What is asked beside the question of the beginning."""
    remarks: tuple[str, ...] = ()
    """What else it has to know, each a sentence."""


@dataclass(frozen=True)
class ResumeState:
    """Where a run stands that goes on after it was cut off, or had ended."""

    standing: RunSnapshot = NOTHING
    messages: tuple[Message, ...] = ()
    """All that was said, the newest last; empty where it is the question alone."""
    part: int = 0
    copies: int = 0
    """See `Checkpointed`."""
    earlier: EarlierCalls = field(default_factory=EarlierCalls)
    """What was run."""
    pending: Reply | None = None
    """A reply that came in and was not acted upon."""
    pending_words: str | None = None
    """Our last words in what it answers."""
    pending_in_landing: bool = False
    pending_seconds: float = 0
    """How long it took."""


@dataclass(frozen=True)
class Job:
    """One question to one specialist."""

    run_id: str
    specialist: str
    question: str
    opening: Opening
    """System prompt and tools, the same in every request."""
    provider: Provider
    budget: Budget
    """Nothing of it is spent yet."""
    seconds: float = 0
    """Spent before the run begins, to find anything of its `paths` [s]."""
    landing: Style = "auto"
    landing_prompt: str | None = None
    """Own words for the order at the limit."""
    answer_schema: AnswerSchema | None = None
    """Shape of the answer; None = text."""
    archive: Archive | None = None
    """Where outputs are kept whole, when the model has a tool to read in it."""
    summarize_at: int | None = None
    """Above this the older part of the transcript is summarised [tokens]; None = only when nothing more fits."""
    summariser: Summarizer | None = None
    """Shortens a history that grows too long; None where no model can."""
    augmenters: tuple[Augmenter, ...] = ()
    """The last stage of dispatch, in this order."""
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    warnings: tuple[str, ...] = ()
    """What was odd before the run began; the outcome repeats it."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Where it came from, in JSON values: what it takes to make it once more."""
    parent_id: str | None = None
    """The run whose tool call this is; None where nobody's."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials that are masked by value in everything that tools and other people's code say."""
    past: ResumeState = field(default_factory=ResumeState)
    """What went before; nothing, where the run is not resumed."""
    news: ResumeNote | None = None
    """None where the run is not resumed."""

    @cached_property
    def hide(self) -> Callable[[str], str]:
        """Mask credentials in a text: those of this job, and all of a known shape."""
        return redactor(self.secrets)

    def started(self) -> Started:
        """Return the first event of its run."""
        limits = {limit.kind.value: limit.limit for limit in self.budget.limits}
        tools = self.opening.tools.names
        return Started(self.run_id, self.specialist, self.provider.model, self.question, tools, limits)

    def opened(self) -> Opened:
        """Return the first record of its run; where it is resumed, what it goes on with."""
        frozen = {
            "system": self.opening.system,
            "tools": [tool.definition for tool in self.opening.tools],
            "effort": self.opening.effort,
            **self.origin,
        }
        return Opened(self.run_id, self.specialist, self.provider.model, self.question, frozen, self.parent_id)
