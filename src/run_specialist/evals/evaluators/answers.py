"""Evaluators of the answer of a run."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from run_specialist.evals.evaluators.checked_run import checked_run, plain
from run_specialist.evals.evaluators.given import flag, joined, short, texts
from run_specialist.tools.files import search_process
from run_specialist.tools.threads import in_thread

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
        _, code = await in_thread(lambda: search_process.run(command, Path.cwd(), PATTERN_TIMEOUT, given))
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
