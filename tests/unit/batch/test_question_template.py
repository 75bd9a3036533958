"""Questions made from items."""

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.item import InputRecord
from run_specialist.batch.questions import LONGEST_QUESTION, Template, asked
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import JSON, TEXTS

FIELDS = {"path": "a.md", "n": 3, "Ticket ID": "T-1", "x:y!z": "odd", "on": True, "no": None, "l": [1, {"a": "ü"}]}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("What does {path} say?", "What does a.md say?"),
        ("{{path}} {{{path}}}", "{path} {a.md}"),
        ("{l}", '[1,{"a":"ü"}]'),
        ("{Ticket ID}: {x:y!z}", "T-1: odd"),
    ],
)
def test_fields_are_filled_in(template, expected):
    """Strings as they are, other values as JSON; a name may have any character but a brace."""
    assert Template(template).fill(FIELDS, "f:1") == expected


@given(st.lists(st.tuples(TEXTS.filter(lambda text: not set(text) & set("{}")), JSON), max_size=4), TEXTS)
def test_values_are_never_templates(parts, end):
    """Whatever a value contains, it is in the question unchanged, between the texts of the template."""
    fields = {f"f{number}": value for number, (_, value) in enumerate(parts)}
    double = end.replace("{", "{{").replace("}", "}}")
    template = "".join(f"{text}{{f{number}}}" for number, (text, _) in enumerate(parts)) + double
    expected = "".join(
        text + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        for text, value in parts
    )
    if template.strip():
        assert Template(template).fill(fields, "f:1") == expected + end


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("What {path", "character 6: the brace in '{path' is unmatched"),
        ("{a{b}}", "character 1: the brace in '{a{b}}' is unmatched"),
        ("Why {}?", "character 5: a field has no name; write {item}"),
        (" \n", "the question is empty"),
    ],
)
def test_a_broken_template_is_an_error(template, reason):
    """It names the place and the way out."""
    with pytest.raises(UsageError) as raised:
        Template(template)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("template", "given", "reason"),
    [
        ("{paht}", {"path": 1, "n": 2}, "f:7 has no field 'paht', which the question needs; did you mean {path}?"),
        ("{zzz}", {"path": 1, "n": 2}, "needs; it has path, n"),
        ("{path}", "a text", "has no field 'path', which the question needs; it has item"),
        ("{zzz}", {f"field{n}": n for n in range(20)}, "field10, field11"),
    ],
)
def test_a_missing_field_is_an_error(template, given, reason):
    """It names the item and the fields that there are."""
    with pytest.raises(UsageError) as raised:
        Template(template).fill(given, "f:7")
    assert reason in str(raised.value)


def test_without_a_template_an_item_is_its_question():
    """A text, or the field `question`."""
    found = [*asked(["Why?", {"question": "How?", "n": 1}, MappingProxyType({"question": "Who?"})], None)]
    assert [one.question for one in found] == ["Why?", "How?", "Who?"]
    assert found[2].input == {"question": "Who?"}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (3, "item 1 must be an object or a string, got int"),
        ({"n": 1}, "item 1 has no question; give it a field `question`"),
        ({1: "a"}, "item 1 has a field whose name is not a string"),
        ({"question": "Why?", "at": object()}, "item 1 has a value that is not JSON: Object of type object"),
        ({"question": "Why?", "at": float("nan")}, "item 1 has a value that is not JSON: Out of range"),
        ("a\0b", "item 1 contains a NUL character; remove it"),
        ("a\ud800b", "item 1 contains half of a surrogate pair"),
        (InputRecord("x" * (LONGEST_QUESTION + 1), "f:2"), "f:2: its question is longer than 10 MiB"),
    ],
)
def test_what_cannot_be_asked_about(given, reason):
    """One line with the place of the item."""
    with pytest.raises(UsageError) as raised:
        [*asked([given], None)]
    assert str(raised.value).startswith(reason)


def test_a_value_that_contains_itself_is_an_error():
    """Not a traceback."""
    loop: dict = {"question": "Why?"}
    loop["self"] = loop
    with pytest.raises(UsageError, match="not JSON: Circular"):
        [*asked([loop], None)]
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UsageError, match="item 1 is nested too deeply"):
        [*asked([{"question": "Why?", "deep": deep}], None)]


@given(TEXTS | st.sampled_from(["\\u0000", "\\\\u0000 \\ud800", "😀\\"]))
def test_only_real_characters_are_refused(text):
    """A text that spells an escape, and every character outside of the basic plane, can be sent."""
    (found,) = asked([{"question": "Why?", "text": text}], None)
    assert found.input["text"] == text
