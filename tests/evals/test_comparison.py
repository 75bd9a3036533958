"""Comparisons of variants, and their verdicts in words."""

import itertools
import json
import os
import random
from dataclasses import replace
from statistics import fmean, median
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import UsageError
from run_specialist.evals import baseline
from run_specialist.evals.baseline import Baseline, find_baseline
from run_specialist.evals.comparison import (
    as_json,
    cases_needed,
    comparisons,
    fewest_cases,
    junit,
    mean_interval,
    median_interval,
    notes,
    verdict_text,
)
from run_specialist.evals.plan import CaseRun, Check, EvalResult, Variant
from run_specialist.specialist.registry import Registry
from tests.evals.compared_runs import BASE, NEW, case_run, result_of
from tests.evals.git_project import NEEDS_GIT, commit, git
from tests.plugins.tiers import examples

SCORES = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=11)


def compared(before, after, tolerance=0.0, **given):
    """Return the comparison of one variant."""
    (one,) = comparisons(result_of(before, after, **given), tolerance)
    return one


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("cases", "rounds"), [(8, examples(250)), (30, 30)])
def test_e10_without_an_effect_seldom_a_verdict(cases, rounds):
    """Both sides pass each case with the same probability: at most one comparison in twenty names a winner."""
    chance = random.Random(11)  # noqa: S311 - a simulation
    false = 0
    for _ in range(rounds):
        hard = [chance.random() for _ in range(cases)]
        before, after = ([float(chance.random() < one) for one in hard] for _ in range(2))
        false += compared(before, after).verdict in {"better", "worse"}
    # Three standard deviations above 5 %.
    assert false / rounds <= 0.05 + 3 * (0.05 * 0.95 / rounds) ** 0.5


def test_e10_several_variants_share_the_error_probability():
    """The more variants, the wider each interval; five equal signs occur by chance; 0.1 + 0.2 - 0.3 is no gain."""
    scores = [0.5] * 10, [0.6, 0.4, 0.7, 0.6, 0.6, 0.6, 0.7, 0.5, 0.6, 0.7]
    alone = compared(*scores)
    first, *others = comparisons(result_of(*scores, more={"b": scores[1], "c": scores[0]}))
    assert (alone.alpha, first.alpha) == (0.05, 0.05 / 3)
    assert first.score.low < alone.score.low
    assert [one.variant for one in others] == ["b", "c"]
    assert (alone.verdict, first.verdict) == ("better", "cannot be told")
    nothing = 0.1 + 0.2 - 0.3
    assert mean_interval([nothing] * 8, 0.05) == mean_interval([nothing] * 20, 0.05) == (0.0, 0.0)
    assert cases_needed([nothing] * 8, 0.05) is None
    assert [fewest_cases(alpha) for alpha in (0.05, 0.05 / 2, 0.05 / 3)] == [6, 7, 7]
    assert mean_interval([], 0.05) is median_interval([], 0.05) is None
    assert mean_interval([1.0] * 5, 0.05) is median_interval([1.0] * 5, 0.05) is None
    assert mean_interval([1.0] * 6, 0.05) == median_interval([1.0] * 6, 0.05) == (1.0, 1.0)
    assert mean_interval([1.0] * 6, 0.025) is None


@given(SCORES, st.sampled_from([0.0, 0.05, 0.5]))
def test_exchanging_the_sides_mirrors_the_comparison(scores, tolerance):
    """Better becomes worse, each difference is negated, and the interval contains the difference."""
    before, after = [one for one, _ in scores], [one for _, one in scores]
    one, other = compared(before, after, tolerance), compared(after, before, tolerance)
    opposite = {"better": "worse", "worse": "better"}
    assert other.verdict == opposite.get(one.verdict, one.verdict)
    assert other.cases_needed == one.cases_needed
    if one.score is not None:
        assert other.score.difference == -one.score.difference
        if one.score.low is not None:
            assert one.score.low <= one.score.difference <= one.score.high
            assert (-other.score.high, -other.score.low) == (one.score.low, one.score.high)


@pytest.mark.parametrize(
    ("before", "after", "tolerance", "verdict", "regression", "text"),
    [
        ([0.2] * 8, [1.0] * 8, 0, "better", False, "Better than main: score +0.80 over 8 cases (95 % interval"),
        ([1.0] * 8, [0.2] * 8, 0, "worse", True, "Worse than main: score -0.80 over 8 cases (95 % interval -0.80"),
        ([1.0] * 8, [0.2] * 8, 0.1, "worse", True, "Worse than main by more than the tolerance of 0.1: score -0.80"),
        ([1.0] * 8, [0.9] * 7 + [0.1], 0.1, "worse", False, "main, but not certainly by more than the tolerance of 0"),
        ([0.5] * 8, [0.5] * 8, 0, "no difference", False, "No difference from main: each of the 8 cases has the sam"),
        ([1.0] * 5, [0.0] * 5, 0, "cannot be told", False, "with 5 cases whether it differs from main: score -1.00; "),
        ([1.0] * 5, [1.0] * 5, 0, "cannot be told", False, "the mean scores are equal; it takes at least 6 cases."),
        ([0.0] * 8, [0.0] * 7 + [1.0], 0, "cannot be told", False, "; about 65 cases would be needed to detect such a"),
        ([None] * 3, [1.0] * 3, 0, "cannot be told", False, "Cannot be compared with main: no case has an ended run"),
    ],
)
def test_verdicts(before, after, tolerance, verdict, regression, text):
    """A regression is a loss whose whole interval is beyond the tolerance; an undecided comparison is not one."""
    one = compared(before, after, tolerance)
    assert (one.verdict, one.regression) == (verdict, regression)
    assert text in verdict_text(one)


def test_e10_only_common_cases_and_checks_are_compared():
    """A case that ended on one side only is named; a check that one side lacks changes nothing; a failed run is 0."""
    result = result_of([1.0, None, 0.5], [1.0, 1.0, None])
    aborted = case_run("case 3", "as it is", 0.0, status="aborted")
    (one,) = comparisons(replace(result, runs=(*result.runs, aborted)))
    assert [pair.case for pair in one.pairs] == ["case 1"]
    assert notes(one) == [
        "case 3: left out, because only the baseline has an ended run",
        "case 2: left out, because the baseline has no ended run",
    ]
    runs = (
        case_run("a", "main", 1.0, 0.0),
        case_run("a", "as it is", 1.0),
        case_run("b", "main", 1.0, 1.0),
        case_run("b", "as it is", status="failed"),
        case_run("c", "main"),
        case_run("c", "as it is", 1.0),
        case_run("d", "main"),
        case_run("d", "as it is"),
    )
    (one,) = comparisons(EvalResult("e", "s", ("a", "b", "c", "d"), (BASE, NEW), runs))
    assert [(pair.case, pair.difference) for pair in one.pairs] == [("a", 0), ("b", -1), ("d", 0)]
    assert (one.other_checks, one.not_comparable) == (["a"], ["c"])
    assert [pair.variant_passed for pair in one.pairs] == [1, 0, 1]
    assert one.passed.baseline == pytest.approx(1.0)


def test_amounts_are_compared_by_their_medians():
    """Cost, calls, tokens and seconds: medians of the cases, and of their differences; unknown costs are left out."""
    runs = [
        case_run(f"case {at}", name, 1.0, tool_calls=at + more, seconds=at * 2.0, cost_usd=cost)
        for at in range(1, 8)
        for name, more, cost in (("main", 0, 0.5), ("as it is", 3, None if at < 3 else 0.25))
    ]
    (one,) = comparisons(EvalResult("e", "s", (), (BASE, NEW), tuple(runs)))
    calls, cost = one.medians["tool_calls"], one.medians["cost_usd"]
    assert (calls.baseline, calls.variant, calls.difference, calls.low, calls.cases) == (4, 7, 3, 3, 7)
    assert (cost.difference, cost.low, cost.cases) == (-0.25, None, 5)
    assert one.medians["seconds"].difference == 0
    unknown = comparisons(replace(result_of([1.0], [1.0]), runs=(runs[0], runs[1])))[0]
    assert "cost_usd" not in unknown.medians


# Baselines: the file at a commit, an earlier eval, another file, or a result in JSON.
OLD = "---\nname: finder\ndescription: finds\noutput_schema: ../shapes/answer.json\n---\nOld words.\n"
SHAPE = '{"type": "object", "properties": {"old": {"type": "string"}}}'


@pytest.fixture
def project(tmp_path):
    """A repository whose newest commit has other contents than the one before, and a changed work tree."""
    folder = tmp_path / "project"
    folder.mkdir()
    commit(folder, specialists__finder_DOT_md=OLD, shapes__answer_DOT_json=SHAPE)
    git(folder, "tag", "v1")
    commit(folder, specialists__finder_DOT_md=OLD.replace("Old", "New"), shapes__answer_DOT_json="{}")
    (folder / "specialists" / "finder.md").write_text("changed")
    return folder


@pytest.fixture
def find(project, tmp_path):
    """Return a function that finds a baseline of the specialist of the project."""

    def found(text):
        return find_baseline(text, project / "specialists" / "finder.md", "none", tmp_path / "kept")

    return found


@NEEDS_GIT
def test_e9_the_file_is_as_it_was_at_the_commit(find, project, tmp_path):
    """The file and its schema are copied; the work tree is untouched; the same content has the same path."""
    state = git(project, "status", "--porcelain")
    base = find("v1")
    file = Registry([]).find(str(base.path))
    assert (base.name, file.status, file.specialist.prompt.strip()) == ("v1", "ok", "Old words.")
    assert (base.path.parent.parent / "shapes" / "answer.json").read_text() == SHAPE
    assert find("HEAD~1").path == find(git(project, "rev-parse", "v1")).path == base.path
    assert find("HEAD").path != base.path
    assert find(git(project, "rev-parse", "v1")).name == git(project, "rev-parse", "v1")[:10]
    assert git(project, "status", "--porcelain") == state
    assert [one.name for one in tmp_path.rglob("*.tmp")] == []


@NEEDS_GIT
def test_a_file_can_have_had_another_path_but_none_outside(find, project, tmp_path, monkeypatch):
    """`REF:PATH` names it, no link is followed, no path leads out of its copy; `git:` excludes an eval."""
    (project / "specialists" / "finder.md").rename(project / "specialists" / "renamed.md")
    (project / "specialists" / "link.md").symlink_to("/etc/passwd")
    commit(project)
    with pytest.raises(
        UsageError,
        match=r"finder.md cannot be read from commit \w{10} \(path '.*' does not exist .*; if it had another",
    ):
        find("HEAD")
    assert find("HEAD:specialists/renamed.md").path.read_text() == "changed"
    assert find("git:HEAD:specialists/link.md").path.read_text() == "/etc/passwd"
    (tmp_path / "secret.json").write_text("{}")
    for path in ("../../secret.json", str(tmp_path / "secret.json")):
        commit(project, specialists__finder_DOT_md=OLD.replace("../shapes/answer.json", path))
        file = Registry([]).find(str(find("HEAD").path))
        assert [problem.key for problem in file.problems if problem.level == "error"] == ["output_schema"]
    git(project, "tag", "eval-1")
    stored = Baseline("eval-1", None, Variant("as it is", "a.md", "1"))
    monkeypatch.setattr(baseline, "earlier_eval", lambda *_: stored)
    assert find("eval-1") is find("eval:eval-1") is stored
    assert find("git:eval-1").path is not None


@pytest.mark.exhaustive(one_in=5)
@NEEDS_GIT
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("nope", "baseline nope: is neither a file, nor a stored eval, nor a commit: no commit of "),
        ("--help", "baseline --help: is neither a file, "),
        ("", "baseline '': the name of a commit, an eval or a file is missing"),
        ("HEAD:none.md", r"baseline HEAD:none.md: none.md cannot be read from commit \w{10}"),
        ("none.md", "baseline none.md: no such file"),
        ("eval:eval-1", "baseline eval:eval-1: no eval with this id is stored"),
        ("\x1b[31m", r"baseline \S+: is neither a file"),
    ],
)
def test_e8_a_baseline_that_does_not_exist_is_one_line(find, project, text, part):
    """The place is the specialist's file."""
    with pytest.raises(UsageError, match=part) as raised:
        find(text)
    assert str(raised.value).startswith(f"{project}/specialists/finder.md:1:1: baseline ")
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_result_in_json_is_read_again(tmp_path):
    """Its only variant that is not a baseline is compared; with several, the variant of the unchanged file."""
    result = result_of([0.0] * 3, [0.5] * 3, more={"b": [1.0] * 3})
    path = tmp_path / "result.json"
    path.write_text(json.dumps(as_json(result)))
    base = find_baseline(str(path), tmp_path / "finder.md", "none")
    assert (base.name, base.variant.name, len(base.runs)) == (path.name, "as it is", 3)
    assert [one.score for one in base.runs] == [0.5] * 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a":\n x}', r"r.json: is not a result of .*: 1:1: invalid JSON: .* line 2 column 2"),
        ("{}", "r.json: is not a result of .*: eval: field required"),
        ('{"eval": "e", "specialist": "s", "cases": [], "variants": [], "runs": []}', "must have one variant"),
    ],
)
def test_a_broken_result_is_one_line(tmp_path, monkeypatch, text, part):
    """It names the first thing that is wrong; neither a pipe nor a file that is too large is read."""
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match="is not a regular file"):
        baseline.read_result(tmp_path / "pipe.json")
    (tmp_path / "large.json").write_text(" " * 1_025)
    monkeypatch.setattr(baseline, "LARGEST_RESULT", 1_024)
    with pytest.raises(UsageError, match="is larger than 1 KiB"):
        baseline.read_result(tmp_path / "large.json")
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=part) as raised:
        find_baseline(str(path), tmp_path / "finder.md", "none")
    assert "\n" not in str(raised.value)


DIFFERENCES = st.lists(st.floats(-1, 1), min_size=6, max_size=13)


def one_sided(differences, value):
    """Return the share of all changes of signs that leave the sum of deviations from `value` at least as large."""
    deviations = [one - value for one in differences]
    flipped = [
        sum(sign * one for sign, one in zip(signs, deviations, strict=True))
        for signs in itertools.product((1, -1), repeat=len(deviations))
    ]
    return fmean(one >= sum(deviations) - 1e-9 for one in flipped)


@given(st.lists(st.integers(-8, 8).map(lambda one: one / 8), min_size=6, max_size=8))
def test_the_limits_are_those_of_a_sign_flip_test(differences):
    """A value inside is not rejected at 2.5 % a side, one just outside is; all signs are tried for comparison."""
    low, high = mean_interval(differences, 0.05)
    assert one_sided(differences, low) > 0.025
    assert one_sided(differences, low - 1e-6) <= 0.025
    mirrored = [-one for one in differences]
    assert one_sided(mirrored, -high) > 0.025
    assert one_sided(mirrored, -high - 1e-6) <= 0.025


@given(DIFFERENCES)
def test_the_interval_contains_the_mean_and_mirrors(differences):
    """With few and with many differences; exchanging the sides exchanges and negates the limits."""
    low, high = mean_interval(differences, 0.05)
    assert low - 1e-9 <= fmean(differences) <= high + 1e-9
    assert mean_interval([-one for one in differences], 0.05) == pytest.approx((-high, -low), abs=1e-9)
    assert mean_interval(differences, 0.05) == (low, high)
    below, above = median_interval(differences, 0.05)
    assert below <= median(differences) + 1e-9
    assert above >= median(differences) - 1e-9


@pytest.mark.parametrize(
    ("differences", "needed"),
    [
        # Mean 0.1, deviation 0.6325: (2.8016 * 6.325)**2 + 1.92.
        ([0.7, -0.5] * 5, 316),
        ([0.2] * 9, 10),
        ([0.2, -0.2], None),
        ([], None),
    ],
)
def test_how_many_cases_would_be_needed(differences, needed):
    """By the formula of a paired t test, but at least the fewest possible, and more than there are."""
    assert cases_needed(differences, 0.05) == needed


def suites(result, compared=()):
    """Return the suites of a document that was parsed."""
    return ET.fromstring(junit(result, compared).encode()).findall("testsuite")  # noqa: S314 - our own document


def test_each_case_of_each_variant_but_the_baseline_is_a_test():
    """With time, reasons and commands; no answer is an error, what did not begin skipped, a regression failed."""
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
    failed = case_run("a", "as it is", status="failed", error="busy (529)")
    missing = case_run("b", "as it is", status="not run", run_id=None, error="the cost limit is reached")
    (_, new) = suites(replace(result_of([], []), cases=("a", "b", "c"), runs=(failed, missing)))
    assert [[child.tag for child in test] for test in new] == [["error", "system-out"], ["skipped"], ["skipped"]]
    assert [test[0].attrib["message"] for test in new] == ["busy (529)", "the cost limit is reached", "it did not run"]
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
