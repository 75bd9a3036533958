"""Adding a value to JSON with comments and trailing commas."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.cli.editor_settings import _without_comments, add_value

PATH = ("yaml.schemas", "./schema.json")
FILES = ["a/*.md"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def parsed(text):
    """Return the value of JSON with comments."""
    return json.loads(_without_comments(text))


@given(st.dictionaries(st.text(), VALUES), st.sampled_from([None, 1, 4, "\t"]))
def test_a_value_is_added_to_any_object(value, indent):
    """The value is added, nothing else changes, and a second time changes nothing."""
    value.pop(PATH[0], None)
    once = add_value(json.dumps(value, indent=indent), PATH, FILES)
    assert json.loads(once) == {PATH[0]: {PATH[1]: FILES}} | value
    assert add_value(once, PATH, FILES) == once


@pytest.mark.parametrize(
    "text",
    [
        '{\n  // tabs, "not" keys: {\n  "editor.tabSize": 4, // four\n}\n',
        '// top\n{ /* a\n } */\n\t"a": "// no comment, }",\n\t/* last */\n}\n// end\n',
        "{ // only a comment\n}",
        '{ /* one line */ "a": [1, 2,], "b": {"c": "\\"/*",},}',
        '\ufeff{\r\n    "a": 1,\r\n}\r\n',
        '{"yaml.schemas": {\n  // mine\n  "./mine.json": "*.yaml",\n},}',
        '{"yaml.schemas": {}}',
        "{}",
    ],
)
def test_comments_and_trailing_commas_are_kept(text):
    """Every character of the text remains, in its order, and the result has one more value."""
    result = add_value(text, PATH, FILES)
    before, after = parsed(text), parsed(result)
    assert after.pop(PATH[0])[PATH[1]] == FILES
    before.pop(PATH[0], None)
    assert after == before
    rest = iter(re.sub(r"\s", "", result))
    assert all(character in rest for character in re.sub(r"\s", "", text))
    assert add_value(result, PATH, FILES) == result
    assert ("\r\n" in text) == ("\r\n" in result)
    assert not re.search(r"[^\r]\n", result) or "\r\n" not in text


def test_an_existing_value_is_kept():
    """A value at the path, whatever it is, is the user's own."""
    text = '{"yaml.schemas": {"./schema.json": "mine/*.md"}}'
    assert add_value(text, PATH, FILES) == text


def test_the_layout_is_that_of_the_text():
    """The entry has the indentation of the text, and is below a comment after the brace."""
    text = '{ // mine\n    "a": 1\n}\n'
    assert add_value(text, ("k",), {"b": 2}) == '{ // mine\n    "k": {\n        "b": 2\n    },\n    "a": 1\n}\n'
    assert add_value("", ("k",), 1) == '{\n  "k": 1\n}\n'
    assert add_value('{"a": 1}', ("k",), 1) == '{\n  "k": 1,\n  "a": 1}'


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "1", '{"a" 1}', '{"yaml.schemas": []}', '{"a": 1 /* }', "{'a': 1}", '"text"', "// only a comment"],
)
def test_what_cannot_be_changed_is_refused(text):
    """Invalid JSON, or a path through something else than an object, is an error."""
    with pytest.raises(ValueError, match=r"\w"):
        add_value(text, PATH, FILES)
