"""Definitions in code of many languages, and the blocks around them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.offline_text import code_units, defined, definitions, is_code, statements
from tests.unit.providers.offline.code_project import CART, GATEWAY, LOOP

PIECES = [
    "def f(x):",
    "class A:",
    '"""',
    "# c",
    "// c",
    "/*",
    "*/",
    "}",
    "{",
    "x = 1",
    "const a = () => {",
    "'''",
    "é",
    "",
]


def blocks_of(path, text):
    """Return the blocks of a file that was seen as a whole."""
    return list(code_units(path, tuple((number, line, 1) for number, line in enumerate(text.split("\n"), 1))))


@pytest.mark.parametrize(
    ("line", "suffix", "name"),
    [
        ("def retry(self):", ".py", "retry"),
        ("    async def fetch_all(", ".py", "fetch_all"),
        ("class Gateway(Base):", ".py", "Gateway"),
        ("  def self.charge(card)", ".rb", "charge"),
        ("export default async function load() {", ".ts", "load"),
        ("\tprivate async _onRetry(error: Error): Promise<void> {", ".ts", "_onRetry"),
        ("\tget headers(): Headers {", ".ts", "headers"),
        ("const delay: Returns<F, number> = ({", ".ts", "delay"),
        ("export const isOk = (response: Response): boolean => {", ".ts", "isOk"),
        ("View.prototype.lookup = function lookup(name) {", ".js", "lookup"),
        ("getter(req, 'ips', function ips() {", ".js", "ips"),
        ("func (s *Server) Close() error {", ".go", "Close"),
        ("    pub(crate) fn parse<T>(input: T) -> Option<T> {", ".rs", "parse"),
        ("    public static List<String> names(int most) throws IOException {", ".java", "names"),
        ("static int *find_slot(struct table *t, int key) {", ".c", "find_slot"),
    ],
)
def test_a_definition_is_recognized(line, suffix, name):
    """The name is found in the lines that begin a function, a method or a class."""
    assert defined(line, suffix) == name


@pytest.mark.parametrize(
    ("line", "suffix"),
    [
        ("x = retry(3)", ".py"),
        ("    return define(x)", ".py"),
        ("  if (now > then) {", ".js"),
        ("  } else if (ready(x)) {", ".js"),
        ("  return new Map({", ".js"),
        ("  const total = sum(items);", ".js"),
        ("  items.forEach(item => {", ".js"),
        ("def " + "x" * 400, ".py"),
        ("", ".ts"),
    ],
)
def test_other_lines_define_nothing(line, suffix):
    """Calls, conditions and values are not definitions."""
    assert defined(line, suffix) is None


@pytest.mark.parametrize(
    "line", ["    def charge_with_retries(self, payment):", "func (s *S) retryAll() {", "x.onRetry = function () {"]
)
def test_the_pattern_finds_definitions_by_a_part_of_the_name(line):
    """A pattern for words finds the definitions that have one in their name, and no call."""
    assert re.search(definitions(["retry"]), line, re.IGNORECASE)
    assert not re.search(definitions(["retry"]), "    reply = self.retry(payment)", re.IGNORECASE)


@pytest.mark.parametrize(("path", "expected"), [("a/b.py", True), ("B.TSX", True), ("README.md", False), ("x", False)])
def test_code_is_known_by_its_suffix(path, expected):
    """Notes, data and settings are not code."""
    assert is_code(path) is expected


def test_a_body_is_apart_from_its_docstring():
    """The statements of a method are one block, with the names around them and the docstring beside them."""
    block = next(block for block in blocks_of("gateway.py", GATEWAY) if block.text == LOOP)
    assert (block.headings, block.is_comment) == (("Gateway", "charge_with_retries"), False)
    assert block.start == 26
    assert "with the same key" in block.around


def test_a_comment_above_a_function_belongs_to_it():
    """A comment above a function is found with the function."""
    block = next(
        block
        for block in blocks_of("cart.js", CART)
        if block.headings[-1:] == ("expireItems",) and not block.is_comment
    )
    assert "nobody bought" in block.around
    assert "visitor" not in block.around


def test_a_method_is_not_assumed_to_go_on_for_ever():
    """A line far below a method belongs to the class at most, since the lines between them are unknown."""
    lines = [(1, "class A:", 1), (2, "    def near(self):", 1), (200, "        far()", 2)]
    assert [block.headings[-1] for block in code_units("a.py", tuple(lines))] == ["A", "near", "A"]


def test_only_a_definition_that_was_not_read_is_unread():
    """A definition of which only the first line was seen is unread; one with its body is not."""
    unread, *_ = code_units("a.py", ((7, "def f():", 1),))
    read, *_ = code_units("a.py", ((7, "def f():", 1), (8, "    return 1", 1)))
    assert (unread.is_unread, read.is_unread) == (True, False)


def test_statements_of_the_program_rank_above_comments_and_tests():
    """The form of a block counts: statements, then comments; the program, then its tests."""
    text = "def f(x):\n    # comment\n    if x:\n        return g(x)\n"
    comment, statements = blocks_of("src/a.py", text)[1:]
    tested = blocks_of("tests/test_a.py", text)[-1]
    assert statements.form > comment.form
    assert statements.form > tested.form


def test_a_piece_that_begins_inside_a_statement_is_rated_lower():
    """A quote should not begin in the middle of a list of arguments."""
    assert statements("limit=3,\n    pause=1,\n)\nreturn run()") < statements("pause = 1\nreturn run()")


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["", "    ", "\t"]), st.sampled_from(PIECES), st.integers(0, 1))
    )
)
def test_blocks_are_verbatim_lines_of_one_result(pieces):
    """Each block consists of consecutive, unchanged lines of one result, whichever parts of a file were seen."""
    number, lines = 0, []
    for step, indent, text, origin in pieces:
        number += step
        lines.append((number, indent + text, origin))
    known = {line: (text, origin) for line, text, origin in lines}
    for block in code_units("a.ts", tuple(lines)):
        for at, text in enumerate(block.text.split("\n"), block.line):
            assert known[at] == (text, known[block.line][1])
