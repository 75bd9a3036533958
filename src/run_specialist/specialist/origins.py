"""The origin of a value decides what it may do: the functions that apply the rules of each setting.

There are three origins. The caller: the command line, a call in Python, the user's config file and files, and the files
of this package. The project: its specialists, config file, skills and instructions, which may come from somebody else.
Data: eval cases, batches in a queue, stored runs and items.

A power is a setting with which a run does more than read ordinary files of its project: commands, imports, servers,
the network, writing, secret files, and specialists that have such powers.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from run_specialist.specialist.fields import PLAIN, STYLE, Rule, Rules, Specialist, declared

OriginKind = Literal["caller", "project", "data"]

_PERSONAL = Rules("never", "never")
RULES: Mapping[str, Rules] = {
    **{key: rules for key in Specialist.model_fields if (rules := declared(key, Rules))},
    # Settings that are no keys of specialist files
    "question": STYLE,
    "root": _PERSONAL,
    "dir": PLAIN,
    "default_specialist": PLAIN,
    "strict": Rules("lower", "never"),
    "quiet": _PERSONAL,
    "require_model": _PERSONAL,
    "store": _PERSONAL,
    "on_lost": _PERSONAL,
    "requests_at_once": _PERSONAL,
    "trust": _PERSONAL,
}
"""The rules of each setting; a key of specialist files or of config files without rules fails a test."""

NEVER = "data, such as a stored run, an eval case or a queue, cannot decide this; put it into the specialist's file"


def rule(key: str, kind: OriginKind) -> Rule:
    """Return what a value of a setting may do, by its origin; raises KeyError for a setting without a row."""
    rules = RULES[key]
    return "free" if kind == "caller" else rules.project if kind == "project" else rules.data


def refusal(key: str, value: object, kind: OriginKind, *, without: object = None, allowed: Collection[str] = ()) -> str:
    """Return why a value must not be used, in one clause; empty if it may, after trust where the table requires that.

    without: the value that holds without this one, for limits; None = no limit.
    allowed: models that may be named.
    """
    found = rule(key, kind)
    if found == "never":
        return NEVER if kind == "data" else "a project cannot decide this for its users"
    if found == "lower" and stricter(value, without) != value:
        return f"can only lower the limit, which is {'none' if without is None else without}"
    if found == "allowed":
        named = [value] if isinstance(value, str) else value if isinstance(value, Iterable) else ()
        if unknown := next((str(one) for one in named if one not in allowed), ""):
            known = ", ".join(sorted(allowed)) or "none"
            return f"{unknown} is not one of the models of the file or the call ({known}); add --model {unknown}"
    return ""


def stricter(one: Any, other: Any) -> Any:  # noqa: ANN401 - limits, or switches that restrict
    """Return the stricter of two limits, where None is no limit; of two switches, the one that is on."""
    return one if _looseness(one) <= _looseness(other) else other


def _looseness(value: Any) -> float:  # noqa: ANN401 - as above
    if isinstance(value, bool):
        return float(not value)
    return math.inf if value is None else float(value)


@dataclass(frozen=True, slots=True)
class ValueOrigins:
    """The origins of the settings of one run; they travel with the settings."""

    kinds: Mapping[str, OriginKind] = field(default_factory=dict)
    """By key; those without an entry are defaults of this program."""

    def of(self, key: str) -> OriginKind:
        """Return the origin of the value of a key."""
        return self.kinds.get(key, "caller")
