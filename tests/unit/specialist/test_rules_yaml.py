"""Rules 4 and 5 of lenient loading: text values, and broken YAML."""

import pytest

from tests.unit.specialist.front_matter import HEAD, file_of, lines_of


@pytest.mark.parametrize("name", ["yes", "2024", "2026-01-05", "1:30", "true", "1e3"])
def test_rule_4_names_are_always_read_as_text(name: str) -> None:
    """Rule 4: a name is never parsed as a boolean, number or date."""
    assert file_of(f"name: {name}\ndescription: d").name == name


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("Finds issue #12 and C# notes #fast", "Finds issue #12 and C# notes #fast"),
        ("#1 in notes", "#1 in notes"),
        ("!important read the notes", "!important read the notes"),
        ("&co notes of all", "&co notes of all"),
        ("*any", "*any"),
        ("!!python/name:os.system x", "!!python/name:os.system x"),
    ],
)
def test_rule_4_text_is_kept_where_yaml_would_cut_it(written: str, description: str) -> None:
    """Rule 4: text that YAML would cut or read as a tag, an anchor or an alias is kept."""
    file = file_of(f"name: agent\ndescription: {written}\nmodel: opus")
    assert (file.description, file.model) == (description, "opus")


def test_rule_4_quotes_and_blocks_follow_yaml() -> None:
    """Rule 4: a comment after quoted text is removed, and blocks keep or fold their lines as in YAML."""
    assert file_of('name: agent\ndescription: "a # b" # c').description == "a # b"
    assert file_of("name: agent\ndescription: |\n  a\n\n  b").description == "a\n\nb"
    assert file_of("name: agent\ndescription: >-\n  a\n  b").description == "a b"
    assert file_of("name: agent\ndescription: a\n  b").description == "a b"


def test_rule_4_duplicate_keys_last_wins() -> None:
    """Rule 4: the last of duplicate keys wins, in any spelling, and the warning names both lines."""
    file = file_of(HEAD + "maxTurns: 3\nmax-turns: 4\ncountdown:\n  from: 1\n  from: 2")
    assert file.specialist is not None
    assert (file.specialist.turns_limit, file.specialist.countdown.from_) == (4, 2)
    assert lines_of(file) == [
        "5:1: turns_limit: given on lines 4 and 5; the last one is used",
        "8:3: countdown: from is given twice; the last value is used",
    ]


def test_rule_5_broken_yaml_is_read_field_by_field() -> None:
    """Rule 5: the warning gives the parser's position, and the other fields load normally."""
    file = file_of(
        "name: agent\ndescription: Use when: 'a', 'b'\ntools: [Read, Grep]\ntool_calls_limit: 7\nmodel: opus"
    )
    assert (file.description, file.tools, file.model) == ("Use when: 'a', 'b'", ("Read", "Grep"), "opus")
    assert file.tool_calls_limit == 7
    assert [(p.line, p.column, p.level) for p in file.problems] == [(3, 22, "warning")]


def test_rule_5_only_known_keys_end_a_description() -> None:
    """Rule 5: dialogue in an example is text, and so are keys inside an open example."""
    talk = 'Examples:\n\n<example>\nContext: now\nuser: "hi"\nmodel: of thinking\n</example>\nassistant: done'
    file = file_of(f"name: agent\ndescription: {talk}\ncolor: red\nmodel: opus")
    assert file.description == talk
    assert file.model == "opus"
    assert "color" in file.lines


def test_rule_5_an_unclosed_example_does_not_absorb_later_keys() -> None:
    """Rule 5: an unclosed `<example>` does not absorb the keys below it."""
    file = file_of("name: agent\ndescription: a: <example> b\nmodel: opus")
    assert (file.description, file.model) == ("a: <example> b", "opus")


@pytest.mark.parametrize(
    ("written", "description"),
    [
        (r"Use it: yes\nand no", "Use it: yes\nand no"),
        ('"Finds" and "reads": notes', '"Finds" and "reads": notes'),
        ('"He said "hi" to me"', 'He said "hi" to me'),
        ("'It's fine'", "It's fine"),
        (r'"Finds \d+ and \"x\""', r'Finds \d+ and "x"'),
        ('"never closed', "never closed"),
        ("'it's never closed", "'it's never closed"),
        ("[draft] notes", "[draft] notes"),
        ("{{var}} notes", "{{var}} notes"),
    ],
)
def test_rule_5_an_invalid_description_is_kept_as_written(written: str, description: str) -> None:
    """Rule 5: a description that is not valid YAML is kept as written."""
    file = file_of(f"name: agent\ndescription: {written}\ntools: Read")
    assert (file.name, file.description, file.tools) == ("agent", description, ("Read",))
    assert file.status == "warning"


def test_rule_5_comments_above_the_next_key_are_removed() -> None:
    """Rule 5: comments at the end of a broken description are removed; a heading followed by text is kept."""
    assert file_of("name: agent\ndescription: a: b\n# of all\nmodel: opus").description == "a: b"
    assert file_of("name: agent\ndescription: a: b\n\n# last").description == "a: b"
    kept = "a: b\n# When\nAlways"
    assert file_of(f"name: agent\ndescription: {kept}\nmodel: opus").description == kept


def test_rule_5_a_warning_names_the_last_line_of_broken_text() -> None:
    """Rule 5: the warning for a broken value names the last line of its text."""
    file = file_of("name: agent\ndescription: One: a\nTwo\n\nThree\ntools:\n\t- Read\nmodel: opus")
    assert (file.description, file.tools) == ("One: a\nTwo\n\nThree", ("Read",))
    assert lines_of(file)[0] == "3:1: description: is not valid YAML; using its text up to line 6"
    assert "7:1: tools: is not valid YAML; using its text up to line 8" in lines_of(file)
