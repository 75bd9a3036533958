"""The evaluators that a file with cases can name."""

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from inspect import isawaitable, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_evals import evaluators
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext, EvaluatorSpec

from run_specialist.budget import dollars
from run_specialist.errors import errors_as
from run_specialist.record import outcome
from run_specialist.tools import threads
from run_specialist.tools.ignore import compile_globs

RUN = "run"
"""Attribute of the context that holds the `CheckedRun`."""
# The judge included in the package.
_ANSWER_JUDGE = "answer-judge"
PATTERN_TIMEOUT = 5.0
"""Timeout of a regular expression of a case, which may take for ever, e.g. `(a+)+$` [s]."""
UNBILLED = ("GEval", "LLMJudge")
"""Evaluators of pydantic-evals that call a model themselves, past limits, bill and store; `Judge` replaces them."""

# Without one of these, a pattern has only one way to match at each place, and needs no process of its own.
_MAY_TAKE_LONG = re.compile(r"[*+?{|]")
_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
sys.exit(0 if re.search(pattern, text, re.IGNORECASE) else 1)
"""
_LINES = re.compile(r":\d+(?:[-:]\d+)?$")
_STRICT = ConfigDict(strict=True, extra="forbid")

AnyEvaluator = Evaluator[Any, Any, Any]


class Judgement(NamedTuple):
    """The verdict of a judge on a run."""

    passed: bool | None
    """None if the judge gave no verdict."""
    reason: str
    cost_usd: float | None = 0.0


class CheckedRun:
    """An ended run, with the verdicts of judges."""

    def __init__(self, ended: outcome.Outcome, judgements: Mapping[str, Judgement]) -> None:
        """Set the outcome and the verdicts, by `Judge.key`."""
        self.outcome = ended
        self.judgements = judgements
        self.text = plain("\n".join([ended.answer, *(one.quote for one in ended.evidence)]))
        """The answer and its quotes, on one line, for searches that ignore case and white space."""
        self.verified = tuple(one for one in ended.evidence if one.verified)
        """The quotes that were found in the results of the run."""


def plain(text: str) -> str:
    """Return a text in lower case, with one blank for each run of white space."""
    return " ".join(text.split()).casefold()


def short(text: str, length: int = 80) -> str:
    """Return a text on one line, cut to a length [characters]."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


def path_of(source: str) -> str:
    """Return the path of a source, which may end in `:line` or `:line-line`."""
    return _LINES.sub("", source.strip())


def _joined(words: Sequence[str], last: str = "or") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _listed(given: str | list[str]) -> list[str]:
    return given if isinstance(given, list) else [given]


def _texts(given: str | list[str]) -> str | list[str]:
    if not given or not all(map(str.strip, _listed(given))):
        raise ValueError(f"expected a text, or a list of them, got {given!r}")
    return given


def _pattern(given: str) -> str:
    with errors_as(
        ValueError, f"{short(given)!r} is not a regular expression", re.error, RecursionError, OverflowError
    ):
        re.compile(given)
    return given


Texts = Annotated[str | list[str], AfterValidator(_texts)]
Text = Annotated[str, AfterValidator(_texts)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class RunCheck(AnyEvaluator):
    """An evaluator of this package."""

    def check(self, run: CheckedRun) -> Any:  # noqa: ANN401 - awaitable or not
        """Return None if the run passes, or why not, on one line; raises ValueError if that cannot be told."""
        raise NotImplementedError

    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> Any:  # noqa: ANN401 - as pydantic-evals
        """Return whether the run passes, and why not; or several results by name."""
        found = self.check(ctx.attributes[RUN])
        reason = await found if isawaitable(found) else found
        return reason if isinstance(reason, Mapping) else EvaluationReason(value=reason is None, reason=reason)


def _evaluator(check: Callable[..., Any]) -> type[RunCheck]:
    """Return the evaluator of a function, e.g. `CallsUnder` of `calls_under`; its other parameters are arguments."""
    hints = get_type_hints(check, include_extras=True)
    _, *parameters = signature(check).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}

    def of_fields(self: RunCheck, run: CheckedRun) -> Any:  # noqa: ANN401 - awaitable or not
        return check(run, *(getattr(self, one.name) for one in parameters))

    annotations = {one.name: hints[one.name] for one in parameters}
    fields = {"__annotations__": annotations, "__doc__": check.__doc__, "__module__": __name__, **defaults}
    name = check.__name__.title().replace("_", "")
    made = dataclass(config=_STRICT, repr=False)(type(name, (RunCheck,), {**fields, "check": of_fields}))
    return cast("type[RunCheck]", made)


@_evaluator
def contains(run: CheckedRun, texts: Texts) -> str | None:
    """Whether the answer or its quotes contain all of these texts, in any case and with any white space."""
    missing = [repr(short(one)) for one in _listed(texts) if plain(one) not in run.text]
    return f"neither the answer nor its quotes contain {_joined(missing)}" if missing else None


@_evaluator
async def regex(run: CheckedRun, pattern: Annotated[str, Field(min_length=1), AfterValidator(_pattern)]) -> str | None:
    """Whether a regular expression matches in the answer or its quotes; each run of white space is one blank."""
    if _MAY_TAKE_LONG.search(pattern):
        # In a process that can be killed, because `re` cannot be interrupted; cancelling kills it too.
        command = [sys.executable, "-I", "-S", "-c", _SEARCH]
        given = json.dumps([pattern, run.text]).encode()
        _, code = await threads.in_thread(lambda: threads.run(command, Path.cwd(), PATTERN_TIMEOUT, given))
        if code is None:
            raise ValueError(f"{short(pattern)!r} took longer than {PATTERN_TIMEOUT:g} s; simplify it")
        if code not in {0, 1}:
            raise ValueError(f"{short(pattern)!r} could not be searched for (exit code {code})")
        matches = code == 0
    else:
        matches = re.search(pattern, run.text, re.IGNORECASE) is not None
    return None if matches else f"{short(pattern)!r} matches nowhere"


@dataclasses.dataclass(init=False, repr=False)
class OutputMatches(RunCheck):
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

    def check(self, run: CheckedRun) -> str | None:
        """Return the first difference."""
        if run.outcome.output is None:
            return "there is no structured answer"
        return next(_differences(self.expected, run.outcome.output, ""), None)


def _differences(expected: Any, found: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - JSON values
    """Yield where a value differs from the expected one; objects may have more fields, lists need equal lengths."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            inner = f"{path}.{key}".removeprefix(".")
            if key in found:
                yield from _differences(value, found[key], inner)
            else:
                yield f"{inner} is missing"
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path or 'the answer'} has {len(found)} items, expected {len(expected)}"
        for number, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        yield f"{path or 'the answer'} is {short(repr(found))}, expected {short(repr(expected))}"


@_evaluator
def gap(run: CheckedRun, gap: bool = True) -> str | None:  # noqa: FBT001, FBT002 - an argument in a file
    """Whether the run says that it did not find the answer: it has a gap, and no verified quote."""
    if (bool(run.outcome.gaps) and not run.verified) is gap:
        return None
    if not gap:
        return f"nothing was found: {short(run.outcome.gaps[0])}"
    return f"something was found: {run.verified[0].source}" if run.verified else "the answer names no gap"


def _not_under(used: float, limit: float, text: str) -> str | None:
    return None if used < limit else f"{text.format(used)}, expected fewer than {limit:,}"


@_evaluator
def calls_under(run: CheckedRun, calls: Count) -> str | None:
    """Whether the run made fewer tool calls."""
    return _not_under(run.outcome.tool_calls.used, calls, "{:,} tool calls")


@_evaluator
def tokens_under(run: CheckedRun, tokens: Count) -> str | None:
    """Whether the run used fewer tokens, input and output together."""
    return _not_under(run.outcome.usage.total_tokens, tokens, "{:,} tokens")


@_evaluator
def cost_under(run: CheckedRun, usd: Amount) -> str | None:
    """Whether the run cost less [USD]; an unknown cost fails."""
    cost = run.outcome.cost_usd
    return f"the price of {run.outcome.model} is unknown" if cost is None else _not_under(cost, usd, dollars(cost))


@_evaluator
def seconds_under(run: CheckedRun, seconds: Amount) -> str | None:
    """Whether the run took less time [s]."""
    return _not_under(run.outcome.duration_s, seconds, "{:.1f} s")


@_evaluator
def status(run: CheckedRun, statuses: outcome.Status | list[outcome.Status]) -> str | None:
    """Whether the run ended with one of these statuses."""
    wanted = statuses if isinstance(statuses, list) else [statuses]
    return None if run.outcome.status in wanted else f"the run {run.outcome.status}, expected {_joined(wanted)}"


@_evaluator
def landed(run: CheckedRun, landed: bool = True) -> str | None:  # noqa: FBT001, FBT002 - an argument in a file
    """Whether a limit ended the run."""
    landing = run.outcome.landing
    if (landing is not None) is landed:
        return None
    return "no limit was reached" if landing is None else f"landed at the limit of {landing.reason}"


@dataclass(config=_STRICT, repr=False)
class Judge(RunCheck):
    """Whether a judge, which is another specialist, finds that the answer meets a rubric."""

    rubric: Text
    specialist: Text = _ANSWER_JUDGE

    @property
    def key(self) -> str:
        """A key that is the same for the same judge and rubric."""
        return hashlib.sha256(f"{self.specialist}\0{self.rubric}".encode()).hexdigest()[:16]

    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> EvaluationReason:
        """Return the verdict; raises ValueError if there is none."""
        judgement = ctx.attributes[RUN].judgements.get(self.key)
        if judgement is None:
            raise ValueError(f"{self.specialist} was not asked")
        if judgement.passed is None:
            raise ValueError(judgement.reason)
        return EvaluationReason(value=judgement.passed, reason=judgement.reason)


@_evaluator
def cites_path(run: CheckedRun, paths: Texts) -> str | None:
    """Whether a verified quote is from one of these files; a path may be a glob."""
    wanted, cited = _listed(paths), list(dict.fromkeys(path_of(one.source) for one in run.verified))
    # The slash ties a pattern to the root.
    globs = compile_globs(f"/{one.removeprefix('./').lstrip('/')}" for one in wanted)
    if any(path in wanted or globs.fullmatch(f"/{path}") for path in cited):
        return None
    found = f"quotes are from {_joined(cited, 'and')}" if cited else "no quote was found in what was read"
    return f"{found}, expected {_joined(wanted)}"


@_evaluator
def quotes_verified(run: CheckedRun, share: Annotated[float, Field(ge=0, le=1)] = 1.0) -> dict[str, Any]:
    """Whether enough of the quotes were found in the results of the run; the score is their share."""
    total, good = len(run.outcome.evidence), len(run.verified)
    found = good / total if total else 0.0
    holds = bool(total) and found >= share
    reason = f"{good} of {total} quotes were found" if total else "the answer has no quotes"
    result = EvaluationReason(value=holds, reason=None if holds else reason)
    return {"QuotesVerified": result, "share of quotes verified": found}


OWN: tuple[type[AnyEvaluator], ...] = tuple(sorted(RunCheck.__subclasses__(), key=lambda one: one.__name__))
"""The evaluators of this package; they take precedence over those of pydantic-evals with the same name (`Contains`)."""


@cache
def by_name() -> dict[str, type[AnyEvaluator]]:
    """Return all evaluators by name."""
    others = {name: getattr(evaluators, name) for name in {*evaluators.__all__} - {*UNBILLED, "Evaluator"}}
    known = {name: one for name, one in others.items() if isinstance(one, type) and issubclass(one, Evaluator)}
    return known | {one.get_serialization_name(): one for one in OWN}


def make(given: object) -> AnyEvaluator:
    """Return an evaluator from its entry in a file; raises ValueError."""
    spec = EvaluatorSpec.model_validate(given)
    if spec.name == "HasMatchingSpan" and "name_matches_regex" in str((spec.args, spec.kwargs)):
        raise ValueError("name_matches_regex is not supported, because it may take for ever; use name_contains")
    try:
        return by_name()[spec.name](*spec.args, **spec.kwargs)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "value_error":
            raise ValueError(first["msg"].removeprefix("Value error, ")) from None
        given = "" if first["type"].startswith("missing") else f", got {first['input']!r}"
        raise ValueError(f"{first['loc'][0]}: {first['msg'][:1].lower()}{first['msg'][1:]}{given}") from None
    except TypeError as error:
        # The signature is that of a class of pydantic-evals, which the author of a file does not know.
        raise ValueError(str(error).partition("() ")[2] or str(error)) from None
