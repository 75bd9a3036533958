"""Random and malicious files load without a crash."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.specialist.loader import SpecialistFile, load_text
from run_specialist.specialist.problems import MAX_PROBLEMS

PATH = Path("agent.md")
HEAD = "name: agent\ndescription: d\n"
# fmt: off
PIECES = st.sampled_from([
    "---", "...", "\n", "\n\n", "\t", "  ", " ", ":", ": ", "- ", "#", "# ", "!", "&", "*", "[", "]", "{", "}",
    "(", ")",
    '"', "'", "|", ">", "?", ",", "%", "@", "`", "<<", "\\n", "\ufeff", "\u00a0", "\0", "\u2028", "\x85", "\x1b", "é",
    "\r",
    "name:", "description:", "tools:", "model:", "tool_calls_limit:", "countdown:", "from:", "paths:", "agents:",
    "<example>", "</example>", "<!--", "-->", "&a ", "*a", "!!int ", "none", "30", "Read", "word",
])
# fmt: on


def check(file: SpecialistFile, data: bytes | str) -> None:
    """Assert what holds for every loaded file."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    lines = text.count("\n") + text.count("\r") + text.count("\x0a\x00") + 1
    assert file.name
    assert file.description
    assert (file.specialist is None) == (file.status == "error")
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in file.problems)
    assert all(str(problem).isprintable() for problem in file.problems)


@given(st.binary())
@example(b"\xff\xfe-\x00-\x00-\x00\n\x00")
def test_any_bytes_load(data: bytes) -> None:
    """Any bytes load as a listed file whose problems lie within it."""
    check(load_text(data, PATH), data.replace(b"\0", b""))


@given(st.lists(PIECES, max_size=40), st.booleans())
def test_any_mix_of_syntax_loads(pieces: list[str], fenced: bool) -> None:
    """Any mix of YAML syntax and supported keys loads without a crash."""
    text = "".join(pieces)
    text = f"---\n{text}\n---\nBody" if fenced else text
    check(load_text(text, PATH), text)


@pytest.mark.parametrize(
    "front",
    [
        "output_schema: " + "[" * 100_000,
        "output_schema: " + "{a: " * 20_000,
        "- " * 50_000,
        "? " * 50_000,
        "a:\n" + "".join(" " * depth + "a:\n" for depth in range(1, 400)),
        HEAD + "k: v\n" * 200_000,
        HEAD + "".join(f"k{i}: v\n" for i in range(100_000)),
        "name: agent\ndescription: " + "d " * 500_000,
        "name: agent\ndescription: a: " + '"' * 1_000_000,
        "name: agent\ndescription: a: b\n" + "<example>\n" * 100_000,
        HEAD + "tools: [" + "(, " * 10_000 + "]",
        HEAD + "tools: " + "(" * 100_000,
        HEAD + "x: " + "&a " * 1_000,
        HEAD + "\n" * 1_000_000,
        " " * 1_000_000,
        "<!--" * 100_000,
        "!<" + "x" * 100_000,
        '"' + "\\u0041" * 100_000,
        'x: "\\UFFFFFFFF"',
    ],
    ids=lambda front: front[:20],
)
def test_large_and_deep_files_load(front: str) -> None:
    """Very large or deeply nested files are listed with problems and never crash the interpreter."""
    for text in (f"---\n{front}\n---\nBody", f"---\n{front}", front):
        file = load_text(text, PATH)
        check(file, text)
        assert len(file.problems) <= MAX_PROBLEMS + 10


def test_alias_bombs_do_not_grow() -> None:
    """Aliases that would expand to millions of values are an error where they are used."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    file = load_text(f"---\n{HEAD}{bomb}output_schema: {{a: *h}}\n---\nBody", PATH)
    assert [(p.key, p.level) for p in file.problems if p.level == "error"] == [("output_schema", "error")]


def test_deep_chains_of_aliases_are_an_error() -> None:
    """A chain of aliases counts as deep as its expansion, so a chain that is too deep is an error."""
    chain = "k0: &a0 [x]\n" + "".join(f"k{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))
    file = load_text(f"---\n{HEAD}{chain}output_schema: {{a: *a2999}}\n---\nBody", PATH)
    assert file.status == "error"


def test_tags_construct_nothing() -> None:
    """A YAML tag that would run code in an unsafe loader is ignored."""
    file = load_text(f"---\n{HEAD}tools: !!python/object/apply:os.abort [Read]\n---\nBody", PATH)
    assert file.tools == ("Read",)


def test_keys_that_are_not_text_are_reported() -> None:
    """Numbers, null, lists and merge keys used as keys are reported and have no effect."""
    file = load_text(f"---\n{HEAD}1: x\nnull: y\n? [a]\n: z\n<<: {{model: opus}}\n---\nBody", PATH)
    assert (file.name, file.model, file.status) == ("agent", None, "warning")
    assert [problem.line for problem in file.problems] == [4, 5, 6, 8]


def test_a_suggested_name_is_printable() -> None:
    """Unprintable characters in a suggested name are escaped, because the name may come from the file itself."""
    file = load_text('---\nname: a\ndescription: d\ntools: lookk\npython_tools: ["m:loo\\u2028\\ek"]\n---\nb', PATH)
    (problem,) = (problem for problem in file.problems if problem.key == "tools")
    assert r"did you mean loo\u2028\x1bk?" in problem.text


def test_suggestions_are_limited_to_the_first_names() -> None:
    """Suggestions are made only for the first few names, because comparing all would take minutes."""
    names, functions = (", ".join(f"{kind}{number}x" for number in range(3_000)) for kind in ("saer", "m:sear"))
    file = load_text(
        f"---\nname: a\ndescription: d\ntools: [serach, {names}]\npython_tools: [{functions}]\n---\nb", PATH
    )
    (problem,) = (problem for problem in file.problems if problem.key == "tools")
    assert "did you mean search and sear0x" in problem.text
