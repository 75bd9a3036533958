"""The budget: limits, remaining amounts, the three phases, and the ladder of a landing."""

from itertools import product
from typing import get_args

import pytest

from run_specialist import budget
from run_specialist.budget import Budget, Kind, LadderPosition, Limit, Phase, Rung, Style, ladder

CALLS = Kind.TOOL_CALLS


def test_x_1_phases_of_every_small_limit():
    """A limit of N is silent while 2k < N, spent from k = N on, and counts down in between."""
    for limit in range(41):
        for used in range(limit + 2):
            phase = Limit(CALLS, limit, used).phase
            expected = Phase.SPENT if used >= limit else Phase.SILENT if 2 * used < limit else Phase.COUNTDOWN
            assert phase is expected, (limit, used)


def test_s0_8_without_a_limit_the_phase_is_silent():
    """Without a limit the phase is always silent."""
    budget = Budget.of({CALLS: None}).spend(10_000)
    assert budget.phase is Phase.SILENT
    assert budget[CALLS].remaining is None


@pytest.mark.parametrize(
    ("start", "limit", "first"), [(0.8, 30, 24), (0.07, 100, 7), (0.55, 20, 11), (3, 5, 2), (0, 5, 5), (1.0, 5, 5)]
)
def test_countdown_starts_at_a_share_spent_or_at_calls_left(start, limit, first):
    """The countdown starts at a spent share (float) or at a remaining number (int), both exact."""
    phases = [Limit(CALLS, limit, used, start).phase for used in range(limit + 1)]
    assert [phase is Phase.SILENT for phase in phases] == [used < first for used in range(limit + 1)]


@pytest.mark.parametrize(
    ("limits", "spent", "tightest"),
    [
        ({CALLS: 10, Kind.TOKENS: 100}, {CALLS: 5, Kind.TOKENS: 90}, Kind.TOKENS),
        ({CALLS: 10, Kind.TURNS: 4}, {CALLS: 9, Kind.TURNS: 3}, Kind.TURNS),
        ({CALLS: 0, Kind.TOKENS: 100}, {Kind.TOKENS: 100}, CALLS),
        ({}, {CALLS: 7, Kind.TOKENS: 9}, CALLS),
    ],
)
def test_the_tightest_limit_has_the_furthest_phase_then_share(limits, spent, tightest):
    """The tightest limit is the one furthest in its phase, then in its spent share."""
    assert Budget.of(limits).spend_all(spent).tightest.kind is tightest


def test_an_integer_countdown_start_applies_only_to_tool_calls():
    """An integer start of the countdown applies to tool calls; the other kinds then start at the default share."""
    budget = Budget.of({CALLS: 10, Kind.TOKENS: 100}, 3)
    assert (budget[CALLS].countdown_from, budget[Kind.TOKENS].countdown_from) == (3, 0.5)
    assert Budget.of({CALLS: 10, Kind.TOKENS: 100}, None)[Kind.TOKENS].countdown_from is None


# The ladder of a landing: which rung follows.
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
        ("force", False, "", [FORCE, ORDER, NONE]),
        ("order", True, "first", [ORDER, SCHEMA, NONE]),
        ("schema", True, "later", [SCHEMA, NONE]),
        ("schema", True, "", [FORCE, ORDER, NONE]),
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
        ("auto", {SCHEMA}, [FORCE, ORDER, NONE]),
        ("auto", {FORCE, SCHEMA}, [ORDER, NONE]),
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("style", get_args(Style))
def test_any_sequence_of_events_only_descends_the_ladder(style):
    """Each sequence of five events leads down from the top of each ladder in a few steps."""
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


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Kind.TOOL_CALLS, 1, "1 tool call"),
        (Kind.TOOL_CALLS, 0, "0 tool calls"),
        (Kind.TURNS, 2, "2 turns"),
        (Kind.TOKENS, 12_000, "12,000 tokens"),
        (Kind.COST, 0.04, "$0.04"),
        (Kind.COST, 0.00123, "$0.0012"),
        (Kind.TIME, 40.9, "40 seconds"),
        (Kind.TIME, 1.0, "1 second"),
        (Kind.TIME, 0.5, "0.5 seconds"),
        (Kind.TIME, 1.96, "2.0 seconds"),
        (Kind.COST, 1234.5, "$1,234.50"),
        (Kind.CHARACTERS, 90_000, "90,000 characters"),
    ],
)
def test_x_14_each_kind_has_its_own_unit(kind, value, words):
    """Every kind has its own unit, the same text for models and for people."""
    assert budget.amount(kind, value) == words
