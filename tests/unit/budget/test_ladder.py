"""The ladder of a landing: which rung follows."""

from itertools import product
from typing import get_args

import pytest

from run_specialist.budget import Kind, LadderPosition, Rung, Style, ladder

FORCE, ORDER, SCHEMA, NONE = Rung.FORCE, Rung.ORDER, Rung.SCHEMA, Rung.NONE
COUNTED = {FORCE, ORDER, SCHEMA, Rung.FINALIZE, NONE}
ENDPOINTS = [
    {"forced_choice": forced, "schema": schema, "schema_first": first}
    for forced, schema, first in product((True, False), repeat=3)
]
"""All that can be known about an endpoint."""
REFUSALS = [set(), {FORCE}, {SCHEMA}, {NONE}, {FORCE, SCHEMA}, {FORCE, SCHEMA, NONE}]


@pytest.mark.parametrize("style", get_args(Style))
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_s0_10_every_ladder_ends_in_salvage_after_three_requests_at_most(style, endpoint):
    """Every style has a ladder for every endpoint; it ends after at most three requests, however many are ignored."""
    for refused in REFUSALS:
        landing = LadderPosition(Kind.TOOL_CALLS, ladder(style, **endpoint, refused=refused))
        seen = []
        while landing.rung is not Rung.SALVAGE:
            seen.append(landing.rung)
            landing = landing.ignored()
        assert len(seen) == len(set(seen))
        assert not refused & set(seen)
        assert landing.requests == len(COUNTED & set(seen)) <= 3
        assert seen or style == "stop" or NONE in refused


@pytest.mark.parametrize(
    ("style", "forced_choice", "schema", "rungs"),
    [
        # The Messages API, and chat completions at the vendor's own address.
        ("auto", True, "later", [FORCE, SCHEMA, NONE]),
        ("auto", False, "later", [ORDER, SCHEMA, NONE]),
        # Chat completions anywhere else.
        ("auto", True, "first", [SCHEMA, FORCE, NONE]),
        ("auto", False, "first", [SCHEMA, ORDER, NONE]),
        # The schema was refused or ignored.
        ("auto", True, "", [FORCE, ORDER, NONE]),
        ("auto", False, "", [ORDER, NONE]),
        ("force", True, "later", [FORCE, SCHEMA, NONE]),
        ("force", False, "first", [FORCE, SCHEMA, NONE]),
        ("force", False, "", [FORCE, ORDER, NONE]),
        ("order", True, "first", [ORDER, SCHEMA, NONE]),
        ("order", True, "", [ORDER, NONE]),
        ("schema", True, "later", [SCHEMA, NONE]),
        ("schema", False, "first", [SCHEMA, NONE]),
        ("schema", True, "", [FORCE, ORDER, NONE]),
        ("schema", False, "", [ORDER, NONE]),
        ("finalize", True, "later", [Rung.WAIT, Rung.FINALIZE, NONE]),
        ("none", True, "later", [NONE]),
        ("stop", True, "later", []),
    ],
)
def test_g2_rungs_of_each_style_and_endpoint(style, forced_choice, schema, rungs):
    """The order of the rungs depends on the style, on forcing, and on whether a schema is taken, and how well."""
    found = ladder(style, forced_choice=forced_choice, schema=bool(schema), schema_first=schema == "first")
    assert list(found) == rungs


@pytest.mark.parametrize(
    ("style", "refused", "rungs"),
    [
        ("auto", {FORCE}, [ORDER, SCHEMA, NONE]),
        ("force", {FORCE}, [ORDER, SCHEMA, NONE]),
        ("auto", {SCHEMA}, [FORCE, ORDER, NONE]),
        ("auto", {FORCE, SCHEMA}, [ORDER, NONE]),
        ("order", {SCHEMA}, [ORDER, NONE]),
        ("schema", {SCHEMA}, [FORCE, ORDER, NONE]),
        ("auto", {NONE}, [FORCE, SCHEMA]),
        ("none", {NONE}, [ORDER]),
    ],
)
def test_s0_10_other_rungs_take_the_place_of_a_refused_one(style, refused, rungs):
    """The order takes the place of a refused force; a refused schema or none is omitted."""
    assert list(ladder(style, forced_choice=True, schema=True, refused=refused)) == rungs


def test_s0_10_a_refused_request_is_not_counted_and_nothing_is_tried_twice():
    """Only answered requests count: after a refusal (400) the ladder is a new one, without the rungs tried before."""
    landing = LadderPosition(Kind.TOOL_CALLS, ladder("auto", forced_choice=True, schema=True)).ignored()
    landing = landing.refused(ladder("auto", forced_choice=True, schema=True, refused={SCHEMA}))
    assert (landing.rungs, landing.requests) == ((ORDER, NONE), 1)


def test_s0_10_paused_replies_keep_the_rung_and_count():
    """Paused replies keep the rung and count; after three of them no further request is made."""
    landing = LadderPosition(Kind.TOOL_CALLS, ladder("force", forced_choice=True))
    seen = [landing.rung]
    for _ in range(3):
        landing = landing.answered()
        seen.append(landing.rung)
    assert seen == [Rung.FORCE] * 3 + [Rung.SALVAGE]
    assert landing.requests == 3


@pytest.mark.parametrize("style", get_args(Style))
def test_any_sequence_of_events_only_descends_the_ladder(style):
    """Each sequence of five events leads down from the top of each ladder in a few steps.

    No rung comes back, at most three requests count, the waiting rung counts none, and nothing is tried again after a
    refusal. A ladder whose requests are all ignored ends after as many requests as it has rungs.
    """
    for endpoint, happened in product(ENDPOINTS, product(("answered", "ignored", "refused", "given_up"), repeat=5)):
        landing = LadderPosition(Kind.TOOL_CALLS, ladder(style, **endpoint))
        left, refused = [], set()
        for what in happened:
            before = landing
            if before.rung is Rung.SALVAGE:
                break
            if what == "refused":
                refused.add(before.rung)
                landing = before.refused(ladder(style, **endpoint, refused=refused))
            else:
                landing = getattr(before, what)()
            left += [before.rung] if landing.rung is not before.rung else []
            assert landing.rung is Rung.SALVAGE or landing.rung not in left
            assert landing.requests <= 3
            counts = what in {"answered", "ignored"} and before.rung is not Rung.WAIT
            assert landing.requests - before.requests == counts
            assert not refused & {landing.rung}
    landing = LadderPosition(Kind.TOOL_CALLS, rungs := ladder(style, **endpoint))
    for _ in rungs:
        landing = landing.ignored()
    assert landing.rung is Rung.SALVAGE
