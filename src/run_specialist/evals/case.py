"""The cases of an eval: questions, each with the checks of its runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_evals.evaluators import Evaluator


@dataclass(frozen=True)
class EvalCase:
    """One question, and the checks of its runs."""

    name: str
    """Unique in its set."""
    question: str
    where: str
    """Its place, `file:line:column`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the runs of this case only, by name of the key."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Places of the settings, `file:line:column`, by name of the key."""
    evaluators: "tuple[Evaluator[Any, Any, Any], ...]" = ()
    """The evaluators of the case, then those of the whole set."""
    expected_output: Any = None
    metadata: Any = None


@dataclass(frozen=True)
class EvalSet:
    """The cases of one file."""

    path: Path
    cases: tuple[EvalCase, ...]
