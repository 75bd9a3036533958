"""Variants of the program that are compared: settings of a run, and features that are switched off by patches."""

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from run_specialist.errors import UsageError
from run_specialist.specialist.settings import checked


class NotHere(Exception):
    """A variant cannot run with this version of the program; the message is the reason in one clause."""


def _without_schema(original: Callable[..., tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    def ladder(*given: Any, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - the signature of the original
        return original(*given, **(options | {"schema": False} if "schema" in options else options))

    return ladder


def _returning(value: object) -> Callable[[object], Callable[..., object]]:
    return lambda _original: lambda *_given, **_options: value


PATCHES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    # feature that is switched off: (place, the replacement, made from the original)
    "the schema rung": ("run_specialist.loop.landing:ladder", _without_schema),
    "calls read from text": ("run_specialist.loop.exchange:leaked_calls", _returning([])),
    "`respond` beside calls": ("run_specialist.loop.loop:Loop.are_too_early", _returning(value=False)),
    "the bound of replies": ("run_specialist.loop.exchange:longest_reply", _returning(None)),
    "the short request": ("run_specialist.loop.first_search:FirstSearch.may_be_short", _returning(value=False)),
    "the bound of white space": ("run_specialist.providers.transport:MOST_WHITE_SPACE", lambda _original: 10**9),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One configuration of the program."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `Runner.run`."""
    without: tuple[str, ...] = ()
    """Keys of PATCHES."""

    def check(self) -> None:
        """Check that this version of the program has the settings and the features.

        Raises NotHere.
        """
        try:
            checked(self.settings)
        except UsageError as error:
            raise NotHere(str(error)) from error
        for feature in self.without:
            _original(feature)

    def applied(self) -> AbstractContextManager[object]:
        """Switch the features off while the context is active.

        Raises NotHere.
        """
        with ExitStack() as patches:
            for feature in self.without:
                owner, name, original = _original(feature)
                patches.enter_context(patch.object(owner, name, PATCHES[feature][1](original)))
            return patches.pop_all()


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("defaults"),
        Variant("countdown-from-start", {"countdown": {"from": 0.0}}),
        Variant("no-first-search", {"first_search": "off"}),
        Variant("no-short-request", without=("the short request",)),
        Variant("all", {"tool_calls": "json", "evidence": "require"}),
        Variant("native", {"tool_calls": "native", "evidence": "require"}),
        Variant("no-evidence", {"tool_calls": "json", "evidence": "off"}),
        Variant("no-schema", {"tool_calls": "native", "landing": "force"}, ("the schema rung",)),
        Variant("no-leaked-calls", without=("calls read from text",)),
        Variant("no-respond-beside", without=("`respond` beside calls",)),
        Variant("no-reply-bound", without=("the bound of replies", "the bound of white space")),
        Variant("none", {"tool_calls": "native", "evidence": "off", "landing": "force"}, tuple(PATCHES)),
    )
}


def _original(feature: str) -> tuple[Any, str, Any]:
    """Return the object that holds the patched name, the name, and its value.

    Raises NotHere.
    """
    place = PATCHES[feature][0]
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    try:
        owner: Any = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each)
        return owner, name, getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise NotHere(f"{feature} cannot be switched off, there is no {place}") from error
