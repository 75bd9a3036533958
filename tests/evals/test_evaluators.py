"""Each evaluator of this package holds exactly when it should, and says in one line why it does not."""

import pytest

from run_specialist.evals.evaluators import OWN, by_name, make, path_of
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import LandingReport
from tests.evals.checked import held, quotes, said

LANDING = LandingReport("tool_calls", "force", 1, Usage(), 0.0)
NOTHING = {"evidence": (), "gaps": ("no file mentions zebras",)}


@pytest.mark.parametrize(
    ("form", "of_outcome", "expected"),
    [
        ({"Status": ["answered", "landed"]}, {"status": "landed"}, True),
        ({"Status": "answered"}, {"status": "landed"}, False),
        ("Landed", {"landing": LANDING}, True),
        ({"Landed": False}, {"landing": LANDING}, False),
        ({"CitesPath": "notes/*.md"}, {}, True),
        ({"CitesPath": ["a.md", "notes/owls.md"]}, {}, True),
        ({"CitesPath": "owls.md"}, {}, False),
        ({"CitesPath": "notes/owls.md"}, {"evidence": quotes("notes/owls.md:3", verified=False)}, False),
        ({"Contains": "MICE  at\nnight"}, {"answer": ""}, True),
        ({"Contains": ["mice", "zebras"]}, {}, False),
        ({"Regex": r"m[aeiou]ce\."}, {}, True),
        ({"Regex": "zebras?"}, {}, False),
        ({"OutputMatches": {"kind": {"of": [1, 2]}}}, {"output": {"kind": {"of": [1, 2], "x": 0}}}, True),
        ({"OutputMatches": {"kind": 1}}, {"output": {"kind": True}}, False),
        ({"OutputMatches": {"kind": "owl"}}, {}, False),
        ({"CallsUnder": 6}, {}, True),
        ({"CallsUnder": 5}, {}, False),
        ({"TokensUnder": 15}, {"usage": Usage(10, 0, 0, 5)}, False),
        ({"CostUnder": 0.02}, {}, False),
        ({"CostUnder": 1}, {"cost": None}, False),
        ({"SecondsUnder": 12.4}, {}, False),
        ("Gap", NOTHING, True),
        ("Gap", {"gaps": ("part of it",)}, False),
        ({"Gap": False}, NOTHING, False),
    ],
)
def test_it_holds_or_says_why_not(form, of_outcome, expected):
    """The verdict is the expected one; a verdict of false has a reason of one line."""
    value, reason = held(form, **of_outcome)
    assert value is expected
    assert expected or (reason and "\n" not in reason)


@pytest.mark.parametrize(
    ("form", "evidence", "share", "expected"),
    [
        ("QuotesVerified", quotes("a:1", "b:2"), 1.0, True),
        ({"QuotesVerified": 0.5}, quotes("a:1") + quotes("b:2", verified=False), 0.5, True),
        ("QuotesVerified", quotes("a:1") + quotes("b:2", verified=None), 0.5, False),
        ({"QuotesVerified": 0}, (), 0.0, False),
    ],
)
def test_the_share_of_quotes_is_a_score_and_a_verdict(form, evidence, share, expected):
    """The share counts verified quotes alone; an answer without quotes fails whatever share is enough."""
    found = said(form, evidence=evidence)
    assert found["share of quotes verified"] == share
    assert found["QuotesVerified"].value is expected


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ({"Status": "landet"}, "input should be 'answered', 'landed', 'partial', 'failed' or 'aborted', got 'landet'"),
        ({"Landed": "no"}, "input should be a valid boolean, got 'no'"),
        ({"Regex": "("}, "'(' is not a regular expression: missing ), unterminated subpattern"),
        ({"QuotesVerified": 80}, "input should be less than or equal to 1, got 80"),
        ({"CallsUnder": True}, "input should be a valid integer, got True"),
        ({"CostUnder": float("nan")}, "got nan"),
        ({"CitesPath": []}, "expected a text, or a list of them, got []"),
        ("CallsUnder", "calls: field required"),
        ("OutputMatches", "expected fields and their values, got nothing"),
        ({"Judge": {"specialist": "answer-judge"}}, "rubric: field required"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(form, part):
    """What a file gives an evaluator is checked when the file is read, not when the run is paid for."""
    with pytest.raises(ValueError, match=r".") as caught:
        make(form)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_e13_ours_win_over_those_of_pydantic_evals_and_others_can_be_named():
    """`Contains` is that of this package; evaluators that read spans can be named as well."""
    assert by_name()["Contains"] in OWN
    assert {"MaxToolCalls", "ToolCorrectness", "HasMatchingSpan", "EqualsExpected"} <= set(by_name())
    assert [one.__name__ for one in OWN] == sorted(one.__name__ for one in OWN)


@pytest.mark.parametrize("source", ["docs/a.md", "docs/a.md:3", "docs/a.md:3-9", " docs/a.md:3 "])
def test_the_path_of_a_source_has_no_lines(source):
    """A source may name a line or several."""
    assert path_of(source) == "docs/a.md"
