"""Everything that one run needs, as a frozen value, and its executed calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, Style
from run_specialist.loop.account import NOT_STARTED, Account
from run_specialist.loop.observing import Observers
from run_specialist.loop.retries import StopSignal
from run_specialist.loop.summarizer import Summarizer
from run_specialist.providers.base import Opening, Provider
from run_specialist.record.events import Started
from run_specialist.record.journal import Opened, Received, RunSnapshot
from run_specialist.record.messages import Message, ToolCall
from run_specialist.record.outcome import FileChange
from run_specialist.safety.redact import redactor
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.archive import Archive

_UNKNOWN = Budget(())


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call that returned."""

    call: ToolCall
    text: str
    """The raw output: redacted and cut to the result limit, without any notice."""
    is_error: bool = False
    truncated: bool = False
    """True if the output was longer than its text."""
    note: str = ""
    """A line that belongs to the output, e.g. how to read on."""
    repeated: bool = False
    """True if an identical call was made before and this is its result."""
    whole: str | None = None
    """The complete output, redacted; None if the text is complete."""
    drawn: Mapping[Kind, float] = field(default_factory=dict)
    """The amounts that a child run spent of the budget, in addition to the call itself."""

    @property
    def all(self) -> str:
        """The complete output."""
        return self.text if self.whole is None else self.whole

    @property
    def lines(self) -> list[str]:
        """The lines of its result before any augmenter: the output and the notices about it."""
        lines = [self.text if self.text.strip() or self.truncated else prompts.EMPTY_RESULT]
        lines += [prompts.TRUNCATED] if self.truncated else []
        lines += [self.note] if self.note else []
        lines += [prompts.SAME_CALL] if self.repeated else []
        return lines

    def cut(self, most: float | None) -> Self:
        """Return the call with at most so many characters of text; None = no limit."""
        if most is None or len(self.text) <= most:
            return self
        return replace(self, text=self.text[: int(most)], truncated=True, whole=self.all)


@dataclass(frozen=True, slots=True)
class Executed(CallRecord):
    """A tool call that returned, with its place in the turn and the budget after it."""

    budget: Budget = _UNKNOWN
    """The budget after this call, in call order."""
    number: int = 1
    """Position among the calls of the turn that were run, from 1."""
    of_turn: int = 1
    """How many calls were run in the turn."""


Augmenter = Callable[[Executed], str | Mapping[str, Any] | None]
"""Looks at a finished call and may return a line to append to its result, or JSON fields to merge into it."""

_values = attrgetter(*(each.name for each in fields(CallRecord)))


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """The calls of a run before it was resumed."""

    executed: Mapping[int, CallRecord] = field(default_factory=dict)
    """Calls that returned, by their number in the run."""
    started: int = 0
    """Calls in the turns that were acted upon."""
    cut_off: int = 0
    """Calls after those that may have been running when the process ended; none of them is run again."""
    skipped: int = 0


def spend_call(budget: Budget, record: CallRecord) -> Budget:
    """Return the budget after one more call; no more characters are spent than are left."""
    left = budget[Kind.CHARACTERS].remaining
    characters = len(record.text) if left is None else min(len(record.text), left)
    spent = budget.spend_all({Kind.TOOL_CALLS: 1, Kind.CHARACTERS: characters})
    return spent.spend_all(record.drawn) if record.drawn else spent


def in_call_order(budget: Budget, records: Sequence[CallRecord]) -> list[Executed]:
    """Return the calls of a turn, each with the budget after it, and its text cut to the characters left before it.

    budget: before the turn.
    """
    executed = []
    for number, record in enumerate(records, 1):
        cut = record.cut(budget[Kind.CHARACTERS].remaining)
        budget = spend_call(budget, cut)
        executed.append(Executed(*(*_values(cut), budget, number, len(records))))
    return executed


SHORTEST_RESULT = 200
"""Minimum length of each result, however many calls a turn has [characters]."""


@dataclass(frozen=True)
class ResumeNote:
    """New information for the model of a resumed run."""

    changed: tuple[Kind, ...] = ()
    """The kinds whose limits have changed."""
    question: str | None = None
    """A follow-up question; None = there is none."""
    remarks: tuple[str, ...] = ()
    """Further facts, each a sentence."""


@dataclass(frozen=True)
class ResumeState:
    """State of an interrupted or ended run that is resumed; the defaults are those of a new run."""

    snapshot: RunSnapshot = NOT_STARTED
    messages: tuple[Message, ...] = ()
    """The transcript, oldest first; empty = the question alone."""
    part: int = 0
    """How often the transcript was summarized."""
    copies: int = 0
    """Number of messages at the beginning of the part that a summary made or copied."""
    earlier: EarlierCalls = field(default_factory=EarlierCalls)
    """The tool calls so far."""
    pending: Received | None = None
    """A reply that arrived but was not acted upon."""
    changes: tuple[FileChange, ...] = ()
    """What the tools of the run have done to files so far, oldest first."""


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """Where a run was forked from."""

    run_id: str
    """The run that the turns are copied from."""
    at: int
    """Number of copied turns."""
    model: str
    """The model that wrote the copied turns."""
    note: str = ""
    """Text for the model after these turns; empty if it needs none."""
    cold_tokens: int | None = None
    """Estimated input of the first request if another model reads it without a cache [tokens]; None if it is not."""
    cold_cost: float | None = None
    """Price of this input [USD]; None if it is unknown."""


@dataclass(frozen=True)
class Job:
    """One question to one specialist."""

    run_id: str
    settings: Specialist
    """The settings of the specialist: from its file and the call, fitted to the context of the model."""
    question: str
    opening: Opening
    """System prompt and tools, identical in every request."""
    provider: Provider
    budget: Budget
    """The limits, unspent."""
    seconds: float = 0
    """Time spent before the run begins on finding the first match of its `paths` [s]."""
    answer_schema: AnswerSchema | None = None
    """Schema of the answer; None = text."""
    archive: Archive | None = None
    """Keeps complete outputs; None if the model has no tool to read them."""
    turn_chars: int | None = None
    """All results of a turn together are cut to this length [characters]; None = no limit."""
    longest_history: int | None = None
    """The run lands if more than this remains before the newest results after a summary [tokens]; None = no limit."""
    summarizer: Summarizer | None = None
    """Shortens a long transcript; None if the model cannot."""
    augmenters: tuple[Augmenter, ...] = ()
    """Functions that extend each tool result, in this order."""
    warnings: tuple[str, ...] = ()
    """Warnings from before the run began; the outcome repeats them."""
    context_warnings: tuple[str, ...] = ()
    """The warnings among `warnings` that concern the context of the model."""
    origin: Callable[[], Mapping[str, Any]] = dict
    """Returns the JSON values from which the job can be rebuilt; called only for a stored run."""
    parent_id: str | None = None
    """The parent run; None if there is none."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials masked by value in the output of tools and foreign code."""
    patch: Callable[[], str] | None = None
    """Returns the changes that the run would have made, as one patch; None without a dry run, and for a child run."""
    resume_state: ResumeState = field(default_factory=ResumeState)
    """State before the run was resumed; empty for a new run."""
    resume_note: ResumeNote | None = None
    """News for the model of a resumed run; None for a new run."""
    further: tuple[str, ...] = ()
    """Questions after the first one, oldest first."""
    proven: tuple[str, ...] = ()
    """Quotes verified by children of the run that a fork copied."""
    forked_from: ForkedFrom | None = None
    """The run that a fork begins with; None for any other run."""

    @cached_property
    def hide(self) -> Callable[[str], str]:
        """Mask credentials in a text: the secrets of this job, and those with a known format."""
        return redactor(self.secrets)

    def result_chars(self, calls: int) -> int:
        """Return the maximum length of one result [characters].

        calls: number of executed tool calls in the turn.
        """
        longest = self.settings.tool_result_limit
        if self.turn_chars is None:
            return longest
        return min(longest, max(self.turn_chars // max(calls, 1), SHORTEST_RESULT))

    @property
    def newest_question(self) -> str:
        """The question that the run works on."""
        return self.further[-1] if self.further else self.question

    @property
    def landing_style(self) -> Style:
        """The style of the landing; with calls as JSON, which a schema constrains anyway, `auto` means `schema`."""
        by_schema = self.opening.tool_calls == "json" and self.provider.capabilities.is_language_model
        style = self.settings.landing
        if self.runs_on_server and style == "finalize":
            return "auto"
        return "schema" if by_schema and style == "auto" else style

    @property
    def runs_on_server(self) -> bool:
        """Whether the API may run some of the tools itself."""
        return self.provider.capabilities.server_tools and bool(self.opening.tools.on_server)

    def started(self) -> Started:
        """Return the first event of its run."""
        limits = {limit.kind.value: limit.limit for limit in self.budget.limits}
        tools = self.opening.tools.names
        return Started(self.run_id, self.settings.name, self.provider.model, self.newest_question, tools, limits)

    def opened(self) -> Opened:
        """Return the first record of its run."""
        frozen = {
            "system": self.opening.system,
            "tools": [tool.definition for tool in self.opening.tools],
            "effort": self.opening.effort,
            **self.origin(),
            **({"first_question": self.question, "questions": self.further} if self.further else {}),
        }
        asked = self.newest_question
        return Opened(self.run_id, self.settings.name, self.provider.model, asked, frozen, self.parent_id)


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all parts of one run share."""

    job: Job
    account: Account
    """The spending so far."""
    observers: Observers
    """The listeners and the journal."""
    stop: StopSignal
    """Once requested, nothing more is sent, and the current turn is the last."""
    steered: list[Callable[[str], object]] = field(default_factory=list)
    """Called with what the user adds: the child runs at work."""
