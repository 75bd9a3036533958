"""Every behaviour id in a test's name is defined in docs/behaviours.md, and every defined id has a test."""

import re

from tests.docs.markdown import ROOT

DEFINED = set(
    re.findall(
        r"^\| ([SXGCEFPRTW]\d*\.\d+) \|", (ROOT / "docs/behaviours.md").read_text(encoding="utf-8"), re.MULTILINE
    )
)


def ids_of(name):
    """Return the ids in the name of a test, such as S0.3, X.1 and G.2 in `test_s0_3_x_1_g2_counts_down`."""
    found = re.findall(r"(?:(?<=_)|^)(?:(s\d|x)_|([gcefprtw])_?)(\d+)(?=_)", name)
    return {f"{(group or other).upper()}.{number}" for group, other, number in found}


def used():
    """Return the ids in the names of all tests, each with one place that uses it."""
    return {
        found: path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
        for found in ids_of(name.removeprefix("test_"))
    }


def test_every_id_in_a_name_is_defined():
    """Every behaviour id in the name of a test, such as `x_14`, is defined in docs/behaviours.md."""
    assert {found: place for found, place in used().items() if found not in DEFINED} == {}


def test_every_defined_behaviour_has_a_test():
    """Every behaviour defined in docs/behaviours.md has a test."""
    assert len(DEFINED) > 50
    assert DEFINED - set(used()) == set()
