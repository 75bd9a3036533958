"""The line of each key in a TOML file, also among text that looks like a key."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.specialist.positions import InvalidToml, read_table

NAMES = ("tool", "run-specialist")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tool.run-specialist.model = 1\n", 1),
        ("x = 1\n[tool]\nrun-specialist = { model = 1 }\n", 1),
        ('[ "tool" . "run-specialist" ]\nx = 1\nmodel = """\nlong\n"""\n', 3),
        ("[tool.run-specialist.model]\nx = 1\n", 1),
        ('x = 1\n[tool.run-specialist]\n"mod\\u0065l" = 1\n', 2),
    ],
)
def test_a_table_can_be_written_in_any_way(text, line):
    """Dotted keys, inline tables and quoted names are understood; the header stands for a key with escapes."""
    table = read_table(text, NAMES)
    assert "model" in table.values
    assert table.line("model") == line


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb = \n", 2), ("a = 1\na = 2\n", 2), ("a = 1\n\nb = [1,\n", 3), ("a = " + "[" * 9999, 1)]
)
def test_invalid_toml_has_a_line(text, line):
    """The error names the line, and the reason does not repeat it."""
    with pytest.raises(InvalidToml) as error:
        read_table(text, NAMES)
    assert (error.value.line, "at line" in str(error.value)) == (line, False)


@given(st.text() | st.text(st.sampled_from("ab.=[]{}\"'#\n ,1-"), max_size=200))
def test_any_text_is_read_or_refused(text):
    """No text leads to another error than the expected one."""
    try:
        tomllib.loads(text)
    except ValueError:
        with pytest.raises(InvalidToml):
            read_table(text, ())
    else:
        table = read_table(text, ())
        assert all(1 <= table.line(key) <= max(len(text.splitlines()), 1) for key in table.values)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\ntool.run-specialist.model" + ".a" * 1000 + " = 1\n", (2, "a key has more than 50 parts")),
        ("x = 1\n[tool" + ' . "a"' * 400_000 + "]\n", (2, "a key has more than 50 parts")),
        ("x = " + ("{" + ".".join("a" * 40) + " = ") * 40 + "1" + "}" * 40, (1, "it is nested too deeply")),
        ("x = " + "[" * 60 + "]" * 60, (1, "it is nested too deeply")),
        ("x = " + "[" * 5000, (1, "it is nested too deeply")),
    ],
)
def test_deep_values_are_invalid(text, reason):
    """A key of very many parts and deeply nested values are rejected with their line, before they take long."""
    with pytest.raises(InvalidToml) as error:
        read_table(text, NAMES)
    assert (error.value.line, str(error.value)) == reason
