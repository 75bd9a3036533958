"""Infer the capabilities of an endpoint from the landing of a recorded run, because they are not stored."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from run_specialist.budget.ladder import Rung, Style, ladder
from run_specialist.loop.landing import RUNGS
from run_specialist.providers.base import Capabilities
from run_specialist.replay.cassette import Cassette, UnansweredRequest

_NAMES = ("forced_choice", "schema", "schema_first", "none_choice")
_LOST = {Rung.FORCE: "forced_choice", Rung.SCHEMA: "schema", Rung.NONE: "none_choice"}
"""The capability that an endpoint lacks if it refuses a rung."""


def capabilities_of(usual: Capabilities, cassette: Cassette, place: int = 0) -> Capabilities:
    """Return the capabilities that lead to the rungs of a recorded run, as close to the default ones as possible.

    usual: capabilities of its model at an unknown endpoint.
    place: index of the model in the run, from 0.
    """
    known = replace(usual, reads_json_calls=True, context_tokens=None)
    by_model = [cassette.setup.rungs, *(one.rungs for one in cassette.later_models)]
    rungs = [Rung(one) for one in by_model[place]]
    # The last rung of each model before was neither followed nor ignored.
    before = [Rung(one) for tried in by_model[:place] for one in tried[:-1]]
    requests = [
        line for line in cassette.requests_of(place) if isinstance(line, UnansweredRequest) and line.how == "refused"
    ]
    refused = {RUNGS[line.choice] for line in requests if line.choice in RUNGS}
    style = _style(cassette, known)
    now = tuple(getattr(known, name) for name in _NAMES)
    candidates = sorted(product((True, False), repeat=len(_NAMES)), key=lambda one: _distance(one, now))
    for values in candidates:
        given: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
        if _leads_to(rungs, style, given, refused, before):
            return replace(known, **given)
    return known


def _leads_to(
    rungs: Sequence[Rung], style: Style, given: Mapping[str, bool], refused: set[Rung], before: Sequence[Rung]
) -> bool:
    """Return whether a landing with these capabilities tries these rungs, in this order.

    before: the rungs that earlier models did not follow.
    """
    supported, gone, tried = dict(given), set[Rung](), [Rung.WAIT, *before]
    for rung in rungs:
        left = [one for one in _ladder(style, supported, gone) if one not in tried]
        if [*left, Rung.SALVAGE][0] is not rung and rung is not Rung.SALVAGE:
            return False
        if rung in refused:
            gone.add(rung)
            supported[_LOST[rung]] = False
        else:
            tried.append(rung)
    return True


def _ladder(style: Style, supported: Mapping[str, bool], gone: set[Rung]) -> Sequence[Rung]:
    refused = gone if supported["none_choice"] else gone | {Rung.NONE}
    schema, first = supported["schema"], supported["schema_first"]
    return ladder(style, forced_choice=supported["forced_choice"], schema=schema, schema_first=first, refused=refused)


def _distance(one: Sequence[bool], other: Sequence[bool]) -> int:
    return sum(left != right for left, right in zip(one, other, strict=True))


def _style(cassette: Cassette, known: Capabilities) -> Style:
    settings = cassette.setup.settings
    style: Style = settings["landing"]
    by_schema = settings.get("tool_calls") == "json" and known.is_language_model
    return "schema" if by_schema and style == "auto" else style
