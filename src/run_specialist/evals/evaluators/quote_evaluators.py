"""Evaluators of the quotes of an answer."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from pathspec import PathSpec
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from run_specialist.evals.evaluators.checked_run import checked_run
from run_specialist.evals.evaluators.given import joined, number, texts

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
    return path == pattern or _spec(pattern).match_file(path)


@cache
def _spec(pattern: str) -> PathSpec[Any]:
    # The slash ties the pattern to the root.
    return PathSpec.from_lines("gitignore", [f"/{pattern.removeprefix('./').lstrip('/')}"])
