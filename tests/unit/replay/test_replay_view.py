"""A difference on a terminal."""

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.cli.replay import _changed, _pairs, _styled

HEAD = ["--- stored", "+++ now"]
RED, GREEN, BOLD, OFF = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


def test_c2_what_differs_in_a_line_is_bold():
    """Of a line that replaces another one alone; other lines have only their color."""
    lines = [*_styled([*HEAD, " same", "-an owl eats", "+an eagle eats", "+more"])]
    assert lines[3:] == [f"{RED}-an owl eats{OFF}", f"{GREEN}+an eagle eats{OFF}", f"{GREEN}+more{OFF}"]
    old, new = [*_styled([*HEAD, "-an owl eats", "+an eagle eats"])][2:]
    assert f"{RED}{BOLD}owl{OFF}" in old
    assert f"{GREEN}{BOLD}eagle{OFF}" in new
    assert old.startswith(f"{RED}-an {OFF}")
    assert new.endswith(f"{GREEN} eats{OFF}")


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["-a", "+b", " c", "@@", ""]), max_size=8))
def test_c2_pairs_are_neighbours_of_both_kinds(marks):
    """No line of a larger change is paired, and the head never is."""
    lines = [*HEAD, *marks]
    pairs = _pairs(lines)
    for one, other in pairs.items():
        assert (abs(one - other), pairs[other], {lines[one][:1], lines[other][:1]}) == (1, one, {"-", "+"})
        assert min(one, other) >= 2


@settings(max_examples=20)
@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_c2_the_rest_of_two_lines_is_the_same(one, other):
    """What is not bold is the same in both."""
    left, right = (_changed(f"-{one}", f"+{other}"), _changed(f"+{other}", f"-{one}"))
    assert (one[: left[0] - 1], one[left[1] - 1 :]) == (other[: right[0] - 1], other[right[1] - 1 :])
