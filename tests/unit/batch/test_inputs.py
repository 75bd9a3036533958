"""Items are handed out in an order that takes failed ones first only where that helps."""

import pytest

from run_specialist.batch.batch import ItemQueue
from tests.unit.batch.scripted_items import items


@pytest.fixture
def inputs():
    """Return the inputs of five items, of which two may wait behind new ones."""
    return ItemQueue(lambda: items(5), None, waiting=3)


def taken(inputs, count, **how):
    """Return the numbers of the next items; None for no item."""
    found = [inputs.next(**{"is_idle": False, **how}) for _ in range(count)]
    return [item and item.number for item in found]


def test_new_items_begin_before_those_taken_back(inputs):
    """A failure of the endpoint is looked at with another item first, and the failed one is not lost."""
    first = inputs.next(is_idle=True)
    inputs.put_back(first, may_fail=False)
    assert taken(inputs, 6) == [2, 3, 4, 5, 1, None]


def test_a_probe_is_an_item_that_failed(inputs):
    """In a pause no new item begins."""
    first = inputs.next(is_idle=True)
    inputs.put_back(first, may_fail=False)
    assert taken(inputs, 1, probe=True) == [1]


def test_not_too_many_items_wait(inputs):
    """Memory stays bounded: from some number on those taken back begin first."""
    found = [inputs.next(is_idle=False) for _ in range(3)]
    for item in found:
        inputs.put_back(item, may_fail=False)
    assert taken(inputs, 3) == [1, 4, 5]


def test_what_was_not_run_is_counted():
    """Items that were never read, taken back, put last or dropped."""
    inputs = ItemQueue(lambda: items(9), 9, waiting=3)
    one, two, three = (inputs.next(is_idle=False) for _ in range(3))
    inputs.put_back(one, may_fail=False)
    inputs.put_last(two)
    inputs.drop()
    assert (inputs.not_run, inputs.total, three.number) == (9, 9, 3)


def test_a_wrong_length_is_corrected_at_the_end():
    """A collection may have changed since it was counted."""
    inputs = ItemQueue(lambda: items(2), 5, waiting=3)
    assert taken(inputs, 3) == [1, 2, None]
    assert (inputs.total, inputs.not_run) == (2, 0)
