"""The answer on a terminal: rendered, with its evidence and gaps; in a pipe it stays as it is."""

import re

import pytest

from run_specialist.cli.answer import NOT_FOUND
from tests.screen import run_on_terminal, screen
from tests.terminal import harm
from tests.wire.simulator.replies import answers, says, tool_use

ANSWER = """\
# Owls

Owls eat **three mice** a night, as `notes/owls.md:3` says; see [the notes](https://example.com/owls) and
[more](javascript:alert(1)). A sentence that is long enough to be wrapped on every terminal of this test, on \
wide ones too, where prose is kept in a column of a hundred characters so that it can be read.

```
eat(mice)
```

| animal | eats |
|---|---|
| owl | mice, which it finds at night by their noises |

1. by night
2. by day, but rarely, and only when there is nothing else to be found anywhere near
"""
EVIDENCE = [
    {"source": "notes/owls.md:3", "quote": "Owls eat mice at night."},
    {"source": "notes/owls.md:9", "quote": "Owls eat cheese, and they have never been seen to eat anything but that."},
]
LINK = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\")
ESCAPE = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def asked(api, write, notes):
    """Return a function that asks a question on a terminal; the model reads, says a sentence, and answers."""
    write("finder")

    def ask(*flags, answer=ANSWER, gaps=("what toads eat",), **terminal):
        api(
            [
                says("Let me look.", tool_use("search", {"query": "owls"})),
                answers(answer, evidence=EVIDENCE, gaps=[*gaps]),
            ]
        )
        command = ["run-specialist", "finder", "What do owls eat?", "--store", "none", *flags]
        return run_on_terminal(command, **terminal)

    return ask


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_answer_is_rendered_and_wrapped(asked, columns):
    """The screen shows the answer once, then the evidence with its marks, the gaps, and the notes, broken at spaces."""
    written, _, code = asked(columns=columns)
    lines = screen(written, columns)
    text = " ".join(" ".join(lines).split())
    assert code == 0
    assert [line for line in lines if len(line) > columns] == []
    assert not any(raw in text for raw in ("**", "```", "|---|", "# Owls"))
    assert text.count("three mice") == text.count("eat(mice)") == text.count("what toads eat") == 1
    parts = ["finder ·", "Owls", "three mice", "1. by night", "Evidence", "✓ notes/owls.md:3", "✗ notes/owls.md:9"]
    places = [text.index(part) for part in [*parts, NOT_FOUND, "Gaps", "• what toads eat", "run-specialist: answered"]]
    assert places == sorted(places)
    assert "in a column of a hundred characters so that it can be read." in text
    assert "    Owls eat mice at night." in lines
    assert max(len(line) for line in lines if "anything" in line or "hundred" in line) <= 100
    assert harm(LINK.sub("", written)) == []


def test_a_warning_about_a_quote_is_not_repeated_below_its_mark(asked):
    """Where the evidence marks a quote as not found, the note about it is omitted; it is printed everywhere else."""
    written, _, _ = asked()
    assert "run-specialist: answered ·" in written
    assert "warning: quote not found" not in written
    _, piped, _ = asked(outputs="out")
    assert "warning: quote not found" in piped


def test_raw_prints_the_answer_as_it_is(asked):
    """`--raw` prints the Markdown and nothing else to standard output; it needs an answer as text."""
    written, piped, code = asked("--raw", outputs="out")
    assert (written.replace("\r\n", "\n"), code) == (f"{ANSWER}\n", 0)
    assert "answered" in piped
    for other in ("--json", "--events"):
        assert run_on_terminal(["run-specialist", "finder", "x", "--raw", other])[2] == 2


@pytest.mark.exhaustive
def test_a_pipe_gets_the_answer_as_it_is(asked):
    """If only standard error is a terminal, the pipe has the raw answer, and the terminal shows no evidence."""
    written, piped, _ = asked(outputs="err")
    assert piped == f"{ANSWER}\n"
    assert "✓" not in written


@pytest.mark.exhaustive
def test_quiet_prints_only_the_answer(asked):
    """`--quiet` renders the answer without evidence, gaps and notes."""
    written, piped, _ = asked("--quiet", outputs="out")
    assert ("three mice" in written, "Evidence" in written, "Gaps" in written, piped) == (True, False, False, "")


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_styles_nothing_is_escaped(asked, environment):
    """With NO_COLOR or on a dumb terminal no escape sequence is printed; code and headings keep their marks."""
    written, _, _ = asked(outputs="out", **environment)
    assert "\x1b" not in written
    assert "`notes/owls.md:3`" in written
    assert "# Owls\r\n" in written
    assert "✓ notes/owls.md:3" in written


@pytest.mark.exhaustive
def test_without_unicode_the_marks_are_ascii(asked):
    """In an encoding without the marks, they are ASCII, and no escape of a character is printed."""
    written, _, _ = asked(outputs="out", PYTHONIOENCODING="ascii")
    assert written.isascii()
    assert "\\u" not in written
    plain = ESCAPE.sub("", written)
    assert "+ notes/owls.md:3" in plain
    assert "x notes/owls.md:9" in plain
    assert "- what toads eat" in plain


def test_quotes_of_an_offline_answer_are_shown_once(write, notes):
    """Offline, the answer consists of quotes: evidence on a terminal, separated by blank lines in a pipe."""
    write("finder")
    command = ["run-specialist", "finder", "What do owls eat at night?", "--model", "offline", "--store", "none"]
    written, _, _ = run_on_terminal(command)
    assert "\n".join(screen(written, 80)).count("Owls eat mice at night.") == 1
    _, piped, _ = run_on_terminal(command, outputs="err")
    blocks = piped.rstrip("\n").split("\n\n")
    assert len(blocks) > 1
    assert all(block.startswith('> "') for block in blocks[1:])


def test_structured_and_salvaged_answers_are_no_markdown(api, write, notes):
    """JSON and the results of a salvaged answer keep their characters; the results are not quoted again."""
    write(
        "shaped",
        "output_schema: {type: object, properties: {a: {type: string}}, required: [a], additionalProperties: false}",
    )
    write("cut", "landing: stop", "tool_calls_limit: 1")
    (notes / "notes" / "stars.md").write_text("# Stars\n\n**Stars** shine.\n")
    api([answers({"a": "*x*"}), says(tool_use("read", {"path": "notes/stars.md"}))])
    written, _, _ = run_on_terminal(["run-specialist", "shaped", "What?", "--store", "none"], outputs="out")
    assert written.splitlines() == ["{", '  "a": "*x*"', "}"]
    written, _, _ = run_on_terminal(["run-specialist", "cut", "What?", "--store", "none"], outputs="out")
    assert written.count("**Stars** shine.") == 1
