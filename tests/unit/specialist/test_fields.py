"""The typed fields: kinds of values, error messages and the model itself."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.loader import SpecialistFile, load_text

HEAD = "name: agent\ndescription: d\n"


def loaded(line: str) -> SpecialistFile:
    """Load a file with an additional line of front matter."""
    return load_text(f"---\n{HEAD}{line}\n---\nBody", Path("agent.md"))


def value(line: str) -> Any:
    """Return the value of the only field set in a line."""
    specialist = loaded(line).specialist
    assert specialist is not None
    (key,) = specialist.model_fields_set - {"name", "description"}
    return getattr(specialist, key)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("time_limit: 90s", 90),
        ("time_limit: 1.5 h", 5400),
        ("timeout_mins: 5", 300),
        ("timeout-mins: 90s", 90),
        ("time_limit: none", None),
        ("max_cost_usd: '1'", 1),
        ("tool_timeout: 2m", 120),
        ("maxToken: 150000", 150_000),
        ("max_total_chars: 7", 7),
        ("max_tool_calls: 8", 8),
        ("share_budget: no", False),
        ("landing: Force", "force"),
        ("effort: high", "high"),
        ("preset: openai-loop", "openai-loop"),
        ("paths: thoughts/, docs/*.md", ("thoughts/", "docs/*.md")),
        ("python_tools: [pkg.mod:fn]", ("pkg.mod:fn",)),
        ("mcp-servers: {web: {command: x}}", {"web": {"command": "x"}}),
        ("output_schema: {type: object}", {"type": "object"}),
        ("countdown: {from: 0.8, style: budget, warnAt: 2}", Countdown(from_=0.8, style="budget", warn_at=2)),
        ("countdown: none", Countdown(from_=None)),
        ("disallowedTools: Bash, Read(a, b)", ("Bash", "Read(a, b)")),
    ],
)
def test_every_kind_of_value_is_read_under_each_name(line: str, expected: object) -> None:
    """Each kind of value is read under each of its key's names."""
    assert value(line) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "time_limit: .inf",
            "time_limit: must be a number of seconds, a duration like 90s, 10m or 1h, or none, got .inf",
        ),
        ("cost_limit: .nan", "cost_limit: must be an amount in USD of at least 0, or none, got .nan"),
        (
            "tool_timeout: 0",
            "tool_timeout: must be a number of seconds above 0, or a duration like 90s or 10m, got 0",
        ),
        ("parallel_tools_limit: 0", "parallel_tools_limit: must be an integer of at least 1, got 0"),
        ("budget_notice: 1", "budget_notice: must be true or false, got 1"),
        ("paths: /etc", "paths: must be folders or globs under the root, got /etc"),
        ("paths: [ok, ../up]", "paths: must be folders or globs under the root, got ../up"),
        ("python_tools: [a:b, c]", "python_tools: must be a list of module:function, got c"),
        (
            "countdown: {from: true}",
            "countdown.from: must be a share from 0.0 to 1.0, an integer number of calls left, or none, got true",
        ),
        ("disallowed_tools: [[a]]", "disallowed_tools: must be a name, got a list or a map; ignored"),
        ("output_schema: {? [a] : b}", "output_schema: a key is a list or a map"),
    ],
)
def test_an_invalid_value_names_the_expected_and_actual_value(line: str, said: str) -> None:
    """The error gives the expected and the actual value on one line, at the value's place."""
    file = loaded(line)
    assert [str(p).partition(":4:")[2].partition(": ")[2] for p in file.problems] == [said]
    assert (file.status, file.specialist) == ("error", None)


@pytest.mark.parametrize(
    ("line", "key", "left"),
    [
        ("effort: extreme", "effort", None),
        ("mcp_servers: 5", "mcp_servers", None),
        ("model: {a: b}", "model", None),
        ("tools: [[a], Read]", "tools", ("Read",)),
        ("landing_prompt: [a, b]", "landing_prompt", "a, b"),
    ],
)
def test_a_wrong_type_that_restricts_nothing_is_a_warning(line: str, key: str, left: object) -> None:
    """A value of the wrong type is only a warning if it does not restrict the specialist."""
    file = loaded(line)
    assert file.status == "warning"
    assert file.specialist is not None
    assert getattr(file.specialist, key) == left


def test_an_empty_key_in_a_map_counts_as_not_given() -> None:
    """An empty key inside a map counts as not given, so a forgotten value disables nothing."""
    file = loaded("countdown:\n  from:\n  warn_at: 2")
    assert file.specialist is not None
    assert file.specialist.countdown == Countdown(warn_at=2)
    assert [str(p) for p in file.problems] == ["agent.md:5:3: countdown: from is empty and ignored"]


def test_descriptions_of_other_types_become_text() -> None:
    """A list is joined and a map is kept as written, both with a warning."""
    for written, text in (("[a, b c]", "a, b c"), ("{a: b}", "{a: b}"), ("\n  Use when: x", "Use when: x")):
        file = load_text(f"---\nname: agent\ndescription: {written}\n---\nBody", Path("agent.md"))
        assert (file.description, file.status) == (text, "warning")


def test_an_unusable_name_is_replaced_by_the_file_name() -> None:
    """A name that is not text, is empty or has only control characters is replaced by the file's name."""
    for written in ("[a]", "{a: b}", "''", "", "null", '"\\x01\\x02"'):
        file = load_text(f"---\nname: {written}\ndescription: d\n---\nBody", Path("agent.md"))
        assert (file.name, file.status) == ("agent", "warning")


def test_only_control_characters_are_removed_from_names() -> None:
    """Control characters are removed from a name; slashes and colons are kept."""
    file = load_text('---\nname: "SE: a/b\\n\\x1b[31m"\ndescription: d\n---\nBody', Path("agent.md"))
    assert file.name == "SE: a/b [31m"


def test_fields_set_are_the_keys_of_the_file() -> None:
    """Defaults and placeholders do not count as given."""
    file = load_text("---\ndescription: d\ntool_calls_limit: none\nmodel:\n---\nBody", Path("agent.md"))
    assert file.specialist is not None
    assert file.specialist.model_fields_set == {"description", "tool_calls_limit"}
    assert dict(file.lines) == {"description": 2, "tool_calls_limit": 3, "model": 4}


def test_keys_without_effect_give_notices_or_warnings() -> None:
    """Keys without effect give a notice, restrictive ones a warning, unknown ones a warning with a suggestion."""
    file = loaded("color: red\nhooks: {a: b}\npermissionMode: dontAsk\ntool_cals_limit: 3\nquux: 1")
    assert [(p.key, p.level) for p in file.problems] == [
        ("color", "notice"),
        ("hooks", "warning"),
        ("permissionMode", "warning"),
        ("tool_cals_limit", "warning"),
        ("quux", "warning"),
    ]
    assert file.problems[3].text == "unknown key; did you mean tool_calls_limit?"
    assert file.problems[4].text == "unknown key"
    assert loaded("color: red").status == "ok"


def test_strict_turns_warnings_into_errors() -> None:
    """Strict mode turns warnings into errors and keeps notices."""
    assert (loaded("quux: 1").strict().status, loaded("quux: 1").strict().specialist) == ("error", None)
    assert (loaded("color: red").strict().status, loaded("color: red").strict().specialist is None) == ("ok", False)


def test_model_is_usable_without_a_file() -> None:
    """The model has the documented defaults, refuses wrong values and is immutable."""
    specialist = Specialist(name="a", description="b", prompt="c")
    assert (specialist.tool_calls_limit, specialist.landing, specialist.tools) == (30, "auto", None)
    assert (specialist.parallel_tools_limit, specialist.tool_timeout, specialist.tool_result_limit) == (4, 60, 20_000)
    for wrong in ({"tool_calls_limit": True}, {"cost_limit": True}, {"time_limit": float("inf")}, {"name": 3}):
        with pytest.raises(ValidationError):
            Specialist.model_validate({"name": "a", "description": "b", "prompt": "c"} | wrong)
    with pytest.raises(ValidationError):
        specialist.name = "d"  # type: ignore[misc]
