"""The keys of items: stable, unique, and independent of neighboring items."""

import json
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.item import InputRecord, keyed
from tests.unit.batch.item_sources import INPUTS, TEXTS

RECORDS = st.builds(InputRecord, INPUTS, st.sampled_from(["", "f:1", "f:2"]), st.sampled_from(["", "d1", "d2"]))
ASKED = st.tuples(RECORDS, TEXTS)
FEW = st.tuples(
    st.builds(InputRecord, st.sampled_from(["a", "b", '{"a": 1}', 1, 1.0])), st.sampled_from(["Why?", "How?"])
)


def identity(one) -> str:
    """Return what makes two items the same."""
    return json.dumps([one[0].input, one[1], one[0].content], sort_keys=True)


def keys(asked) -> list[str]:
    """Return the key of each item."""
    return [item.key for item in keyed(asked)]


def test_keys_do_not_change_with_the_version():
    """Stored runs have them in their ids."""
    asked = [
        (InputRecord("a"), "Why?"),
        (InputRecord("a"), "Why?"),
        (InputRecord({"b": 1, "a": "ü"}, "f:3", "digest"), "How?"),
    ]
    assert keys(asked) == ["e4765deba111adad", "b38a3b1484829b78", "84c22b4b3960db29"]


@given(st.lists(ASKED | FEW, max_size=8))
def test_keys_are_stable_and_unique(asked):
    """The same items have the same keys in each call, and no two items of a call have the same one."""
    items = [*keyed(asked)]
    assert [item.key for item in items] == keys(asked)
    assert len({item.key for item in items}) == len(items)
    assert [item.number for item in items] == [*range(1, len(items) + 1)]
    assert [(item.input, item.question, item.where) for item in items] == [
        (one.input, question, one.where) for one, question in asked
    ]


@given(st.lists(ASKED | FEW, max_size=8), st.randoms(use_true_random=False))
def test_keys_do_not_depend_on_the_order(asked, random):
    """However items are shuffled, equal items together have the same keys."""

    def by_identity(some):
        found = defaultdict(set)
        for one, key in zip(some, keys(some), strict=True):
            found[identity(one)].add(key)
        return found

    shuffled = [*asked]
    random.shuffle(shuffled)
    assert by_identity(shuffled) == by_identity(asked)


@given(st.lists(FEW, min_size=1, max_size=8), st.data())
def test_removing_an_item_changes_no_other_key(asked, data):
    """Of equal items the last key disappears; all others stay."""
    at = data.draw(st.integers(0, len(asked) - 1))
    rest = keys([*asked[:at], *asked[at + 1 :]])
    gone = Counter(keys(asked)) - Counter(rest)
    count = sum(identity(one) == identity(asked[at]) for one in asked)
    last = [key for one, key in zip(asked, keys(asked), strict=True) if identity(one) == identity(asked[at])][count - 1]
    assert [*gone] == [last]
    assert not Counter(rest) - Counter(keys(asked))


@given(ASKED)
def test_place_and_order_of_fields_do_not_matter(one):
    """Only input, question and content do."""
    record, question = one
    turned = dict(reversed(record.input.items())) if isinstance(record.input, dict) else record.input
    assert keys([(InputRecord(turned, "elsewhere", record.content), question)]) == keys([one])
