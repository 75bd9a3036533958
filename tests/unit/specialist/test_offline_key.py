"""The key `offline`: its values, its spellings, and what happens to a value that is neither."""

from pathlib import Path

import pytest

from run_specialist.specialist.loader import load_text
from run_specialist.specialist.project import packaged
from run_specialist.specialist.registry import Registry


def loaded(*lines: str):
    """Return a file with these lines of front matter."""
    return load_text("\n".join(["---", "name: a", "description: d", *lines, "---", "Body", ""]), Path("a.md"))


def test_it_answers_unless_the_file_says_otherwise():
    """The default is `answer`; `refuse` is read in any case and spelling, without a problem."""
    assert loaded().specialist.offline == "answer"
    for line in ("offline: refuse", "offline: Refuse", "Offline: 'refuse'", "offline: !!str refuse"):
        assert loaded(line).specialist.offline == "refuse"
        assert loaded(line).problems == ()
    assert loaded("offline: answer").specialist.offline == "answer"


@pytest.mark.parametrize("value", ["never", "false", "true", "0", "[refuse, answer]", "{mode: answer}", "1.5"])
def test_an_unclear_value_counts_as_refuse(value):
    """Any other value is a warning with its place and refuses, because ignoring it could lift a restriction."""
    file = loaded(f"offline: {value}")
    assert (file.status, file.specialist.offline) == ("warning", "refuse")
    (problem,) = file.problems
    assert str(problem).startswith("a.md:4:10: offline: must be answer or refuse, got ")
    assert str(problem).endswith("; read as refuse")


def test_of_the_package_only_the_fact_checker_refuses():
    """The verdicts of the fact-checker are judgements; the other specialists of the package find and explain."""
    files = Registry([packaged()]).nearest()
    assert [file.name for file in files if file.specialist.offline == "refuse"] == ["fact-checker"]
