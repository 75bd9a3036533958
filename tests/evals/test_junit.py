"""Results of evals as JUnit XML."""

from dataclasses import replace
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.evals.comparison import comparisons, junit
from run_specialist.evals.plan import CaseRun, Check
from tests.evals.compared_runs import case_run, result_of


def suites(result, compared=()):
    """Return the suites of a document that was parsed."""
    return ET.fromstring(junit(result, compared).encode()).findall("testsuite")  # noqa: S314 - our own document


def test_each_case_of_each_variant_is_a_test():
    """With its time, the reasons of failures, and the commands that show its runs."""
    result = result_of([1.0, 1.0], [1.0, None])
    bad = CaseRun("case 2", "as it is", 1, "r2", "answered", (Check("Contains", False, "no mice"),), seconds=1.25)
    worse = CaseRun("case 2", "as it is", 2, "r3", "answered", (Check("Regex", False),), seconds=0.5)
    base, new = suites(replace(result, runs=(*result.runs, bad, worse)))
    assert [base.attrib[key] for key in ("name", "tests", "failures")] == ["looker: main (baseline)", "2", "0"]
    assert (new.attrib["failures"], new.attrib["time"]) == ("1", "1.750")
    first, second = new.findall("testcase")
    assert (first.attrib["name"], first.find("failure")) == ("case 1", None)
    assert second.find("failure").attrib["message"] == "2 of 2 runs did not pass"
    assert second.find("failure").text == "repeat 1, run r2: Contains: no mice\nrepeat 2, run r3: Regex: not held"
    assert second.find("system-out").text == "specialists report r2\nspecialists report r3\n"


def test_failed_and_missing_runs():
    """A run without an answer is an error, one that did not begin is skipped."""
    result = result_of([], [])
    failed = case_run("a", "as it is", status="failed", error="busy (529)")
    missing = case_run("b", "as it is", status="not run", run_id=None, error="the cost limit is reached")
    (_, new) = suites(replace(result, cases=("a", "b", "c"), runs=(failed, missing)))
    assert [[child.tag for child in test] for test in new] == [["error", "system-out"], ["skipped"], ["skipped"]]
    assert [test[0].attrib["message"] for test in new] == ["busy (529)", "the cost limit is reached", "it did not run"]


def test_the_baseline_is_not_under_test():
    """What it fails is skipped; a regression is a test that fails, and any other verdict one that passes."""
    result = result_of([True] * 6 + [False], [False] * 7)
    compared = comparisons(result)
    base, new = suites(result, compared)
    assert (base.attrib["failures"], base.attrib["skipped"], new.attrib["failures"]) == ("0", "1", "8")
    verdict = new.findall("testcase")[-1]
    assert verdict.attrib["name"] == "compared with main"
    assert verdict.find("failure").attrib["message"].startswith("Worse than main: score -0.86")
    _, new = suites(result, comparisons(result, 1.0))
    assert new.findall("testcase")[-1].find("system-out").text.startswith("No difference from main")


@given(st.text(st.characters(), max_size=30))
def test_any_text_gives_a_valid_document(text):
    """Control characters, surrogates and markup in names, reasons and errors."""
    run = CaseRun(text, "as it is", 1, text, "answered", (Check(text, False, text),), error=text)
    result = replace(result_of([], []), cases=(text,), runs=(run,), specialist=text)
    document = junit(result).encode()
    assert ET.fromstring(document).find("testsuite/testcase") is not None  # noqa: S314 - our own document
    assert not {*range(9), 11, 12, *range(14, 32), 127}.intersection(document)
