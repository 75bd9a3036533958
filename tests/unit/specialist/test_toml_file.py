"""Agent files in TOML, as Codex has them."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.specialist.loader import SpecialistFile, load_text

REVIEWER = '''\
# From the documentation of the format.
name = "pr_explorer"
description = "Finds the code path: 'quoted', # no comment."
model = "gpt-5.3-codex-spark"
model_reasoning_effort = "medium"
sandbox_mode = "read-only"
nickname_candidates = ["Atlas", "Delta"]
tool_calls_limit = 7
tools = ["read", "grep"]
developer_instructions = """
Stay in exploration mode.
# Not a comment.
"""

[mcp_servers.docs]
url = "https://developers.openai.com/mcp"
'''


def loaded(text: str) -> SpecialistFile:
    """Load a text as the content of a TOML file."""
    return load_text(text, Path("reviewer.toml"))


def test_a_whole_file_is_read() -> None:
    """Each key of the format has its meaning, and keys of this program work too."""
    file = loaded(REVIEWER)
    assert (file.name, file.dialect) == ("pr_explorer", "codex")
    assert file.description == "Finds the code path: 'quoted', # no comment."
    assert (file.model, file.tools, file.tool_calls_limit) == ("gpt-5.3-codex-spark", ("read", "grep"), 7)
    assert file.specialist is not None
    assert file.specialist.effort == "medium"
    assert file.specialist.prompt == "Stay in exploration mode.\n# Not a comment."
    assert file.specialist.mcp_servers == {"docs": {"url": "https://developers.openai.com/mcp"}}
    assert file.lines["model"] == 4
    assert file.lines["mcp_servers"] == 15


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('name = "x"\nmodel = "open\n', 2, "is not valid TOML"),
        ('name = "x"\n', 1, "developer_instructions: missing, so there is no prompt"),
        ('name = "x"\ndeveloper_instructions = 3\n', 2, "developer_instructions: must be a text"),
        ('name = "x"\ndeveloper_instructions = "  "\n', 2, "developer_instructions: must be a text"),
        ('developer_instructions = "b"\ntool_calls_limit = "many"\n', 2, "tool_calls_limit: must be an integer"),
        ("", 1, "developer_instructions: missing"),
    ],
)
def test_an_unusable_file_has_one_error_with_its_line(text: str, line: int, said: str) -> None:
    """What makes a file unusable is one error at the line of the key."""
    (error,) = [problem for problem in loaded(text).problems if problem.level == "error"]
    assert error.line == line
    assert said in str(error)
    assert not any("body is empty" in problem.text for problem in loaded(text).problems)


def test_unknown_and_repeated_keys_are_warnings() -> None:
    """A key that is not known, and one in two spellings, load with a warning."""
    file = loaded('developer_instructions = "b"\ndescription = "d"\nquux = [1, {a = 2}]\nmodel = "a"\nMODEL = "b"\n')
    warnings = [str(problem) for problem in file.problems if problem.level == "warning"]
    assert [text.partition(": ")[2] for text in warnings] == [
        "quux: unknown key",
        "model: is given more than once, in several spellings; MODEL is used",
    ]
    assert file.model == "b"


_VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(st.characters(codec="ascii"), max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def in_toml(value: object) -> str:
    """Write a value as TOML, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(in_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {in_toml(item)}' for key, item in value.items())}}}"
    return str(value).lower() if isinstance(value, bool | float) else json.dumps(value)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(["tools", "agents", "countdown", "mcp_servers", "output_schema", "name", "effort"]), _VALUES)
def test_any_value_of_any_key_loads(key: str, value: object) -> None:
    """A value of the wrong kind gives a problem, never an exception."""
    assert loaded(f'developer_instructions = "b"\n{key} = {in_toml(value)}\n').name
