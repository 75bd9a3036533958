"""The answer on a terminal: rendered, with its evidence and gaps; in a pipe it stays as it is."""

import io
import json
import re
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from run_specialist.cli.answer import NOT_FOUND, apart, evidence_block, gaps_block, markdown
from run_specialist.record.outcome import Evidence
from run_specialist.views.markdown import MOST_CHARACTERS, without_quotes
from tests.plugins.tiers import examples
from tests.screen import MAINS, run_on_terminal, screen
from tests.stderr_lines import lines_before_summary
from tests.terminal import POISON, harm
from tests.wire.simulator import faults
from tests.wire.simulator.replies import answers, calls, says, tool_use

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
LINK = re.compile(r"\x1b\]8;(?:id=\d+)?;([^\x1b]*)\x1b\\")


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("columns", [40, 200])
def test_the_answer_is_rendered_and_wrapped(asked, columns):
    """The screen shows the answer once, the evidence with its marks (not warned of again), the gaps, and the notes."""
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
    assert "warning: quote not found" not in text
    assert harm(LINK.sub("", written)) == []


def test_raw_prints_the_answer_as_it_is(asked):
    """`--raw` prints the Markdown alone and needs an answer as text; `--quiet` renders it without anything else."""
    written, piped, _ = asked("--quiet", outputs="out")
    assert ("three mice" in written, "Evidence" in written, "Gaps" in written, piped) == (True, False, False, "")
    written, piped, code = asked("--raw", outputs="out")
    assert (written.replace("\r\n", "\n"), code) == (f"{ANSWER}\n", 0)
    assert "answered" in piped
    for other in ("--json", "--events"):
        assert run_on_terminal(["run-specialist", "finder", "x", "--raw", other])[2] == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_styles_nothing_is_escaped(asked, environment):
    """With NO_COLOR or on a dumb terminal nothing is escaped; marks stay, and a pipe gets the warning about a quote."""
    written, piped, _ = asked(outputs="out", **environment)
    assert "warning: quote not found" in piped
    assert "\x1b" not in written
    assert "`notes/owls.md:3`" in written
    assert "# Owls\r\n" in written
    assert "✓ notes/owls.md:3" in written


@pytest.mark.exhaustive
def test_without_unicode_the_marks_are_ascii(asked, monkeypatch):
    """In an encoding without the marks, they are ASCII, and no escape of a character is printed."""
    main = MAINS["run-specialist"]
    monkeypatch.setitem(MAINS, "run-specialist", f"import sys; sys.stdout.reconfigure(encoding='ascii'); {main}")
    written, _, _ = asked(outputs="out")
    assert written.isascii()
    assert "\\u" not in written
    shown = "\n".join(screen(written, 80))
    assert all(line in shown for line in ("+ notes/owls.md:3", "x notes/owls.md:9", "- what toads eat"))


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000]")
"""Special spaces and joiners, which are harmless."""
PIECES = st.sampled_from([
    POISON, "\x1b[31m", "&#27;[2J", "&#x202e;", "&#x9b;1m", "&#12;", "\u202e", "[x](javascript:alert(1))",
    "<a>", "](", "[", "`", "```\n", "**", "*", "> ", "- ", "1. ", "\n", "\n\n", "# ", "~~", "    x", "\t", "===\n",
    "|a|b|\n|-|:-:|\n|c|d|\n", "![i](data:x)", "<https://e.org/\x1b>", "[a](http://e.org/%1b\x1b]8;;x)",
    "[bold red]x[/]", ":smile:", "[link=file:///etc/passwd]x[/link]",
])  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=25).map("".join)


def shown(renderable, width=60, *, color=True):
    """Return what a console writes for a renderable."""
    paper = io.StringIO()
    system = "standard" if color else None
    Console(file=paper, width=width, color_system=system, force_terminal=color, legacy_windows=False).print(renderable)
    return paper.getvalue()


def plain(text, width=60):
    """Return the lines of a Markdown text without styles."""
    return [line.rstrip() for line in shown(markdown(text), width, color=False).splitlines()]


def colored(text, width=60):
    """Return a Markdown text with styles."""
    with patch("run_specialist.cli.console.has_colours", return_value=True):
        return shown(markdown(text), width)


@settings(max_examples=examples(60))
@given(TEXTS, st.integers(1, 120), st.booleans())
@example("[good](http://e.org/\x1b\\\x1b]8;;file:///etc\x1b\\)", 40, True)
def test_nothing_in_a_text_controls_the_terminal(text, width, styled):
    """No control character, no foreign escape sequence, no reversed text, and only web and mail links."""
    with patch("run_specialist.cli.console.has_colours", return_value=styled):
        evidence = evidence_block([Evidence(text, text, found) for found in (True, False, None)])
        parts = [markdown(text), *evidence, *gaps_block([text])]
    written = shown(apart(parts), width, color=styled)
    targets = [target for target in LINK.findall(written) if target]
    assert all(re.fullmatch(r"(https?://|mailto:)[!-~]+", target, re.IGNORECASE) for target in targets)
    assert harm(SPACES.sub(" ", LINK.sub("", written))) == []
    assert styled or "\x1b" not in written


@settings(max_examples=examples(60))
@given(st.text(st.characters(categories=("L", "N")), min_size=1, max_size=30), st.integers(8, 100))
def test_words_are_kept(word, width):
    """Ordinary words reach the screen unchanged and in order, on every width."""
    lines = plain(f"{word} **{word}** - {word}\n\n> {word}\n\n- {word}", width)
    assert "".join("".join(lines).split()).count(word) >= 5 or cell_len(word) > width - 4


def test_links_show_their_address_and_nothing_is_lost():
    """Links show an address, cut if it cannot be opened; emphasis has a style; what cannot be parsed is unrendered."""
    assert colored("**a** *b* ~~c~~ `d`") == "\x1b[1ma\x1b[0m \x1b[3mb\x1b[0m \x1b[9mc\x1b[0m \x1b[36md\x1b[0m\n"
    text = (
        "[a](https://e.org) [b](file:///etc/passwd) [c](src/x.py) <d@e.org> ![i](https://e.org/i.png) <https://f.org>"
    )
    written = colored(text, 200)
    assert [target for target in LINK.findall(written) if target] == [
        "https://e.org", "mailto:d@e.org", "https://e.org/i.png", "https://f.org",
    ]  # fmt: skip
    assert plain(text, 200) == [
        "a (https://e.org) b (file:///etc/passwd) c (src/x.py) d@e.org i (https://e.org/i.png) https://f.org"
    ]
    assert len("".join(plain(f"![i](data:image/png;base64,{'A' * 5_000})"))) < 210
    assert plain("**a** " + "x" * MOST_CHARACTERS)[0].startswith("**a**")
    for depth in range(1, 60):
        assert "kept" in "".join("".join(plain("> " * depth + "kept", 200)).split())
        assert "kept" in "".join("".join(plain("- " * depth + "kept", 200)).split())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("## Head\ntext", ["## Head", "", "text"]),
        ("one:\ntwo", ["one:", "two"]),
        (f"{'word ' * 13}\nnext", [("word " * 12).strip()[:59], "word next"]),
        ("- a\n- b\n  - c", ["• a", "• b", "  • c"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("9. a\n10. b", [" 9. a", "10. b"]),
        ("> a\n>\n> b", ["│ a", "│", "│ b"]),
        ("```py\nx = [1]\n\n  y\n```", ["    x = [1]", "", "      y"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 60, "", "b"]),
        ("|a|b|\n|-|-:|\n|x|10|\n|y|2|", ["a    b", "──────", "x   10", "y    2"]),
        ("|a|\n|-|", ["a", "─"]),
        ("[red]x[/] :smile:", ["[red]x[/] :smile:"]),
        ("A List<int>.\n\n<div>\ny\n</div>", ["A List<int>.", "", "<div>", "y", "</div>"]),
        ("", []),
    ],
)  # fmt: skip
def test_each_element_has_its_form(text, lines):
    """Without styles, marks, indentation and blank lines distinguish the elements."""
    assert plain(text) == lines


LOOK = calls("search", {"query": "owls"})


def paragraphs(request):
    """Return the paragraphs of a request's system prompt."""
    (block,) = request.body["system"]
    return block["text"].split("\n\n")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "answer", ["Owls eat mice.", "one\n\n  two\t\n# three", "  set in  ", "naïve – ✓ 猫", '{"a": [1]}', "x" * 70_000]
)
def test_s0_6_stdout_is_exactly_the_answer(api, write, call, answer):
    """Stdout is the answer, byte for byte, and a newline, and nothing else."""
    write("finder")
    api([LOOK, answers(answer, gaps=["what toads eat"])])
    result = call("finder", "What do owls eat?")
    assert (result.exit_code, result.stdout) == (0, f"{answer}\n")
    assert lines_before_summary(result.stderr) == []


def test_s0_9_a_bad_file_is_named_and_the_others_still_run(api, write, call):
    """Each error is `file:line:column: key: reason` with exit code 2; no request is sent, and valid files still run."""
    path = write("bad", "tool_calls_limit: twelve", "cost_limit: $5")
    write("finder")
    simulator = api([answers("yes")])
    result = call("bad", "What?")
    assert (result.exit_code, result.stdout, simulator.requests) == (2, "", [])
    assert f"{path}:4:19: tool_calls_limit: must be an integer of at least 0, or none, got twelve\n" in result.stderr
    assert f"{path}:5:13: cost_limit: must be an amount in USD of at least 0, or none, got $5\n" in result.stderr
    assert call("finder", "What?").stdout == "yes\n"


def test_root_limits_the_file_tools(api, write, call, tmp_path):
    """With `--root`, the tools see only that folder; `-` is standard input, in which invalid UTF-8 is replaced."""
    write("finder")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bats.md").write_text("Bats eat moths.\n")
    simulator = api([calls("glob", {"pattern": "*.md"}), answers("yes")])
    call("finder", "-", "--root", str(tmp_path / "other"), input="naïve – ✓\n".encode() + b"caf\xe9 \xff")
    question = "naïve – ✓\ncaf\ufffd \ufffd"
    assert simulator.requests[0].messages[0]["content"] == [{"type": "text", "text": question}]
    assert list(simulator.requests[1].results.values()) == ["bats.md"]


def test_x_12_a_failed_or_stopped_run_prints_the_gathered_evidence(api, write, call):
    """With `--landing stop` without another request and exit code 0; if the API fails, 3; one line has the reason."""
    write("finder", "tool_calls_limit: 1")
    simulator = api([LOOK])
    result = call("finder", "What?", "--landing", "stop")
    assert (result.exit_code, len(simulator.requests)) == (0, 1)
    assert "Owls eat mice at night." in result.stdout
    (line,) = result.stderr.splitlines()
    assert "partial: " in line
    assert "no answer at the limit of 1 tool call; raise tool_calls_limit to continue" in line
    write("finder")
    api([LOOK, faults.unauthorised()])
    result = call("finder", "What?")
    assert result.exit_code == 3
    assert "Owls eat mice at night." in result.stdout
    assert result.stdout.startswith("[No finished answer: the API answered 401")
    assert len(result.stderr.splitlines()) == 1
    assert "failed: the API answered 401: invalid x-api-key; check ANTHROPIC_API_KEY" in result.stderr


INVENTED = {"source": "notes/owls.md:9", "quote": "Owls eat cheese."}
QUESTION = ("finder", "What do owls eat?")


def test_g_5_a_second_answer_without_quotes_is_partial_and_one_without_room_for_them_refused(api, write, call):
    """The flag beats the file; where the answer has no place for quotes, flag and key are refused with the line."""
    write("finder", "evidence: off")
    api([LOOK, answers("cheese", evidence=[INVENTED]), answers("cheese!", evidence=[INVENTED])])
    result = call(*QUESTION, "--evidence", "require")
    assert (result.exit_code, result.stdout) == (0, "cheese!\n")
    assert "no quote of the answer was found in what was read: 0 of 1 quotes found" in result.stderr
    path = write("finder", "output_schema: {type: object}")
    simulator = api([])
    result = call(*QUESTION, "--evidence", "require")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert f"{path}:4:1: evidence: require needs quotes" in result.stderr
    write("finder", "output_schema: {type: object}", "evidence: require")
    result = call(*QUESTION)
    assert (result.exit_code, simulator.requests) == (2, [])
    assert f"{path}:5:11: evidence: require needs quotes" in result.stderr


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("preset", ["soft-landing", "soft-warning", "finalize", "budget-notice", "openai-loop"])
def test_g_5_the_offline_provider_satisfies_require(write, call, preset):
    """Its quotes are verbatim, in every preset and also where the answer is a text at the limit."""
    write("finder", "evidence: require", f"preset: {preset}")
    result = call(*QUESTION, "--model", "offline", "--json", "--tool-calls-limit", "1")
    outcome = json.loads(result.stdout)
    assert outcome["status"] in {"answered", "landed"}
    assert any(quote["verified"] for quote in outcome["evidence"])


LOOP = "for attempt in range(3):\n            try:\n                return 1"


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("first = 1\n    second = 2", "first = 1\nsecond = 2"),
        ("if (a) {\n      b()\n\n  }", "if (a) {\n    b()\n\n}"),
        ("for a in b:\n        try:\n            c()\n    raise d", "for a in b:\n    try:\n        c()\nraise d"),
        ("one line", "one line"),
    ],
)
def test_a_quote_of_code_has_its_own_indentation(quote, expected):
    """Later lines lose what the first one lost; prose is wrapped again; the answer does not repeat a quote of code."""
    block = evidence_block([Evidence("a.py:3", quote, verified=True)])
    lines = shown(apart(block), color=False).rstrip().splitlines()[3:]
    assert [line.removeprefix("    ").rstrip() for line in lines] == expected.splitlines()
    prose = "one\ntwo\n- three\n\n    four"
    for source, told in (("a.md:3", ["one two"]), ("a.py:3", ["one", "two"])):
        block = evidence_block([Evidence(source, prose, verified=True)])
        lines = [line.strip() for line in shown(apart(block), color=False).splitlines()]
        assert lines[2:] == [f"✓ {source}", *told, "- three", "", "four"]
    answer = f"The files say:\n\n`a.py:3`\n```py\n        {LOOP}\n```\n\nAnd:\n\n````py\nother()\n````"
    assert without_quotes(answer, [("a.py:3", LOOP)]) == "The files say:\n\nAnd:\n\n````py\nother()\n````"
    assert without_quotes(answer, [("b.py:3", LOOP)]) == answer


@pytest.mark.parametrize(
    ("question", "status", "sources", "gap"),
    [
        ("What do owls eat at night?", "answered", {"notes/owls.md"}, None),
        ("At what vintage price do owls eat?", "partial", {"notes/owls.md"}, "vintage"),
        ("Who is on the pagerduty rotation?", "partial", set(), "pagerduty"),
    ],
)
def test_g10_a_weak_match_is_partial(write, call, question, status, sources, gap):
    """Offline, too few of the question's words in a file make a partial answer with gaps and at most two quotes."""
    write("finder")
    result = call("finder", question, "--model", "offline", "--store", "none", "--json")
    outcome = json.loads(result.stdout)
    assert (result.exit_code, outcome["status"]) == (0, status)
    assert {one["source"].partition(":")[0] for one in outcome["evidence"]} == sources
    assert len(outcome["evidence"]) <= 2
    assert gap is None or gap in outcome["gaps"]
    assert (outcome["error"] is None) == (status == "answered")


@pytest.mark.parametrize("question", ["What does lib/pay.py do?", "Explain pay.py", "Explain pay.py and its owls"])
def test_t7_a_file_that_the_question_names_is_read_first(write, call, notes, question):
    """Its docstring is the first quote, then the first lines of its definitions, although other files match, too."""
    write("finder")
    (notes / "lib").mkdir()
    (notes / "lib" / "pay.py").write_text(
        '"""Take money."""\n\nLIMIT = 3\n\n\ndef charge(card):\n    return card.take()\n'
    )
    (notes / "notes" / "pay.md").write_text("# Pay\n\nTo explain pay, owls do what lib does with py.\n")
    outcome = json.loads(call("finder", question, "--model", "offline", "--store", "none", "--json").stdout)
    quotes = [(one["source"], one["quote"]) for one in outcome["evidence"]]
    assert quotes == [
        ("lib/pay.py:1", '"""Take money."""'),
        ("lib/pay.py:6", "def charge(card):\n    return card.take()"),
    ]
    assert outcome["status"] == "answered"
