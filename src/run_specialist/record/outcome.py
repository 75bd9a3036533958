"""What the caller gets, whatever happened."""

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Literal

from run_specialist.record.messages import Usage

Status = Literal["answered", "landed", "partial", "failed", "aborted"]
"""By itself; at a limit; salvaged or cut; no answer to be had; interrupted."""


class Exit(IntEnum):
    """Exit codes of the commands."""

    OK = 0
    USAGE = 2
    PROVIDER = 3
    NO_ANSWER = 4
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quote that bears out the answer."""

    source: str
    """Where it stands, usually `path:line`."""
    quote: str
    verified: bool
    """True when the quote was found in the run's results, white space folded."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The tool calls of a run, in numbers."""

    used: int
    limit: int | None
    failed: int
    """Counted in `used` too."""
    skipped: int
    """Not run and not counted in `used`."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One kind of spending."""

    used: float | None
    """None when it cannot be known, as cost without a price."""
    limit: float | None


@dataclass(frozen=True, slots=True)
class LandingReport:
    """How a run came down at a limit."""

    reason: str
    """The kind whose limit was reached."""
    how: str
    """The rung that gave the answer, or `salvage`."""
    requests: int
    """Landing requests that were answered."""
    usage: Usage
    """Of the landing's requests alone."""
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Child:
    """The run of another specialist that was asked by this one, in numbers."""

    run_id: str
    specialist: str
    status: Status
    tool_calls: int
    """Its own, and what its children drew of its budget."""
    usage: Usage
    """Its children's included."""
    cost_usd: float | None
    evidence: tuple[Evidence, ...] = ()
    """Its quotes; those that are verified were read by it, and so by the run that asked."""
    children: tuple["Child", ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run; `as_json` is what `--json` prints."""

    run_id: str
    specialist: str
    model: str
    status: Status
    answer: str
    """The answer; when failed or aborted the salvage, empty only if nothing was gathered."""
    evidence: tuple[Evidence, ...]
    gaps: tuple[str, ...]
    output: Any
    tool_calls: ToolCalls
    limits: dict[str, Spent]
    landing: LandingReport | None
    usage: Usage
    """Of all requests, those of the children included."""
    cost_usd: float | None
    """None when a price is unknown."""
    duration_s: float
    warnings: tuple[str, ...]
    children: tuple[Child, ...] = ()
    """The specialists that were asked on the way, each with what it took of `usage` and `cost_usd`."""
    error: str | None = None
    """One line on why there is no whole answer."""
    exit_code: Exit = Exit.OK

    def as_child(self) -> Child:
        """Return what the run that asked keeps of it."""
        return Child(
            run_id=self.run_id,
            specialist=self.specialist,
            status=self.status,
            tool_calls=self.tool_calls.used,
            usage=self.usage,
            cost_usd=self.cost_usd,
            evidence=self.evidence,
            children=self.children,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values, without what the exit code and stderr tell."""
        values = asdict(self)
        del values["error"], values["exit_code"]
        return values
