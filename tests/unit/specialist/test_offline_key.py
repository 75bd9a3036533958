"""The key `offline`: its values, its spellings, and what happens to a value that is neither."""

from pathlib import Path

import pytest

from run_specialist.errors import UsageError
from run_specialist.specialist.fields import json_schema
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.project import packaged
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve, settings_of


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


def test_a_bad_value_of_another_key_leaves_it_alone():
    """A value that is dropped with a warning takes no other key with it."""
    file = loaded("effort: much", "offline: refuse", "mcp_servers: {x: {command: 'true'}}")
    assert (file.specialist.offline, file.specialist.effort) == ("refuse", None)
    assert file.specialist.mcp_servers == {"x": {"command": "true"}}


def test_an_empty_value_is_ignored():
    """Like other empty keys it counts as missing, with a warning."""
    file = loaded("offline:")
    assert (file.status, file.specialist.offline) == ("warning", "answer")


def test_a_call_cannot_set_another_value():
    """Settings of a call are checked strictly."""
    with pytest.raises(UsageError, match="offline: must be answer or refuse, got 'never'"):
        resolve(loaded(), {"offline": "never"})


def test_show_and_the_schema_know_it():
    """`show` lists the key with its line, and editors are offered its two values."""
    (setting,) = [one for one in settings_of(resolve(loaded("offline: refuse"), {})) if one.key == "offline"]
    assert (setting.value, str(setting.origin)) == ("refuse", "line 4")
    schema = json_schema()["properties"]["offline"]
    assert (schema["enum"], schema["default"]) == (["answer", "refuse"], "answer")


def test_of_the_package_only_the_fact_checker_refuses():
    """The verdicts of the fact-checker are judgements; the other specialists of the package find and explain."""
    files = Registry([packaged()]).nearest()
    assert [file.name for file in files if file.specialist.offline == "refuse"] == ["fact-checker"]
