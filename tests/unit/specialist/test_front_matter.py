"""Lenient loading: encodings, fences, text values, broken YAML, limits, tools, TOML, and hostile files."""

import codecs
import textwrap
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from run_specialist.specialist.loader import SpecialistFile, load_text
from run_specialist.specialist.problems import MAX_PROBLEMS
from run_specialist.specialist.registry import Registry

HEAD = "name: agent\ndescription: Finds notes\n"


def file_of(front: str, body: str = "You find notes.") -> SpecialistFile:
    """Load a file with this front matter and a matching path."""
    return load_text(f"---\n{front.rstrip()}\n---\n{body}\n", Path("agent.md"))


def lines_of(file: SpecialistFile) -> list[str]:
    """Return the problems of a file without their path."""
    return [str(problem).removeprefix("agent.md:") for problem in file.problems]


@pytest.mark.parametrize("name", ["yes", "2024", "2026-01-05", "1:30", "true", "1e3"])
def test_rule_4_names_are_always_read_as_text(name: str) -> None:
    """Rule 4: a name is never parsed as a boolean, number or date."""
    assert file_of(f"name: {name}\ndescription: d").name == name


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("Finds issue #12 and C# notes #fast", "Finds issue #12 and C# notes #fast"),
        ("!important read the notes", "!important read the notes"),
        ("&co notes of all", "&co notes of all"),
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
    """Rule 5: dialogue in an example is text, and so are keys inside an example, unless nothing closes it."""
    talk = 'Examples:\n\n<example>\nContext: now\nuser: "hi"\nmodel: of thinking\n</example>\nassistant: done'
    file = file_of(f"name: agent\ndescription: {talk}\ncolor: red\nmodel: opus")
    assert file.description == talk
    assert file.model == "opus"
    assert "color" in file.lines
    file = file_of("name: agent\ndescription: a: <example> b\nmodel: opus")
    assert (file.description, file.model) == ("a: <example> b", "opus")


@pytest.mark.parametrize(
    ("written", "description"),
    [
        (r"Use it: yes\nand no", "Use it: yes\nand no"),
        ('"Finds" and "reads": notes', '"Finds" and "reads": notes'),
        ('"He said "hi" to me"', 'He said "hi" to me'),
        (r'"Finds \d+ and \"x\""', r'Finds \d+ and "x"'),
        ('"never closed', "never closed"),
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


def test_a_well_formed_file_has_no_problems() -> None:
    """A well-formed file loads without problems."""
    file = file_of(HEAD + "tools: Read, Grep\nmodel: sonnet\ntool_calls_limit: 12")
    assert (file.status, file.problems) == ("ok", ())
    assert (file.name, file.description, file.tools, file.model) == ("agent", "Finds notes", ("Read", "Grep"), "sonnet")
    assert file.specialist.prompt == "You find notes."
    assert file.specialist.tool_calls_limit == 12


@pytest.mark.parametrize(
    ("mark", "encoding", "said"),
    [
        (codecs.BOM_UTF8, "utf-8", "byte order mark"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
    ],
)
def test_rule_1_a_byte_order_mark_is_removed_with_a_warning(mark: bytes, encoding: str, said: str) -> None:
    """Rule 1: a byte order mark sets the encoding and is removed with a warning."""
    file = load_text(mark + f"---\r\n{HEAD}---\r\nBody é".encode(encoding), Path("agent.md"))
    assert (file.name, file.description, file.specialist and file.specialist.prompt) == (
        "agent",
        "Finds notes",
        "Body é",
    )
    assert [said in problem.text for problem in file.problems] == [True]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_rule_1_line_ends_become_lf_without_a_warning(end: str) -> None:
    """Rule 1: CRLF and CR become LF without a warning, and line numbers stay right."""
    text = f"---\n{HEAD}tool_calls_limit: x\n---\nOne\nTwo\n"
    assert lines_of(load_text(text.replace("\n", end), Path("agent.md"))) == [
        "4:19: tool_calls_limit: must be an integer of at least 0, or none, got x"
    ]
    fine = load_text(f"---\n{HEAD}---\nOne\nTwo\n".replace("\n", end), Path("agent.md"))
    assert (fine.problems, fine.specialist and fine.specialist.prompt) == ((), "One\nTwo")


def test_rule_1_invalid_utf8_is_replaced_and_located() -> None:
    """Rule 1: an invalid UTF-8 byte becomes a replacement character, and the warning gives its place."""
    file = load_text(b"---\nname: agent\ndescription: caf\xe9\n---\nBody", Path("agent.md"))
    assert file.description == "caf\ufffd"
    assert lines_of(file)[0].startswith("3:17: is not valid UTF-8 here")


def test_rule_1_nul_and_lone_surrogates_are_replaced() -> None:
    """Rule 1: NUL and lone surrogates are replaced with a warning."""
    file = load_text(f"---\n{HEAD}---\nBo\0dy \ud800", Path("agent.md"))
    assert file.specialist.prompt == "Bo\ufffddy \ufffd"
    assert file.status == "warning"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"\n\n---\n{HEAD}---\nBody", 3),
        (f"<!-- made by hand\nor not -->\n---\n{HEAD}---\nBody", 3),
        (f"# generated\n---\n{HEAD}---\nBody", 2),
        (f"# made\n---\n# about it\n{HEAD}---\nBody", 2),
        (f"---\n# about it\n{HEAD}\nBody", 1),
        (f"----\n{HEAD}---\nBody", 1),
        (f"--- \n{HEAD}---\nBody", 1),
        (f"---\n{HEAD}------\nBody", 4),
        (f"---\n{HEAD}...\nBody", 4),
        (f"---\n{HEAD}\nBody", 1),
        (f"---\n{HEAD}\n# Heading\n\nBody", 1),
        (textwrap.indent(f"---\n{HEAD}---\nBody", "    "), 1),
    ],
)
def test_rule_2_malformed_fences_are_accepted_with_a_warning(text: str, line: int) -> None:
    """Rule 2: malformed fences are recognized, and the warning names the line."""
    file = load_text(text, Path("agent.md"))
    assert (file.name, file.description) == ("agent", "Finds notes")
    assert file.specialist.prompt.endswith("Body")
    assert [(problem.line, problem.level) for problem in file.problems] == [(line, "warning")]


def test_rule_2_unclosed_front_matter_does_not_swallow_the_body() -> None:
    """Rule 2: if the closing fence is missing, a later rule line is not one; the body starts at its first sentence."""
    text = f"---\n{HEAD}tools: Read\n\n# Title\n\nYou do this: well.\n\n---\n\nMore"
    file = load_text(text, Path("agent.md"))
    assert file.tools == ("Read",)
    assert file.specialist.prompt == "# Title\n\nYou do this: well.\n\n---\n\nMore"
    assert any("no closing fence" in problem.text for problem in file.problems)


def test_rule_3_a_code_fence_around_the_file_is_reported() -> None:
    """Rule 3: a file that starts with a code fence has no front matter, and the warning gives that reason."""
    file = load_text(f"```agent\n---\n{HEAD}---\nBody\n```", Path("finder.md"))
    assert file.name == "finder"
    assert "no front matter (the file starts with a code fence)" in file.problems[0].text


@pytest.mark.parametrize(
    "text", ["Find notes.\n\n---\n\nMore", "# Title\n\n---\n\nText\n\n---\n", "---\n\nText only.\n\n---\nMore", "---"]
)
def test_rule_3_a_file_without_front_matter_uses_its_name_and_text(text: str) -> None:
    """Rule 3: without front matter, the file's name and first words are used, and the complete text is the prompt."""
    file = load_text(text, Path("some/finder.agent.md"))
    assert file.name == "finder"
    assert file.description
    assert file.specialist.prompt == text.strip()
    assert "no front matter" in str(file.problems)
    assert file.status == "warning"


def test_rule_3_a_missing_description_is_taken_from_the_body() -> None:
    """Rule 3: a missing description is taken from the first words of the body."""
    assert load_text("\n\nFind notes.\nFast.", Path("a.md")).description == "Find notes."
    assert file_of("name: agent").description == "You find notes."
    assert lines_of(file_of("name: agent"))[0].startswith("1:1: description: missing")


INVALID = ["twelve", "-5", "2.5", "1e2", "true", "[3]", ".inf", "1_000", "1:30", "unlimited", "'x'", "٣"]


@pytest.mark.parametrize("written", [*INVALID, "!calls 3", "9" * 5000])
def test_rule_6_an_invalid_limit_is_an_error(written: str) -> None:
    """Rule 6: a limit that is not an integer is an error at its place, and the file is still listed."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.name, file.description, file.specialist, file.tool_calls_limit) == ("agent", "Finds notes", None, None)
    assert [(p.line, p.column, p.key, p.level) for p in file.problems] == [(4, 19, "tool_calls_limit", "error")]
    assert file.problems[0].text.startswith("must be an integer of at least 0, or none, got ")


@pytest.mark.parametrize(
    ("written", "limit"), [("0", 0), ("30", 30), ("+7", 7), ("007", 7), ("0x1e", 30), ("9" * 40, 10**40 - 1)]
)
def test_rule_6_every_nonnegative_integer_is_a_limit(written: str, limit: int) -> None:
    """Rule 6: every non-negative integer is a limit, including 0 and very large ones."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.problems) == (limit, ())


def test_rule_6_a_number_in_quotes_is_read_with_a_warning() -> None:
    """Rule 6: a number in quotes is that number, with a warning."""
    file = file_of(HEAD + 'tool_calls_limit: "30"')
    assert (file.tool_calls_limit, lines_of(file)) == (30, ['4:19: tool_calls_limit: "30" is text; read as 30'])


@pytest.mark.parametrize("written", ["none", "None", "'none'"])
def test_rule_6_none_is_no_limit(written: str) -> None:
    """Rule 6: `none` is an explicit value that means no limit."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.status) == ("none", "ok")
    assert file.specialist.tool_calls_limit is None
    assert "tool_calls_limit" in file.specialist.model_fields_set


@pytest.mark.parametrize("written", ["", "~", "null", "# later"])
def test_rule_6_an_empty_limit_counts_as_not_given(written: str) -> None:
    """Rule 6: an empty key counts as not given, with a warning."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.status) == (None, "warning")
    assert file.specialist.tool_calls_limit == 30
    assert "tool_calls_limit" not in file.specialist.model_fields_set


def test_rule_6_all_errors_at_once() -> None:
    """Rule 6: each bad value is reported at its own place."""
    file = file_of(HEAD + "tool_calls_limit: x\ncost_limit: $5\nlanding: soon\ncountdown:\n  from: 1.5\n  form: 2")
    assert lines_of(file) == [
        "4:19: tool_calls_limit: must be an integer of at least 0, or none, got x",
        "5:13: cost_limit: must be an amount in USD of at least 0, or none, got $5",
        "6:10: landing: must be auto, force, order, schema, none, finalize or stop, got soon",
        "8:9: countdown.from: must be a share from 0.0 to 1.0, an integer number of calls left, or none, got 1.5",
        "9:9: countdown.form: unknown key",
    ]


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read, Bash(git log:*, git show:*), Agent(a, b)", ("Read", "Bash(git log:*, git show:*)", "Agent(a, b)")),
        ("[Read, Agent(a, b)]", ("Read", "Agent(a, b)")),
        ("[Read, Grep, Bash(git log:*)", ("Read", "Grep", "Bash(git log:*)")),
        ("Read Grep Bash(git log)", ("Read", "Grep", "Bash(git log)")),
        ("|\n  Read\n  Grep", ("Read", "Grep")),
        ("{read: true, bash: false}", ("read",)),
        ("{bash: false}", None),
        ("{'*': false}", ()),
        ("{'*': false, read: true}", ("read",)),
        ("*", None),
        ("[]", ()),
        ("", None),
    ],
)
def test_rule_7_tools_are_read_in_every_form(written: str, tools: tuple[str, ...] | None) -> None:
    """Rule 7: lists in every form; a comma inside parentheses does not split; names stay as written."""
    assert file_of(HEAD + f"tools: {written}").tools == tools


def test_rule_7_a_map_that_only_disables_tools_restricts_nothing_else() -> None:
    """Rule 7: a map that only turns tools off restricts nothing else."""
    file = file_of(HEAD + "tools: {bash: false}\ndisallowed_tools: Grep")
    assert (file.specialist.tools, set(file.specialist.disallowed_tools)) == (None, {"bash", "Grep"})


@pytest.mark.parametrize("written", ["model:\n  - {a: opus}", "tools:\n  - Painter", "tools:\n  read: true"])
def test_rule_7_problems_with_a_block_point_at_its_key(written: str) -> None:
    """Rules 4 and 7: a problem with a complete list or map points at the line of its key."""
    assert [(p.line, p.column) for p in file_of(HEAD + written).problems] == [(4, 1)]


def test_rule_7_unavailable_tools_cause_a_warning() -> None:
    """Rule 7: a warning names unavailable tools, and says when no tool is left."""
    assert lines_of(file_of(HEAD + "tools: Read, Painter, Telescope")) == [
        "4:8: tools: not available here: Painter, Telescope"
    ]
    assert lines_of(file_of(HEAD + "tools: Painter")) == [
        "4:8: tools: not available here: Painter; no tool is left, so the specialist cannot be run"
    ]
    assert file_of(HEAD + "tools: mcp__web__fetch\nmcp_servers: {web: http://localhost/}").status == "ok"


def test_s0_9_an_invalid_file_is_reported_and_the_others_load(tmp_path: Path) -> None:
    """S0.9 and rule 8: a file that cannot be run is still listed and does not affect other files."""
    (tmp_path / "bad.md").write_text("---\nname: bad\ndescription: d\ntool_calls_limit: twelve\n---\nBody\n")
    (tmp_path / "binary.md").write_bytes(bytes(range(256)))
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "good.md").write_text("---\nname: good\ndescription: d\n---\nBody\n")
    files = {file.name: file for file in Registry([tmp_path]).files()}
    assert sorted(files) == ["bad", "binary", "gone", "good"]
    assert (files["good"].status, files["bad"].status, files["gone"].status) == ("ok", "error", "error")
    assert str(files["bad"].problems[0]) == (
        f"{tmp_path}/bad.md:4:19: tool_calls_limit: must be an integer of at least 0, or none, got twelve"
    )
    assert files["good"].specialist is not None


def test_rule_9_limits_of_other_programs_set_only_the_turns_limit() -> None:
    """Rule 9: other programs' limits, such as `steps`, set only the turns limit."""
    file = file_of(HEAD + "steps: 7")
    assert file.tool_calls_limit is None
    assert (file.specialist.turns_limit, file.specialist.tool_calls_limit) == (7, 30)


def test_g8_a_number_of_tool_calls_is_probably_their_limit() -> None:
    """`tool_calls: 30` is an error that names `tool_calls_limit`."""
    (problem,) = file_of(HEAD + "tool_calls: 30").problems
    assert problem.text == "must be auto, native or json (tool_calls_limit is their limit), got 30"


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
        ('developer_instructions = "b"\ntool_calls_limit = "many"\n', 2, "tool_calls_limit: must be an integer"),
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


PATH = Path("agent.md")
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


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "front",
    [
        "output_schema: " + "[" * 100_000,
        "output_schema: " + "{a: " * 20_000,
        "- " * 50_000,
        "a:\n" + "".join(" " * depth + "a:\n" for depth in range(1, 400)),
        HEAD + "k: v\n" * 200_000,
        HEAD + "".join(f"k{i}: v\n" for i in range(100_000)),
        "name: agent\ndescription: " + "d " * 500_000,
        "name: agent\ndescription: a: " + '"' * 1_000_000,
        "name: agent\ndescription: a: b\n" + "<example>\n" * 100_000,
        HEAD + "tools: [" + "(, " * 10_000 + "]",
        HEAD + "x: " + "&a " * 1_000,
        HEAD + "\n" * 1_000_000,
        "<!--" * 100_000,
        "!<" + "x" * 100_000,
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


@pytest.mark.exhaustive
def test_suggestions_are_limited_to_the_first_names() -> None:
    """Suggestions are made only for the first few names, because comparing all would take minutes."""
    names, functions = (", ".join(f"{kind}{number}x" for number in range(3_000)) for kind in ("saer", "m:sear"))
    file = load_text(
        f"---\nname: a\ndescription: d\ntools: [serach, {names}]\npython_tools: [{functions}]\n---\nb", PATH
    )
    (problem,) = (problem for problem in file.problems if problem.key == "tools")
    assert "did you mean search and sear0x" in problem.text
