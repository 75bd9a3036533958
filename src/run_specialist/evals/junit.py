"""Export the results of an eval as JUnit XML, which CI systems show."""

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

from run_specialist.evals.comparison import Comparison
from run_specialist.evals.eval_results import CaseRun, EvalResult, Variant
from run_specialist.evals.verdict_text import verdict_text

_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, and control characters that it discourages."""


def junit(result: EvalResult, comparisons: Sequence[Comparison] = ()) -> str:
    """Return a document with a suite per variant and a test per case; several repeats are one test.

    Cases that the baseline failed are skipped tests, because they are not failures of the version under test.
    comparisons: with the requested baseline; each is a test that fails on a regression.
    """
    verdicts = {one.variant: one for one in comparisons}
    suites = [_suite(result, one, verdicts.get(one.name)) for one in result.variants]
    root = ET.Element("testsuites", {"name": _clean(f"eval of {result.specialist}"), **_sums(suites)})
    root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _suite(result: EvalResult, variant: Variant, comparison: Comparison | None) -> ET.Element:
    name = _clean(f"{result.specialist}: {variant.name}{' (baseline)' if variant.is_baseline else ''}")
    suite = ET.Element("testsuite", {"name": name})
    for case in result.cases:
        runs = [one for one in result.runs if (one.case, one.variant) == (case, variant.name)]
        suite.append(_test(name, case, runs, is_baseline=variant.is_baseline))
    if comparison is not None:
        suite.append(_verdict(name, comparison))
    counts = {
        "tests": len(suite),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    seconds = sum(float(one.attrib["time"]) for one in suite)
    suite.attrib.update({**{key: str(count) for key, count in counts.items()}, "time": f"{seconds:.3f}"})
    return suite


def _test(suite: str, case: str, runs: Sequence[CaseRun], *, is_baseline: bool) -> ET.Element:
    seconds = sum(one.seconds for one in runs)
    test = ET.Element("testcase", {"classname": suite, "name": _clean(case), "time": f"{seconds:.3f}"})
    ended = [one for one in runs if one.has_ended]
    bad = [one for one in ended if not one.passed]
    if not ended:
        ET.SubElement(test, "skipped", {"message": _clean(_first([one.error for one in runs]) or "it did not run")})
    elif bad:
        message = f"{len(bad)} of {len(ended)} runs did not pass" if len(ended) > 1 else _reasons(bad[0])[0]
        kind = "skipped" if is_baseline else "error" if all(one.status == "failed" for one in bad) else "failure"
        found = ET.SubElement(test, kind, {"message": _clean(message)})
        found.text = _clean("\n".join(line for one in bad for line in _lines(one)))
    ids = [one.run_id for one in runs if one.run_id]
    if ids:
        ET.SubElement(test, "system-out").text = _clean("".join(f"specialists report {one}\n" for one in ids))
    return test


def _verdict(suite: str, one: Comparison) -> ET.Element:
    test = ET.Element(
        "testcase", {"classname": suite, "name": _clean(f"compared with {one.baseline}"), "time": "0.000"}
    )
    text = _clean(verdict_text(one))
    if one.regression:
        ET.SubElement(test, "failure", {"message": text}).text = text
    else:
        ET.SubElement(test, "system-out").text = text
    return test


def _reasons(run: CaseRun) -> list[str]:
    """Return why a run did not pass, one line per reason; never empty."""
    checks = [f"{one.name}: {one.reason or 'not held'}" for one in run.checks if one.value is False]
    return [*checks, *([run.error] if run.error else [])] or [f"the run has the status {run.status}"]


def _lines(run: CaseRun) -> Iterable[str]:
    return (f"repeat {run.repeat}, run {run.run_id or 'none'}: {' '.join(one.split())}" for one in _reasons(run))


def _first(texts: Iterable[str | None]) -> str | None:
    return next((one for one in texts if one), None)


def _sums(suites: Iterable[ET.Element]) -> dict[str, str]:
    every = [*suites]
    counted = {
        name: str(sum(int(one.attrib[name]) for one in every)) for name in ("tests", "failures", "errors", "skipped")
    }
    return {**counted, "time": f"{sum(float(one.attrib['time']) for one in every):.3f}"}


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
