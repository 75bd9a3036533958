"""The result of one question, and the file that collects results, one JSON object a line."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import kept_lines
from bench.local_models.leaked import has_leaked_call
from bench.local_models.scorer import Notes, Question, mistakes
from run_specialist.record.outcome import Outcome

SILENT = "silent"
"""Status of a question without an outcome within the time for one question."""
SALVAGED = "[No finished answer:"
"""Start of an answer that the program built from results, because the model gave none."""

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one question."""

    setup: str
    """Model, template and limits; results of another setup are not comparable."""
    variant: str
    api: str
    question: str
    """Id of the question."""
    commit: str
    """The measured commit."""
    status: str
    """Status of the outcome, or `silent`."""
    answer: str
    """Empty if the model gave none; a salvaged answer does not count as its own."""
    verified: int
    """Quotes that the program found in what was read."""
    in_notes: int
    """Quotes that the benchmark found in the notes."""
    quotes: int
    mistakes: tuple[str, ...]
    """Why the answer is not right; empty if it is."""
    is_leaked_call: bool
    landing: str
    """The rung that produced the answer; empty without a landing."""
    landing_requests: int
    calls: int
    skipped: int
    turns: int
    input_tokens: int
    """Including those from the cache."""
    output_tokens: int
    seconds: float
    warnings: tuple[str, ...]

    @property
    def key(self) -> Key:
        """Values that are measured once."""
        return self.setup, self.variant, self.api, self.question

    @property
    def is_right(self) -> bool:
        """Whether the scorer found no mistake."""
        return not self.mistakes

    def line(self) -> str:
        """Return one line for the terminal."""
        landing = f" by {self.landing} ({self.landing_requests} requests)" if self.landing else ""
        verdict = "right" if self.is_right else f"wrong: {'; '.join(self.mistakes)}"
        leaked = ", JSON of a call" if self.is_leaked_call else ""
        return (
            f"{self.question} {self.variant} {self.api}: {self.status}{landing}{leaked}, {self.calls} calls, "
            f"{self.turns} requests, {self.input_tokens:,} + {self.output_tokens:,} tokens, {self.seconds:.0f} s, "
            f"{self.verified} of {self.quotes} quotes verified, {verdict}"
        )


@dataclass(frozen=True, slots=True)
class Lap:
    """Values shared by the questions of one lap."""

    setup: str
    variant: str
    api: str
    commit: str

    def key(self, question: Question) -> Key:
        """Return the values that are measured once."""
        return self.setup, self.variant, self.api, question.id

    def result(
        self, question: Question, outcome: Outcome | None, notes: Notes, *, seconds: float, in_time: bool = True
    ) -> Result:
        """Return the result of a question.

        outcome: None if the run was abandoned before it began.
        """
        answer, evidence = _answered(outcome) if in_time else ("", ())
        usage = outcome.usage if outcome else None
        landing = outcome.landing if outcome else None
        # Sources and facts may be given as evidence only, which a caller reads together with the answer.
        verified = [quote for quote in evidence if quote.verified]
        read = "\n".join([answer, *(f"{quote.source}: {quote.quote}" for quote in verified)])
        return Result(
            **asdict(self),
            question=question.id,
            status=outcome.status if outcome and in_time else SILENT,
            answer=answer,
            verified=len(verified),
            in_notes=sum(notes.contain(quote.quote) for quote in evidence),
            quotes=len(evidence),
            mistakes=tuple(mistakes(question, read, notes)) if answer else ("no answer",),
            is_leaked_call=has_leaked_call(answer),
            landing=landing.how if landing else "",
            landing_requests=landing.requests if landing else 0,
            calls=outcome.tool_calls.used if outcome else 0,
            skipped=outcome.tool_calls.skipped if outcome else 0,
            turns=int(outcome.limits["turns"].used or 0) if outcome else 0,
            input_tokens=usage.total_tokens - usage.output_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            seconds=round(seconds, 1),
            warnings=outcome.warnings if outcome else (),
        )


def _answered(outcome: Outcome | None) -> tuple[str, tuple[Any, ...]]:
    """Return the model's own answer and its quotes; both are empty if the answer was salvaged."""
    if outcome is None or outcome.status in {"failed", "aborted"} or outcome.answer.startswith(SALVAGED):
        return "", ()
    return outcome.answer, outcome.evidence


class Results:
    """All results so far, kept in a file if there is one."""

    def __init__(self, file: Path | None = None) -> None:
        """Read the results of earlier runs.

        Raises LinesUnreadable.
        """
        self._file = file
        self._by_key = {result.key: result for result in kept_lines.read(file, "setup", _of_line)}
        # A question whose line was cut is asked again.
        kept_lines.mend(file)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def add(self, result: Result) -> None:
        """Add a result and append it to the file."""
        self._by_key[result.key] = result
        kept_lines.append(self._file, asdict(result))

    def of(self, setup: str, variants: Iterable[str]) -> list[Result]:
        """Return the results with one setup, in the order in which they were added."""
        chosen = set(variants)
        return [result for result in self._by_key.values() if result.setup == setup and result.variant in chosen]


def _of_line(values: dict[str, Any]) -> Result:
    return Result(**(values | {name: tuple(values[name]) for name in ("mistakes", "warnings")}))
