"""The keys of items: stable, unique, and independent of neighboring items."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.item import InputRecord
from run_specialist.batch.questions import Template, asked
from tests.unit.batch.item_sources import INPUTS

RECORDS = st.builds(InputRecord, INPUTS, st.sampled_from(["", "f:1", "f:2"]), st.sampled_from(["", "d1", "d2"]))
FEW = st.builds(InputRecord, st.sampled_from(["a", "b", {"a": 1}]))
WHY = Template("Why?")


def keys(records, template=WHY) -> list[str]:
    """Return the key of each item."""
    return [item.key for item in asked(records, template)]


def test_keys_do_not_change_with_the_version():
    """Stored runs have them in their ids."""
    assert keys([InputRecord("a"), InputRecord("a")]) == ["e4765deba111adad", "b38a3b1484829b78"]
    assert keys([InputRecord({"b": 1, "a": "ü"}, "f:3", "digest")], Template("How?")) == ["84c22b4b3960db29"]


@given(st.lists(RECORDS | FEW, max_size=8), st.randoms(use_true_random=False))
def test_keys_are_stable_and_unique(records, random):
    """The same items have the same keys in each call and in any order, and no two items of a call have the same one."""
    items = [*asked(records, WHY)]
    assert [(one.number, one.input) for one in items] == [(n, one.input) for n, one in enumerate(records, 1)]
    found = keys(records)
    assert len({*found}) == len(found)
    shuffled = [*records]
    random.shuffle(shuffled)
    assert {*keys(shuffled)} == {*found}


@given(st.lists(FEW, min_size=1, max_size=8), st.data())
def test_removing_an_item_changes_no_other_key(records, data):
    """Of equal items the last key disappears; all others stay."""
    at = data.draw(st.integers(0, len(records) - 1))
    before, rest = keys(records), keys([*records[:at], *records[at + 1 :]])
    last = [key for one, key in zip(records, before, strict=True) if one == records[at]][-1]
    assert Counter(before) - Counter(rest) == Counter([last])


@given(RECORDS)
def test_place_and_order_of_fields_do_not_matter(one):
    """Only input, question and content do."""
    turned = dict(reversed(one.input.items())) if isinstance(one.input, dict) else one.input
    assert keys([InputRecord(turned, "elsewhere", one.content)]) == keys([one])
