"""The fate of each child: in a large crowd four of five succeed, and the others fail in every possible way."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

FAILING = 0.2
"""Share of the children that fail, if there are enough of them."""


@dataclass(frozen=True, slots=True)
class Fate:
    """One way in which a child can end."""

    name: str
    status: str
    exit_code: int
    failed_calls: int = 0
    requests: int = 3
    """Number of requests that reach the server."""


WELL = Fate("well", "answered", 0)
ILL = (
    Fate("500", "failed", 3, requests=2),
    Fate("400", "failed", 3, requests=2),
    Fate("overloaded", "failed", 3, requests=1),
    Fate("reset", "failed", 3, requests=2),
    Fate("cut", "failed", 3, requests=3),
    Fate("no JSON", "failed", 3, requests=2),
    Fate("refusal", "failed", 4, requests=2),
    Fate("mute", "failed", 4, requests=3),
    Fate("raises", "answered", 0, failed_calls=1),
    Fate("hangs", "answered", 0, failed_calls=1),
    Fate("misfit", "partial", 0),
    Fate("landing", "landed", 0, requests=2),
    Fate("aborted", "aborted", 130, failed_calls=2, requests=1),
    Fate("cancelled", "aborted", 130, failed_calls=2, requests=1),
)
FATES = {fate.name: fate for fate in (WELL, *ILL)}


def drawn(children: int, seed: int) -> Sequence[Fate]:
    """Return the fate of each child; with enough children every kind of failure occurs."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    failing = max(round(children * FAILING), min(len(ILL), children))
    ill = [ILL[number % len(ILL)] for number in range(failing)]
    fates = [*ill, *[WELL] * (children - len(ill))]
    chance.shuffle(fates)
    return fates


def question(number: int, fate: Fate) -> str:
    """Return the question to a child, by which the server recognizes it."""
    return f"child {number}: {fate.name}"
