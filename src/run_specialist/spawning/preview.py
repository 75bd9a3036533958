"""The model, tools and limits that a run of a specialist would get, computed by `spawn` without running anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from run_specialist.errors import UsageError
from run_specialist.loop.job import Job
from run_specialist.providers.choose import DescribedModel
from run_specialist.providers.models import Price
from run_specialist.record.messages import Usage
from run_specialist.spawning.prompt_texts import AddedText
from run_specialist.spawning.spawner import LIMITS, DroppedTool, RunEnvironment, choose_tools, spawn
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.settings import Origin, ResolvedSettings

_OTHER_LIMITS = ("parallel_tools_limit", "tool_timeout", "tool_result_limit", "summarize_at")


@dataclass(frozen=True, slots=True)
class EffectiveLimit:
    """One limit as it holds in a run."""

    value: float | None
    """In the unit of its key; None = no limit."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class EffectiveModel:
    """The model that a run would use."""

    name: str
    """The alias or id that was chosen."""
    id: str
    """The id in requests and outcomes."""
    source: str
    """The source of the choice: `line 4`, `SPECIALIST_MODEL` or a state of the environment."""
    price: Price | None
    """Price; None if it is unknown, or if the model costs nothing."""
    is_free: bool
    """True if no model is billed, as offline."""

    @classmethod
    def of(cls, name: str, source: str, model: DescribedModel) -> Self:
        """Return a model that was chosen by this name and source."""
        return cls(name, model.provider.model, source, model.price, model.provider.cost(Usage(1)) == 0)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        price = self.price
        return {
            "name": self.name,
            "id": self.id,
            "source": self.source,
            "usd_per_million_tokens": price and {"input": price.input, "output": price.output},
            "higher_price_above_tokens": price and price.higher_above,
        }


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The model, tools and limits of a run."""

    model: EffectiveModel
    offered: Sequence[str] | None
    """Names of the tools in the first request, sorted; None if they cannot be determined, e.g. because none exists."""
    dropped: Sequence[DroppedTool]
    limits: Mapping[str, EffectiveLimit]
    """By key of the file."""
    at_run_time: Sequence[str]
    """Details that are known only when a run begins."""
    added_to_prompt: Sequence[AddedText]
    """The additions to the prompt of the file."""
    cannot_run: Sequence[str]
    """Reasons why a run would not begin; empty if none is known."""
    following: Sequence[EffectiveModel] = ()
    """The fallback models, in order."""

    def as_json(self, file: SpecialistFile) -> dict[str, Any]:
        """Return plain values; the lines are those of the file."""
        return {
            "tools": {
                "offered": None if self.offered is None else list(self.offered),
                "dropped": [
                    {"name": one.name, "reason": one.reason, "key": one.key, "line": file.lines.get(one.key or "")}
                    for one in self.dropped
                ],
            },
            "model": self.model.as_json(),
            "fallback_models": [one.as_json() for one in self.following],
            "limits": {
                key: {
                    "value": limit.value,
                    "source": limit.origin.source,
                    "line": limit.origin.line,
                    "path": None if limit.origin.path is None else str(limit.origin.path),
                }
                for key, limit in self.limits.items()
            },
            "added_to_prompt": [one.as_json() for one in self.added_to_prompt],
            "known_at_run_time": list(self.at_run_time),
            "cannot_run": list(self.cannot_run),
        }


def effective(
    file: SpecialistFile, resolved: ResolvedSettings, model: EffectiveModel, environment: RunEnvironment
) -> EffectiveSettings:
    """Return what a run gets.

    environment: the environment of a run with the provider of `model`, in which nothing is connected or imported.
    """
    reasons: list[str] = []
    job: Job | None = None
    try:
        job = spawn(file, resolved.settings, "", environment)
    except UsageError as error:
        reasons.append(str(error))
    try:
        _, dropped = choose_tools(file, resolved.settings, environment)
    except UsageError:
        dropped = []
    return EffectiveSettings(
        model,
        None if job is None else job.opening.tools.names,
        dropped,
        {key: EffectiveLimit(value, resolved.origin(key)) for key, value in _limits(resolved, job).items()},
        (),
        environment.prompt_texts.texts,
        tuple(reasons),
    )


def _limits(resolved: ResolvedSettings, job: Job | None) -> dict[str, float | None]:
    """Return the limits of a job; without a job, those of the settings."""
    if job is None:
        return {key: getattr(resolved.settings, key) for key in (*LIMITS, *_OTHER_LIMITS)}
    limits = {key: job.budget[kind].limit for key, kind in LIMITS.items()}
    return limits | {key: getattr(job.settings, key) for key in _OTHER_LIMITS}
