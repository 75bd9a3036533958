"""Describe the typical run of a specialist: medians of its past runs, by model; pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Medians:
    """The medians of some runs."""

    model: str
    runs: int
    tool_calls: float
    seconds: float
    cost_usd: float | None
    """None if the price of every run is unknown."""

    @classmethod
    def of(cls, model: str, outcomes: Sequence[Mapping[str, Any]]) -> Self:
        """Return the medians of at least one outcome in the form of `--json`."""
        costs = [one["cost_usd"] for one in outcomes if one["cost_usd"] is not None]
        return cls(
            model,
            len(outcomes),
            median(one["tool_calls"]["used"] for one in outcomes),
            round(median(one["duration_s"] for one in outcomes), 3),
            round(median(costs), 8) if costs else None,
        )


def medians_by_model(outcomes: Iterable[Mapping[str, Any]]) -> tuple[Medians, ...]:
    """Return the medians of all runs with an answer, by model, the model with the most runs first."""
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for one in outcomes:
        if one.get("status") in {"answered", "landed", "partial"}:
            by_model.setdefault(one["model"], []).append(one)
    return tuple(Medians.of(model, by_model[model]) for model in sorted(by_model, key=lambda one: -len(by_model[one])))


def as_json(medians: Iterable[Medians]) -> list[dict[str, Any]]:
    """Return plain values."""
    return [asdict(one) for one in medians]
