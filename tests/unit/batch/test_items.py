"""Items from files, tables, JSON and standard input; their keys, their questions, and what is refused."""

import csv
import hashlib
import io
import json
import os
import re
import sys
import threading
from types import MappingProxyType

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from run_specialist.batch.item import InputRecord
from run_specialist.batch.questions import LONGEST_QUESTION, Template, asked, check
from run_specialist.batch.read_items import LONGEST_LINE, csv_items, decoded_lines, files_source, source_of
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import INPUTS, JSON, TEXTS, inputs_in, items_in

FILES = {
    "README.md": "read me",
    "docs/a.md": "a",
    "docs/B.md": "b",
    "docs/deep/c.md": "c",
    "docs/deep/d.txt": "d",
    "build/e.md": "e",
    ".env": "KEY=x",
    ".gitignore": "build/\n",
    ".git/f.md": "f",
}


def error_of(call, *given):
    """Return the text of the UsageError that a call raises, which is one line."""
    with pytest.raises(UsageError) as raised:
        call(*given)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def root(tmp_path):
    """A project with files that are ignored, secret and linked."""
    top = tmp_path / "project"
    for name, text in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "g.md").write_text("g")
    (top / "docs" / "linked").symlink_to(tmp_path / "outside")
    (top / "docs" / "link.md").symlink_to(tmp_path / "outside" / "g.md")
    return top


def paths(root, pattern, only=()):
    """Return the paths of the files that match."""
    return [given.input["path"] for given in files_source(pattern, root, only).read()]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("docs/**/*.md", ["docs/B.md", "docs/a.md", "docs/deep/c.md"]),
        ("/docs/*.md", ["docs/B.md", "docs/a.md"]),
        ("*.md", ["README.md", "docs/B.md", "docs/a.md", "docs/deep/c.md"]),
        ("docs/deep", ["docs/deep/c.md", "docs/deep/d.txt"]),
        ("docs/{a,B}.md", ["docs/B.md", "docs/a.md"]),
        ("{docs,build}/deep/*.txt", ["docs/deep/d.txt"]),
    ],
)
def test_files_are_sorted_and_confined(root, pattern, expected):
    """Links are not followed, and ignored, secret and git's files are left out."""
    assert paths(root, pattern) == expected


@pytest.mark.parametrize(
    "pattern", ["build/*.md", ".env", ".git/*", "docs/linked/*.md", "docs/link.md", "/etc/*", "nothing*"]
)
def test_no_file_is_an_error(root, pattern):
    """A pattern that only matches what is left out says so."""
    with pytest.raises(UsageError, match=r"no file below .* ignored, secret and linked files are left out"):
        files_source(pattern, root)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("../*.md", "leads out of the folder"), ("", "is empty"), ("/", "is empty"), ("*" * 40, "too many wildcards")],
)
def test_invalid_patterns(root, pattern, reason):
    """The error is that of the pattern."""
    with pytest.raises(UsageError, match=reason):
        files_source(pattern, root)


def test_the_fields_of_a_file(root):
    """The path is relative to the root, and its content is only in the key."""
    (given,) = files_source("docs/deep/d.txt", root).read()
    assert given.input == {"path": "docs/deep/d.txt", "name": "d.txt", "stem": "d"}
    assert (given.where, given.content) == ("docs/deep/d.txt", hashlib.sha256(b"d").hexdigest())


def test_a_changed_file_is_a_new_item(root):
    """The key depends on the content, the question does not."""

    def items():
        return [*asked(files_source("docs/*.md", root).read(), Template("What does {path} say?"))]

    before = items()
    (root / "docs" / "a.md").write_text("changed")
    after = items()
    assert [item.question for item in before] == [item.question for item in after]
    same = [one.key == other.key for one, other in zip(before, after, strict=True)]
    assert same == [True, False]


@pytest.mark.parametrize(("name", "shown"), [("a\nb.md", r"a\nb.md"), (os.fsdecode(b"\xe9.md"), r"\xe9.md")])
def test_strange_names_are_escaped_as_in_the_file_tools(root, name, shown):
    """The specialist can read a file by the name in the question."""
    (root / "docs" / "new").mkdir()
    (root / "docs" / "new" / name).write_text("x")
    assert paths(root, "docs/new/*") == [f"docs/new/{shown}"]


def test_the_paths_of_a_specialist_restrict_the_files(root):
    """It could not read the others."""
    assert paths(root, "*.md", ["docs/deep"]) == ["docs/deep/c.md"]


RECORDS = st.builds(InputRecord, INPUTS, st.sampled_from(["", "f:1", "f:2"]), st.sampled_from(["", "d1", "d2"]))
FEW = st.builds(InputRecord, st.sampled_from(["a", "b", {"a": 1}]))
WHY = Template("Why?")


def keys(records, template=WHY) -> list[str]:
    """Return the key of each item."""
    return [item.key for item in asked(records, template)]


def test_keys_do_not_change_with_the_version():
    """Stored runs have them in their ids."""
    assert keys([InputRecord("a"), InputRecord("a")]) == ["e4765deba111adad", "b38a3b1484829b78"]
    assert keys([InputRecord({"b": 1, "a": "ü"}, "f:3", "digest")], Template("How?")) == ["84c22b4b3960db29"]


@given(st.lists(RECORDS | FEW, max_size=8), st.randoms(use_true_random=False))
def test_keys_are_stable_and_unique(records, random):
    """The same items have the same keys in each call and in any order, and no two items of a call have the same one."""
    items = [*asked(records, WHY)]
    assert [(one.number, one.input) for one in items] == [(n, one.input) for n, one in enumerate(records, 1)]
    found = keys(records)
    assert len({*found}) == len(found)
    shuffled = [*records]
    random.shuffle(shuffled)
    assert {*keys(shuffled)} == {*found}


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
    assert reason in error_of(Template, template)


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
    assert reason in error_of(Template(template).fill, given, "f:7")


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


AB = [{"a": "1", "b": "2"}]


def read(text: str, delimiter: str | None = None) -> list[InputRecord]:
    """Read the items of a text."""
    return [*csv_items(decoded_lines(io.BytesIO(text.encode()), "f.csv"), "f.csv", delimiter)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", AB),
        ("a;b\n1;2\n", AB),
        ("\ufeffa,b\n1,2", AB),
        ("sep=;\na;b\n1;2\n", AB),
        ("a,b\n\n1,2\n\n,\n \n", AB),
        ("a,b\nx; y,z; w\n", [{"a": "x; y", "b": "z; w"}]),
        ('a,b\n"x\r\ny","say ""no"""\n', [{"a": "x\r\ny", "b": 'say "no"'}]),
        ('question\n"Why, then?"\n', [{"question": "Why, then?"}]),
        (",a\n0,x\n", [{"column 1": "0", "a": "x"}]),
        ("", []),
    ],
)
def test_tables(text, expected):
    """The delimiter is found, quotes are resolved, and empty rows are skipped."""
    assert [one.input for one in read(text)] == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "a,b\n1,2\n1,2,3\n",
            "f.csv:3 has 3 values, but the header has 2 (a, b); add the missing ones, or quote values that contain ','",
        ),
        ("a\tb\n1\n", "f.csv:2 has 1 value, but the header has 2 (a, b); add the missing ones, or quote"),
        ("a,b, a \n1,2,3\n", "f.csv:1: the header has the column 'a' more than once"),
        ('a,b\n1,2\n"1,2\n3,4\n', "f.csv:3: a quoted value that begins in this row does not end"),
        ("a,b\r1,2\r", "f.csv:1: new-line character"),
    ],
)
def test_a_broken_table_is_named(text, reason):
    """The error has the file, the line and the way out, on one line."""
    assert reason in error_of(read, text)


def test_a_tsv_file_has_tabs_only(tmp_path):
    """The suffix decides: commas are text."""
    assert inputs_in(tmp_path, "a.tsv", "a,b\n1,2\n") == [{"a,b": "1,2"}]
    assert inputs_in(tmp_path, "a.txt", "a\tb\n1\t2\n", "csv") == AB


@pytest.mark.exhaustive
def test_a_quote_that_never_ends_does_not_read_the_whole_file(tmp_path):
    """The error comes from the row that begins with it, after a limited part of the file."""
    with pytest.raises(UsageError, match=r"a\.csv:2: a quoted value that begins in this row does not end"):
        items_in(tmp_path, "a.csv", 'a,b\n"1,2\n' + ("x" * 999 + "\n") * 15_000)


HEADERS = st.lists(TEXTS.map(str.strip).filter(bool), min_size=1, max_size=4, unique=True)


@given(HEADERS, st.data(), st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["\n", "\r\n"]))
def test_written_tables_read_back(header, data, delimiter, ending):
    """What Python's csv module writes is read unchanged."""
    assume(not header[0].lower().startswith(("sep=", '"sep=')))
    rows = data.draw(st.lists(st.tuples(*[TEXTS] * len(header)).filter(lambda row: any(map(str.strip, row)))))
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    assert [one.input for one in read(out.getvalue(), delimiter)] == [
        dict(zip(header, row, strict=True)) for row in rows
    ]


def test_each_line_is_an_item_with_its_place(tmp_path):
    """Objects and strings are items; empty lines are skipped, but counted for the place."""
    found = items_in(tmp_path, "a.jsonl", '{"path": "x"}\r\n\n  "a text"  \n{"n": 1}')
    path = tmp_path / "a.jsonl"
    assert found == [
        InputRecord({"path": "x"}, f"{path}:1"),
        InputRecord("a text", f"{path}:3"),
        InputRecord({"n": 1}, f"{path}:4"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "\"first\"\n{'a': 1}\n",
            "a.jsonl:2 is not valid JSON: Expecting property name enclosed in double quotes at char",
        ),
        ('"first"\n' + "[" * 100_000, "a.jsonl:2 is not valid JSON: nested too deeply"),
        ('{"a": 1}', "a.json is not a JSON array; give the format `jsonl`"),
        ('[\n"a"\n"b"]', "a.json:3 is not valid JSON: Expecting ',' delimiter"),
        ('"a"\n"b"\n', "a.json:2 is not valid JSON: Extra data at character 1; give the format `jsonl`"),
        ("[" * 100_000, "a.json is not valid JSON: nested too deeply"),
    ],
)
def test_invalid_json_is_named(tmp_path, text, reason):
    """The error has the file, the line if there is one, and the reason, on one line."""
    assert reason in error_of(items_in, tmp_path, re.match(r"[.a-z]+", reason)[0], text)


def feed(monkeypatch, content: bytes) -> None:
    """Replace standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_each_line_is_a_text(tmp_path):
    """White space around a line and empty lines are removed; other characters are not."""
    text = "\ufeffone\r\n\n  two {three} \u2028 four\t\n# five"
    assert inputs_in(tmp_path, "a.txt", text) == ["one", "two {three} \u2028 four", "# five"]
    assert items_in(tmp_path, "items", "x\n\ny")[1].where == f"{tmp_path}/items:3"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b'{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]), (b'"a"\n{"a": 1}\n', ['"a"', '{"a": 1}']), (b"", [])],
)
def test_standard_input_is_json_if_its_first_line_is_an_object(monkeypatch, content, expected):
    """Otherwise each line is a text."""
    feed(monkeypatch, content)
    source = source_of("-")
    assert not source.is_repeatable
    assert [one.input for one in source.read()] == expected


def test_the_format_of_standard_input_can_be_given(monkeypatch):
    """CSV from a pipe; its places name standard input."""
    feed(monkeypatch, b"a;b\n1;2\n")
    (found,) = source_of("-", "csv").read()
    assert (found.input, found.where) == ({"a": "1", "b": "2"}, "standard input:2")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("é\n".encode("latin-1"), r"a\.txt:2: byte 1 of the line is not UTF-8 \(Latin-1 perhaps\?\)"),
        (b"a\0b\n", r"a\.txt:2: contains a NUL"),
        ("x".encode("utf-16"), r"a\.txt:2: contains a NUL"),
        (b"x" * (LONGEST_LINE + 1), r"a\.txt:2: the line is longer than 10 MiB"),
    ],
)
def test_a_line_that_is_no_text_is_named(tmp_path, content, reason):
    """The error has the file, the line and the way out."""
    with pytest.raises(UsageError, match=reason):
        items_in(tmp_path, "a.txt", b"fine\n" + content)


def test_items_are_read_one_by_one(tmp_path):
    """The first item is there before the input ends."""
    os.mkfifo(tmp_path / "pipe")
    source = source_of(str(tmp_path / "pipe"))
    assert not source.is_repeatable
    release = threading.Event()

    def write():
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            pipe.write(b"one\n")
            release.wait(60)
            pipe.write(b"two\n")

    writer = threading.Thread(target=write)
    writer.start()
    items = source.read()
    assert next(items).input == "one"
    release.set()
    assert next(items).input == "two"
    assert next(items, None) is None
    writer.join()


TEMPLATE = Template("Why {a}?")


def checked(folder, content, name="a.jsonl", template=TEMPLATE):
    """Write a file of items and check it."""
    (folder / name).write_text(content)
    return check(source_of(str(folder / name)), template)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ('{"b": 1}', r"2 has no field 'a'"),
        ("7", r"2 must be an object or a string, got int"),
        ("{\n3", r"2 is not valid JSON"),
        ('{"a": "x\\u0000"}', r"2 contains a NUL character"),
    ],
)
def test_the_first_bad_item_is_named(tmp_path, rest, reason):
    """With its place, in one line."""
    with pytest.raises(UsageError, match=rf"^[^ ]*a\.jsonl:{reason}"):
        checked(tmp_path, f'{{"a": 1}}\n{rest}\n')


def test_a_question_without_a_field_is_an_error(tmp_path):
    """It would be paid once for every item."""
    with pytest.raises(UsageError, match=r"the question 'Why\?' names no field, .* braces into it: b, c$"):
        checked(tmp_path, "b,c\n1,2\n", "a.csv", Template("Why?"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_no_items_is_an_error(tmp_path, name):
    """An empty file."""
    with pytest.raises(UsageError, match=rf"{name} has no items"):
        checked(tmp_path, "\n\n", name)
