"""Export the results of an eval as JUnit XML, which CI systems show."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from run_specialist.evals.comparison import Comparison
from run_specialist.evals.eval_results import CaseRun, EvalResult
from run_specialist.evals.verdict_text import verdict_text

_NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, and control characters that it discourages."""


def junit(result: EvalResult, comparisons: Sequence[Comparison] = ()) -> str:
    """Return a document with a suite per variant and a test per case; several repeats are one test.

    Cases that the baseline failed are skipped tests, because they are not failures of the version under test.
    comparisons: with the requested baseline; each is a test that fails on a regression.
    """
    root = ET.Element("testsuites", {"name": f"eval of {result.specialist}"})
    for variant in result.variants:
        name = f"{result.specialist}: {variant.name}{' (baseline)' if variant.is_baseline else ''}"
        suite = ET.SubElement(root, "testsuite", {"name": name})
        for case in result.cases:
            runs = [one for one in result.runs if (one.case, one.variant) == (case, variant.name)]
            seconds = f"{sum(one.seconds for one in runs):.3f}"
            test = ET.SubElement(suite, "testcase", {"classname": name, "name": case, "time": seconds})
            _fill(test, runs, is_baseline=variant.is_baseline)
        for one in comparisons:
            if one.variant == variant.name:
                about = {"classname": name, "name": f"compared with {one.baseline}", "time": "0.000"}
                test, text = ET.SubElement(suite, "testcase", about), verdict_text(one)
                if one.regression:
                    ET.SubElement(test, "failure", {"message": text}).text = text
                else:
                    ET.SubElement(test, "system-out").text = text
    for element in (*root, root):
        tests = [*element.iter("testcase")]
        element.set("tests", str(len(tests)))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(key, str(sum(test.find(tag) is not None for test in tests)))
        element.set("time", f"{sum(float(test.attrib['time']) for test in tests):.3f}")
    for element in root.iter():
        element.text = element.text and _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", element.text)
        for key, value in element.items():
            element.set(key, _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _fill(test: ET.Element, runs: Sequence[CaseRun], *, is_baseline: bool) -> None:
    """Add what came of the runs of a case."""
    ended = [one for one in runs if one.has_ended]
    bad = [one for one in ended if not one.passed]
    if not ended:
        ET.SubElement(test, "skipped", {"message": next((one.error for one in runs if one.error), "it did not run")})
    elif bad:
        message = f"{len(bad)} of {len(ended)} runs did not pass" if len(ended) > 1 else _reasons(bad[0])[0]
        kind = "skipped" if is_baseline else "error" if all(one.status == "failed" for one in bad) else "failure"
        ET.SubElement(test, kind, {"message": message}).text = "\n".join(
            f"repeat {one.repeat}, run {one.run_id or 'none'}: {' '.join(why.split())}"
            for one in bad
            for why in _reasons(one)
        )
    if ids := [one.run_id for one in runs if one.run_id]:
        ET.SubElement(test, "system-out").text = "".join(f"specialists report {one}\n" for one in ids)


def _reasons(run: CaseRun) -> list[str]:
    """Return why a run did not pass, one line per reason; never empty."""
    checks = [f"{one.name}: {one.reason or 'not held'}" for one in run.checks if one.value is False]
    return [*checks, *([run.error] if run.error else [])] or [f"the run has the status {run.status}"]
