"""All evaluators that a file with cases can name."""

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

from pathspec import PathSpec
from pydantic_evals import evaluators
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext, EvaluatorSpec

from run_specialist.budget import dollars
from run_specialist.record import outcome
from run_specialist.record.outcome import Evidence, Outcome
from run_specialist.tools import threads
from run_specialist.tools.threads import in_thread

RUN = "run"
"""Name of the attribute of the context that holds the `CheckedRun`."""


@dataclass(frozen=True)
class CheckedRun:
    """An ended run, with the verdicts of judges."""

    outcome: Outcome
    judgements: "Mapping[str, Judgement]" = field(default_factory=dict)
    """Verdicts by the key of the judge, see `Judge.key`."""

    @property
    def text(self) -> str:
        """The answer and its quotes, on one line, for searches that ignore case and white space."""
        return plain("\n".join([self.outcome.answer, *(one.quote for one in self.outcome.evidence)]))

    @property
    def verified(self) -> tuple[Evidence, ...]:
        """The quotes that were found in the results of the run."""
        return tuple(one for one in self.outcome.evidence if one.verified)


@dataclass(frozen=True)
class Judgement:
    """The verdict of a judge on a run."""

    passed: bool | None
    """None if the judge gave no verdict."""
    reason: str
    """One line."""
    run_id: str | None = None
    """The run of the judge; None if none began."""
    cost_usd: float | None = 0.0
    """None if the price is unknown."""


def checked_run(context: "EvaluatorContext[Any, Any, Any]") -> CheckedRun:
    """Return the run for which an evaluator is called.

    Raises ValueError outside an eval of this package.
    """
    run = context.attributes.get(RUN)
    if run is None:
        raise ValueError("this evaluator needs a run of a specialist; use it with `specialists eval`")
    return cast("CheckedRun", run)


def plain(text: str) -> str:
    """Return a text in lower case, with one blank for each run of white space."""
    return " ".join(text.split()).casefold()


def texts(given: Any, what: str) -> tuple[str, ...]:  # noqa: ANN401 - values of a file
    """Return a text or a list of texts as a list; raises ValueError."""
    listed = given if isinstance(given, list | tuple) else [given]
    if not listed or not all(isinstance(one, str) and one.strip() for one in listed):
        raise ValueError(f"expected {what}, or a list of them, got {given!r}")
    return tuple(listed)


def flag(given: Any) -> bool:  # noqa: ANN401 - as above
    """Return a truth value; raises ValueError."""
    if not isinstance(given, bool):
        raise ValueError(f"expected true or false, got {given!r}")  # noqa: TRY004 - all are the same to the caller
    return given


def number(given: Any, most: float = math.inf) -> float:  # noqa: ANN401 - as above
    """Return a number from 0 on; raises ValueError."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= most or math.isinf(given):
        expected = "a number from 0 on" if math.isinf(most) else f"a number from 0 to {most:g}"
        raise ValueError(f"expected {expected}, got {given!r}")
    return float(given)


def joined(words: tuple[str, ...], last: str = "or") -> str:
    """Return words as a list for people, e.g. `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def short(text: str, length: int = 80) -> str:
    """Return a text on one line, cut to a length [characters]."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


PATTERN_TIMEOUT = 5.0
"""Timeout of a regular expression of a case, which may take for ever, e.g. `(a+)+$` [s]."""
_MAY_TAKE_LONG = re.compile(r"[*+?{|]")
"""Without one of these, a pattern has only one way to match at each place, and needs no process of its own."""
_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
sys.exit(0 if re.search(pattern, text, re.IGNORECASE) else 1)
"""


@dataclass(repr=False)
class Contains(Evaluator[object, object, object]):
    """Whether the answer or its quotes contain all of these texts, in any case and with any white space."""

    texts: str | list[str]

    def __post_init__(self) -> None:
        texts(self.texts, "a text")

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether all texts occur."""
        text = checked_run(ctx).text
        missing = tuple(repr(short(one)) for one in texts(self.texts, "a text") if plain(one) not in text)
        reason = f"neither the answer nor its quotes contain {joined(missing)}" if missing else None
        return EvaluationReason(value=not missing, reason=reason)


@dataclass(repr=False)
class Regex(Evaluator[object, object, object]):
    """Whether a regular expression matches in the answer or its quotes; each run of white space is one blank."""

    pattern: str

    def __post_init__(self) -> None:
        given: object = self.pattern
        if not isinstance(given, str) or not given:
            raise ValueError(f"expected a regular expression, got {given!r}")
        try:
            re.compile(self.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{short(self.pattern)!r} is not a regular expression: {error}") from None

    async def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether it matches; raises ValueError if that takes too long."""
        matches = await self._matches(checked_run(ctx).text)
        return EvaluationReason(value=matches, reason=None if matches else f"{short(self.pattern)!r} matches nowhere")

    async def _matches(self, text: str) -> bool:
        """Search in a process that can be killed, because `re` cannot be interrupted; cancelling kills it too."""
        if not _MAY_TAKE_LONG.search(self.pattern):
            return re.search(self.pattern, text, re.IGNORECASE) is not None
        command = [sys.executable, "-I", "-S", "-c", _SEARCH]
        given = json.dumps([self.pattern, text]).encode()
        _, code = await in_thread(lambda: threads.run(command, Path.cwd(), PATTERN_TIMEOUT, given))
        if code is None:
            raise ValueError(f"{short(self.pattern)!r} took longer than {PATTERN_TIMEOUT:g} s; simplify it")
        if code not in {0, 1}:
            raise ValueError(f"{short(self.pattern)!r} could not be searched for (exit code {code})")
        return bool(code == 0)


@dataclass(init=False, repr=False)
class OutputMatches(Evaluator[object, object, object]):
    """Whether the answer of a specialist with `output_schema` has these values; other fields may be anything."""

    expected: Any

    def __init__(self, expected: Any = None, **fields: Any) -> None:  # noqa: ANN401 - JSON values
        """Set the expected values; fields of an object as keyword arguments."""
        self.expected = fields or expected
        if self.expected is None:
            raise ValueError("expected fields and their values, got nothing")

    def build_serialization_arguments(self) -> dict[str, Any]:
        """Return the arguments as a file gives them."""
        return dict(self.expected) if isinstance(self.expected, dict) else {"expected": self.expected}

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether all values match."""
        output = checked_run(ctx).outcome.output
        if output is None:
            return EvaluationReason(value=False, reason="there is no structured answer")
        first = next(_differences(self.expected, output, ""), None)
        return EvaluationReason(value=first is None, reason=first)


def _differences(expected: Any, found: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - JSON values
    """Yield where a value differs from the expected one; objects may have more fields, lists need equal lengths."""
    place = path or "the answer"
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            inner = f"{path}.{key}" if path else str(key)
            if key in found:
                yield from _differences(value, found[key], inner)
            else:
                yield f"{inner} is missing"
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{place} has {len(found)} items, expected {len(expected)}"
        for number, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        yield f"{place} is {short(repr(found))}, expected {short(repr(expected))}"


@dataclass(repr=False)
class Gap(Evaluator[object, object, object]):
    """Whether the run says that it did not find the answer: it has a gap, and no verified quote."""

    gap: bool = True

    def __post_init__(self) -> None:
        flag(self.gap)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether nothing was found, or something, as expected."""
        run = checked_run(ctx)
        if (bool(run.outcome.gaps) and not run.verified) is self.gap:
            return EvaluationReason(value=True)
        if not self.gap:
            return EvaluationReason(value=False, reason=f"nothing was found: {short(run.outcome.gaps[0])}")
        if not run.verified:
            return EvaluationReason(value=False, reason="the answer names no gap")
        return EvaluationReason(value=False, reason=f"something was found: {run.verified[0].source}")


@dataclass(repr=False)
class CallsUnder(Evaluator[object, object, object]):
    """Whether the run made fewer tool calls."""

    calls: int

    def __post_init__(self) -> None:
        number(self.calls)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether there were fewer."""
        used = checked_run(ctx).outcome.tool_calls.used
        return _under(used, self.calls, f"{used:,} tool calls")


@dataclass(repr=False)
class TokensUnder(Evaluator[object, object, object]):
    """Whether the run used fewer tokens, input and output together."""

    tokens: int

    def __post_init__(self) -> None:
        number(self.tokens)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether there were fewer."""
        used = checked_run(ctx).outcome.usage.total_tokens
        return _under(used, self.tokens, f"{used:,} tokens")


@dataclass(repr=False)
class CostUnder(Evaluator[object, object, object]):
    """Whether the run cost less [USD]; an unknown cost fails."""

    usd: float

    def __post_init__(self) -> None:
        number(self.usd)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether it cost less."""
        outcome = checked_run(ctx).outcome
        if outcome.cost_usd is None:
            return EvaluationReason(value=False, reason=f"the price of {outcome.model} is unknown")
        return _under(outcome.cost_usd, self.usd, dollars(outcome.cost_usd))


@dataclass(repr=False)
class SecondsUnder(Evaluator[object, object, object]):
    """Whether the run took less time [s]."""

    seconds: float

    def __post_init__(self) -> None:
        number(self.seconds)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether it took less."""
        took = checked_run(ctx).outcome.duration_s
        return _under(took, self.seconds, f"{took:.1f} s")


def _under(used: float, limit: float, text: str) -> EvaluationReason:
    return EvaluationReason(
        value=used < limit, reason=None if used < limit else f"{text}, expected fewer than {limit:,}"
    )


_STATUSES = get_args(outcome.Status)


@dataclass(repr=False)
class Status(Evaluator[object, object, object]):
    """Whether the run ended with one of these statuses."""

    statuses: str | list[str]

    def __post_init__(self) -> None:
        for one in texts(self.statuses, "a status"):
            if one not in _STATUSES:
                raise ValueError(f"{one!r} is not a status; expected one of {', '.join(_STATUSES)}")

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether the status is one of those."""
        wanted, status = texts(self.statuses, "a status"), checked_run(ctx).outcome.status
        reason = None if status in wanted else f"the run {status}, expected {joined(wanted)}"
        return EvaluationReason(value=reason is None, reason=reason)


@dataclass(repr=False)
class Landed(Evaluator[object, object, object]):
    """Whether a limit ended the run."""

    landed: bool = True

    def __post_init__(self) -> None:
        flag(self.landed)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether the run landed, or did not, as expected."""
        landing = checked_run(ctx).outcome.landing
        if (landing is not None) is self.landed:
            return EvaluationReason(value=True)
        reason = "no limit was reached" if landing is None else f"landed at the limit of {landing.reason}"
        return EvaluationReason(value=False, reason=reason)


ANSWER_JUDGE = "answer-judge"
"""The judge included in the package."""


@dataclass(repr=False)
class Judge(Evaluator[object, object, object]):
    """Whether a judge, which is another specialist, finds that the answer meets a rubric."""

    rubric: str
    specialist: str = ANSWER_JUDGE

    def __post_init__(self) -> None:
        given: dict[str, object] = {"rubric": self.rubric, "specialist": self.specialist}
        for name, value in given.items():
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name} must be a text, got {value!r}")

    @property
    def key(self) -> str:
        """A key that is the same for the same judge and rubric."""
        return hashlib.sha256(f"{self.specialist}\0{self.rubric}".encode()).hexdigest()[:16]

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return the verdict; raises ValueError if there is none."""
        judgement = checked_run(ctx).judgements.get(self.key)
        if judgement is None:
            raise ValueError(f"{self.specialist} was not asked")
        if judgement.passed is None:
            raise ValueError(judgement.reason)
        return EvaluationReason(value=judgement.passed, reason=judgement.reason)


_LINES = re.compile(r":\d+(?:[-:]\d+)?$")


@dataclass(repr=False)
class CitesPath(Evaluator[object, object, object]):
    """Whether a verified quote is from one of these files; a path may be a glob."""

    paths: str | list[str]

    def __post_init__(self) -> None:
        texts(self.paths, "a path")

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether a verified quote is from one of the files."""
        wanted, quotes = texts(self.paths, "a path"), checked_run(ctx).verified
        cited = tuple(dict.fromkeys(path_of(one.source) for one in quotes))
        if any(_matches(path, pattern) for path in cited for pattern in wanted):
            return EvaluationReason(value=True)
        found = f"quotes are from {joined(cited, 'and')}" if cited else "no quote was found in what was read"
        return EvaluationReason(value=False, reason=f"{found}, expected {joined(wanted)}")


@dataclass(repr=False)
class QuotesVerified(Evaluator[object, object, object]):
    """Whether enough of the quotes were found in the results of the run; the score is their share."""

    share: float = 1.0

    def __post_init__(self) -> None:
        number(self.share, 1)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> dict[str, EvaluationReason | float]:
        """Return the share as a score, and whether it reaches the expected minimum."""
        run = checked_run(ctx)
        total, good = len(run.outcome.evidence), len(run.verified)
        share = good / total if total else 0.0
        reason = f"{good} of {total} quotes were found" if total else "the answer has no quotes"
        holds = bool(total) and share >= self.share
        return {
            "QuotesVerified": EvaluationReason(value=holds, reason=None if holds else reason),
            "share of quotes verified": share,
        }


def path_of(source: str) -> str:
    """Return the path of a source, which may end in `:line` or `:line-line`."""
    return _LINES.sub("", source.strip())


def _matches(path: str, pattern: str) -> bool:
    # The slash ties the pattern to the root.
    rooted = f"/{pattern.removeprefix('./').lstrip('/')}"
    return path == pattern or PathSpec.from_lines("gitignore", [rooted]).match_file(path)


_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(.+?)'")

AnyEvaluator = Evaluator[Any, Any, Any]

OWN: tuple[type[AnyEvaluator], ...] = (
    CallsUnder,
    CitesPath,
    Contains,
    CostUnder,
    Gap,
    Judge,
    Landed,
    OutputMatches,
    QuotesVerified,
    Regex,
    SecondsUnder,
    Status,
    TokensUnder,
)
"""The evaluators of this package; they take precedence over those of pydantic-evals with the same name (`Contains`)."""


UNBILLED = ("GEval", "LLMJudge")
"""Evaluators of pydantic-evals that call a model themselves, past limits, bill and store; `Judge` replaces them."""


@cache
def by_name() -> dict[str, type[AnyEvaluator]]:
    """Return all evaluators by name; those of this package take precedence."""
    named = {one.get_serialization_name(): one for one in OWN}
    for name in {*evaluators.__all__} - {*UNBILLED}:
        found = getattr(evaluators, name)
        if isinstance(found, type) and issubclass(found, Evaluator) and found is not Evaluator:
            named.setdefault(name, found)
    return named


def make(given: object) -> AnyEvaluator:
    """Return an evaluator from its entry in a file; raises ValueError."""
    spec = EvaluatorSpec.model_validate(given)
    if spec.name == "HasMatchingSpan" and "name_matches_regex" in str((spec.args, spec.kwargs)):
        raise ValueError("name_matches_regex is not supported, because it may take for ever; use name_contains")
    try:
        return by_name()[spec.name](*spec.args, **spec.kwargs)
    except TypeError as error:
        # The same for the author of a file, who makes no call.
        reason = str(error).partition("() ")[2] or str(error)
        if missing := _MISSING.fullmatch(reason):
            reason = f"{missing[1].replace(chr(39), '')} {'are' if ' and ' in missing[1] else 'is'} missing"
        elif unknown := _UNKNOWN.match(reason):
            reason = f"has no argument {unknown[1]}"
        raise ValueError(reason) from None
