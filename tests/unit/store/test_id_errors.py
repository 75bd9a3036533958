"""What an error says about an id that several runs or batches begin with."""

from run_specialist.store.selection import MAX_LISTED_IDS, ambiguous


def test_the_error_lists_five_ids_and_counts_the_others():
    """With up to five ids all are listed; the number counts all of them."""
    ids = [f"r{number}" for number in range(MAX_LISTED_IDS)]
    assert ambiguous("run", "r", ids) == "5 run ids start with r: r0, r1, r2, r3, r4; use more of the id"
    assert ambiguous("batch", "r", [*ids, "r5", "r6"]) == (
        "7 batch ids start with r: r0, r1, r2, r3, r4 and 2 more; use more of the id"
    )
