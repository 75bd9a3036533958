"""An outcome from the store equals the one that the run returned."""

import json

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.record.journal import Ended
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, Evidence, Exit, LandingReport, Outcome, Spent, ToolCalls
from run_specialist.store.rows import outcome, outcome_of, rows_of, unpack

TEXTS = st.text(st.characters(), max_size=20)
COUNTS = st.integers(0, 2**40)
AMOUNTS = st.none() | st.floats(0, 1e9)
STATUSES = st.sampled_from(["answered", "landed", "partial", "failed", "aborted"])
USAGE = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS)
EVIDENCE = st.builds(Evidence, TEXTS, TEXTS, st.none() | st.booleans())


def tuples(values):
    """Return a strategy for short tuples."""
    return st.lists(values, max_size=3).map(tuple)


CHILDREN = st.recursive(
    st.builds(Child, TEXTS, TEXTS, STATUSES, COUNTS, USAGE, AMOUNTS, tuples(EVIDENCE)),
    lambda inner: st.builds(Child, TEXTS, TEXTS, STATUSES, COUNTS, USAGE, AMOUNTS, tuples(EVIDENCE), tuples(inner)),
    max_leaves=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | COUNTS | TEXTS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OUTCOMES = st.builds(
    Outcome,
    run_id=TEXTS,
    specialist=TEXTS,
    model=TEXTS,
    status=STATUSES,
    answer=TEXTS,
    evidence=tuples(EVIDENCE),
    gaps=tuples(TEXTS),
    output=JSON,
    tool_calls=st.builds(ToolCalls, COUNTS, st.none() | COUNTS, COUNTS, COUNTS),
    limits=st.dictionaries(TEXTS, st.builds(Spent, AMOUNTS, AMOUNTS), max_size=3),
    landing=st.none() | st.builds(LandingReport, TEXTS, TEXTS, COUNTS, USAGE, AMOUNTS),
    usage=USAGE,
    cost_usd=AMOUNTS,
    duration_s=st.floats(0, 1e6),
    warnings=tuples(TEXTS),
    children=tuples(CHILDREN),
    error=st.none() | TEXTS,
    exit_code=st.sampled_from(Exit),
)


def stored(value):
    """Return the JSON of an outcome, as a column of the store holds it."""
    rows = rows_of("run-1", "me", [Ended(outcome=value)], event=1)
    return unpack(rows.ending["outcome"])


@given(OUTCOMES)
def test_every_outcome_comes_back_equal(value):
    """Every field comes back equal and of the same type, also nested ones; printed, it is the same JSON."""
    found = outcome_of(json.loads(stored(value)))
    assert found == value
    assert repr(found) == repr(value)
    assert json.dumps(outcome(stored(value))) == json.dumps(found.as_json()) == json.dumps(value.as_json())
