"""The numbered rules of lenient loading, one by one."""

import codecs
import os
import textwrap
from pathlib import Path

import pytest

from run_specialist.specialist.loader import SpecialistFile, load, load_text
from run_specialist.specialist.registry import Registry

HEAD = "name: agent\ndescription: Finds notes\n"


def file_of(front: str, body: str = "You find notes.") -> SpecialistFile:
    """Load a file with this front matter from a path that fits its name."""
    return load_text(f"---\n{front.rstrip()}\n---\n{body}\n", Path("agent.md"))


def lines_of(file: SpecialistFile) -> list[str]:
    """Return the problems without their path."""
    return [str(problem).removeprefix("agent.md:") for problem in file.problems]


def test_plain_file_has_nothing_to_say() -> None:
    """A file as it should be loads without any remark."""
    file = file_of(HEAD + "tools: Read, Grep\nmodel: sonnet\ntool_calls_limit: 12")
    assert (file.status, file.problems) == ("ok", ())
    assert (file.name, file.description, file.tools, file.model) == ("agent", "Finds notes", ("Read", "Grep"), "sonnet")
    assert file.specialist is not None
    assert file.specialist.prompt == "You find notes."
    assert file.specialist.tool_calls_limit == 12


@pytest.mark.parametrize(
    ("mark", "encoding", "said"),
    [
        (codecs.BOM_UTF8, "utf-8", "byte order mark"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
        (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
        (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    ],
)
def test_rule_1_marks_are_read_and_warned_about(mark: bytes, encoding: str, said: str) -> None:
    """Rule 1: a byte order mark tells the encoding, and is left out with a warning."""
    file = load_text(mark + f"---\r\n{HEAD}---\r\nBody é".encode(encoding), Path("agent.md"))
    assert (file.name, file.description, file.specialist and file.specialist.prompt) == (
        "agent",
        "Finds notes",
        "Body é",
    )
    assert [said in problem.text for problem in file.problems] == [True]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_rule_1_line_ends_become_lf_without_a_word(end: str) -> None:
    """Rule 1: CRLF and CR are no reason for a warning, and lines still count."""
    text = f"---\n{HEAD}tool_calls_limit: x\n---\nOne\nTwo\n"
    assert lines_of(load_text(text.replace("\n", end), Path("agent.md"))) == [
        "4:19: tool_calls_limit: wanted a whole number from 0 up, or none, found x"
    ]
    fine = load_text(f"---\n{HEAD}---\nOne\nTwo\n".replace("\n", end), Path("agent.md"))
    assert (fine.problems, fine.specialist and fine.specialist.prompt) == ((), "One\nTwo")


def test_rule_1_bad_utf8_is_replaced_at_a_place() -> None:
    """Rule 1: a byte that is no UTF-8 becomes a replacement character, and the warning points at it."""
    file = load_text(b"---\nname: agent\ndescription: caf\xe9\n---\nBody", Path("agent.md"))
    assert file.description == "caf\ufffd"
    assert lines_of(file)[0].startswith("3:17: is not UTF-8 here")


def test_rule_1_characters_that_no_store_takes_are_replaced() -> None:
    """Rule 1: NUL and lone surrogates never get through."""
    file = load_text(f"---\n{HEAD}---\nBo\0dy \ud800", Path("agent.md"))
    assert file.specialist is not None
    assert file.specialist.prompt == "Bo\ufffddy \ufffd"
    assert file.status == "warning"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"\n\n---\n{HEAD}---\nBody", 3),
        (f"<!-- made by hand\nor not -->\n---\n{HEAD}---\nBody", 3),
        (f"# generated\n---\n{HEAD}---\nBody", 2),
        (f"----\n{HEAD}---\nBody", 1),
        (f"--- \n{HEAD}---\nBody", 1),
        (f"---\n{HEAD}------\nBody", 4),
        (f"---\n{HEAD}...\nBody", 4),
        (f"---\n{HEAD}\nBody", 1),
        (f"---\n{HEAD}\n# Heading\n\nBody", 1),
        (textwrap.indent(f"---\n{HEAD}---\nBody", "    "), 1),
    ],
    ids=[
        "blank",
        "html comment",
        "comment",
        "four",
        "trailing",
        "long closer",
        "dots",
        "open",
        "open heading",
        "indented",
    ],
)
def test_rule_2_odd_fences_are_taken_with_a_warning(text: str, line: int) -> None:
    """Rule 2: fences that are not quite right are found, and the warning names the line."""
    file = load_text(text, Path("agent.md"))
    assert (file.name, file.description) == ("agent", "Finds notes")
    assert file.specialist is not None
    assert file.specialist.prompt.endswith("Body")
    assert [(problem.line, problem.level) for problem in file.problems] == [(line, "warning")]


def test_rule_2_rule_lines_in_the_body_stay_there() -> None:
    """Rule 2: only the first closing fence counts."""
    file = file_of(HEAD, "One\n\n---\n\nTwo")
    assert file.specialist is not None
    assert file.specialist.prompt == "One\n\n---\n\nTwo"


def test_rule_2_unclosed_front_matter_does_not_swallow_the_body() -> None:
    """Rule 2: without a closer, a rule far below is no fence; the body starts at its first sentence."""
    text = f"---\n{HEAD}tools: Read\n\n# Title\n\nYou do this: well.\n\n---\n\nMore"
    file = load_text(text, Path("agent.md"))
    assert file.tools == ("Read",)
    assert file.specialist is not None
    assert file.specialist.prompt == "# Title\n\nYou do this: well.\n\n---\n\nMore"
    assert any("never closed" in problem.text for problem in file.problems)


def test_rule_2_a_title_ends_an_unclosed_description() -> None:
    """Rule 2: a description that no fence closes ends at the title of the body, also where code below holds keys."""
    body = "# Finder\n\n## Role\nYou find: notes.\n\n```yaml\nmodel: opus\n```"
    file = load_text(f"---\nname: agent\ndescription: Finds notes\n{body}\n\n---\n\nMore", Path("agent.md"))
    assert (file.description, file.model) == ("Finds notes", None)
    assert file.specialist is not None
    assert file.specialist.prompt == f"{body}\n\n---\n\nMore"
    assert "4:1: the front matter is never closed; this is taken for the body" in lines_of(file)


def test_rule_2_a_title_ends_an_unclosed_name() -> None:
    """Rule 2: text below a heading is body, without a blank line between them too."""
    file = load_text("---\nname: agent\n# Finder\n\n## Role\nYou find: notes.\n\n---\n\nMore", Path("agent.md"))
    assert file.name == "agent"
    assert file.specialist is not None
    assert file.specialist.prompt.startswith("# Finder\n\n## Role\nYou find")


@pytest.mark.parametrize(
    "text",
    [
        f"---\n# about it\n{HEAD}\nBody",
        f"---\n\n# about it\n{HEAD}\nBody",
        f"# made\n---\n# about it\n{HEAD}---\nBody",
    ],
)
def test_rule_2_comments_above_the_first_key(text: str) -> None:
    """Rule 2: a comment between an odd fence and the first key hides nothing."""
    file = load_text(text, Path("agent.md"))
    assert (file.name, file.description, len(file.problems)) == ("agent", "Finds notes", 1)


def test_rule_3_a_code_fence_around_the_file_is_told() -> None:
    """Rule 3: a file that starts with a code fence has no front matter, and the warning says why."""
    file = load_text(f"```agent\n---\n{HEAD}---\nBody\n```", Path("finder.md"))
    assert file.name == "finder"
    assert "no front matter, the file starts with a code fence" in file.problems[0].text


def test_rule_2_indented_lines_belong_to_the_key_above_when_unclosed() -> None:
    """Rule 2: a block value with a blank line in it is still front matter."""
    file = load_text("---\nname: agent\ndescription: |\n  One\n\n  Two\nmodel: opus\n\nBody", Path("agent.md"))
    assert (file.description, file.model) == ("One\n\nTwo", "opus")


@pytest.mark.parametrize(
    "text", ["Find notes.\n\n---\n\nMore", "# Title\n\n---\n\nText\n\n---\n", "---\n\nText only.\n\n---\nMore", "---"]
)
def test_rule_3_no_front_matter(text: str) -> None:
    """Rule 3: the file's name and the first words stand in, and the whole text is the prompt."""
    file = load_text(text, Path("some/finder.agent.md"))
    assert file.name == "finder"
    assert file.description
    assert file.specialist is not None
    assert file.specialist.prompt == text.strip()
    assert "no front matter" in file.problems[0].text
    assert file.status == "warning"


def test_rule_3_stand_in_description_is_text_of_the_body() -> None:
    """Rule 3: the first words of the body describe it, also where only the description is missing."""
    assert load_text("\n\nFind notes.\nFast.", Path("a.md")).description == "Find notes."
    assert file_of("name: agent").description == "You find notes."
    assert lines_of(file_of("name: agent"))[0].startswith("1:1: description: missing")


@pytest.mark.parametrize("name", ["yes", "2024", "2026-01-05", "1:30", "true", "1e3"])
def test_rule_4_scalars_are_text_where_text_is_wanted(name: str) -> None:
    """Rule 4: no booleans, numbers or dates come out of a name."""
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
def test_rule_4_texts_are_taken_raw(written: str, description: str) -> None:
    """Rule 4: what YAML would cut or take for a tag, an anchor or an alias is kept."""
    file = file_of(f"name: agent\ndescription: {written}\nmodel: opus")
    assert (file.description, file.model) == (description, "opus")


def test_rule_4_quotes_and_blocks_mean_what_yaml_says() -> None:
    """Rule 4: a comment after a quoted text is a comment, and blocks keep or fold their lines."""
    assert file_of('name: agent\ndescription: "a # b" # c').description == "a # b"
    assert file_of("name: agent\ndescription: |\n  a\n\n  b").description == "a\n\nb"
    assert file_of("name: agent\ndescription: >-\n  a\n  b").description == "a b"
    assert file_of("name: agent\ndescription: a\n  b").description == "a b"


def test_rule_4_duplicate_keys_last_wins() -> None:
    """Rule 4: the warning names both lines; other spellings of a key are the same key."""
    file = file_of(HEAD + "maxTurns: 3\nmax-turns: 4\ncountdown:\n  from: 1\n  from: 2")
    assert file.specialist is not None
    assert (file.specialist.turns_limit, file.specialist.countdown.from_) == (4, 2)
    assert lines_of(file) == [
        "5:1: turns_limit: given on line 4 and again on line 5; the last wins",
        "8:3: countdown: from is given twice; the last wins",
    ]


def test_rule_5_broken_yaml_is_read_field_by_field() -> None:
    """Rule 5: the parser's place is told, and the other fields load as they would have."""
    file = file_of(
        "name: agent\ndescription: Use when: 'a', 'b'\ntools: [Read, Grep]\ntool_calls_limit: 7\nmodel: opus"
    )
    assert (file.description, file.tools, file.model) == ("Use when: 'a', 'b'", ("Read", "Grep"), "opus")
    assert file.tool_calls_limit == 7
    assert [(p.line, p.column, p.level) for p in file.problems] == [(3, 22, "warning")]


def test_rule_5_only_known_keys_end_a_description() -> None:
    """Rule 5: talk in an example is text, and so are keys inside an open example."""
    talk = 'Examples:\n\n<example>\nContext: now\nuser: "hi"\nmodel: of thinking\n</example>\nassistant: done'
    file = file_of(f"name: agent\ndescription: {talk}\ncolor: red\nmodel: opus")
    assert file.description == talk
    assert file.model == "opus"
    assert "color" in file.lines


def test_rule_5_an_example_that_never_closes_hides_nothing() -> None:
    """Rule 5: an `<example>` without its end does not swallow the keys below."""
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
        ("'it's never closed", "it's never closed"),
        ("`code`: first", "`code`: first"),
        ("@notes first", "@notes first"),
        ("[draft] notes", "[draft] notes"),
        ("{{var}} notes", "{{var}} notes"),
        ("%percent", "%percent"),
    ],
)
def test_rule_5_raw_descriptions(written: str, description: str) -> None:
    """Rule 5: a description that is no YAML is the text that its author saw."""
    file = file_of(f"name: agent\ndescription: {written}\ntools: Read")
    assert (file.name, file.description, file.tools) == ("agent", description, ("Read",))
    assert file.status == "warning"


def test_rule_5_blocks_and_tabs_in_broken_files() -> None:
    """Rule 5: fields that are fine on their own are read as YAML; tabs break only their own field."""
    file = file_of("name:agent\ndescription: |\n  One\n  Two\nhooks:\n\tPre: x\ncountdown: {from: 3}")
    assert (file.name, file.description) == ("agent", "One\nTwo")
    assert file.specialist is not None
    assert file.specialist.countdown.from_ == 3
    assert any("no blank after the colon" in line for line in lines_of(file))


def test_rule_5_comments_above_the_next_key_are_no_text() -> None:
    """Rule 5: comment lines at the end of a broken description are left out; a heading with text below is kept."""
    assert file_of("name: agent\ndescription: a: b\n# of all\nmodel: opus").description == "a: b"
    assert file_of("name: agent\ndescription: a: b\n\n# last").description == "a: b"
    kept = "a: b\n# When\nAlways"
    assert file_of(f"name: agent\ndescription: {kept}\nmodel: opus").description == kept


def test_rule_5_text_over_several_lines_is_told() -> None:
    """Rule 5: the warning at a broken value says how far its text goes."""
    file = file_of("name: agent\ndescription: One: a\nTwo\n\nThree\ntools:\n\t- Read\nmodel: opus")
    assert (file.description, file.tools) == ("One: a\nTwo\n\nThree", ("Read",))
    assert lines_of(file)[0] == "3:1: description: is no valid YAML by itself; its text up to line 6 is taken"
    assert "7:1: tools: is no valid YAML by itself; its text up to line 8 is taken" in lines_of(file)


def test_rule_5_what_follows_the_first_block_is_read() -> None:
    """Rule 5: keys that stand further left than the first end the YAML, and are not lost."""
    file = file_of("  name: agent\ndescription: Finds notes\ntools: Read")
    assert (file.name, file.description, file.tools) == ("agent", "Finds notes", ("Read",))
    assert "no valid YAML" in lines_of(file)[0]


def test_rule_5_no_break_spaces_are_blanks() -> None:
    """Rule 5: no-break spaces pasted from a web page separate like blanks."""
    file = file_of("name:\u00a0agent\ndescription:\u00a0Finds notes\ntools:\u00a0Read,\u00a0Grep")
    assert (file.name, file.description, file.tools) == ("agent", "Finds notes", ("Read", "Grep"))


@pytest.mark.parametrize(
    "written",
    [
        "twelve",
        "-5",
        "2.5",
        "30.0",
        "1e2",
        "true",
        "[3]",
        "{a: 1}",
        ".inf",
        ".nan",
        "1_000",
        "1:30",
        "unlimited",
        "'x'",
        "٣",
        "!calls 3",
        "9" * 5000,
    ],
)
def test_rule_6_bad_limits_are_never_guessed(written: str) -> None:
    """Rule 6: what is no whole number is an error at its place, and the file is still listed."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.name, file.description, file.specialist, file.tool_calls_limit) == ("agent", "Finds notes", None, None)
    assert [(p.line, p.column, p.key, p.level) for p in file.problems] == [(4, 19, "tool_calls_limit", "error")]
    assert file.problems[0].text.startswith("wanted a whole number from 0 up, or none, found ")


@pytest.mark.parametrize(
    ("written", "limit"), [("0", 0), ("30", 30), ("+7", 7), ("007", 7), ("0x1e", 30), ("9" * 40, 10**40 - 1)]
)
def test_rule_6_whole_numbers(written: str, limit: int) -> None:
    """Rule 6: every whole number is a limit, 0 and very large ones too."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.problems) == (limit, ())


def test_rule_6_number_in_quotes() -> None:
    """Rule 6: a number in quotes is that number, with a warning."""
    file = file_of(HEAD + 'tool_calls_limit: "30"')
    assert (file.tool_calls_limit, lines_of(file)) == (30, ['4:19: tool_calls_limit: "30" is text; read as 30'])


@pytest.mark.parametrize("written", ["none", "None", "'none'"])
def test_rule_6_none_is_no_limit(written: str) -> None:
    """Rule 6: `none` is a value that the file gives: no limit."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.status) == ("none", "ok")
    assert file.specialist is not None
    assert file.specialist.tool_calls_limit is None
    assert "tool_calls_limit" in file.specialist.model_fields_set


@pytest.mark.parametrize("written", ["", "~", "null", "# later"])
def test_rule_6_empty_is_not_given(written: str) -> None:
    """Rule 6: a key that is left empty counts as not given, with a warning."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.status) == (None, "warning")
    assert file.specialist is not None
    assert file.specialist.tool_calls_limit == 30
    assert "tool_calls_limit" not in file.specialist.model_fields_set


def test_rule_6_all_errors_at_once() -> None:
    """Rule 6: each bad value is told, each at its own place."""
    file = file_of(HEAD + "tool_calls_limit: x\ncost_limit: $5\nlanding: soon\ncountdown:\n  from: 1.5\n  form: 2")
    assert lines_of(file) == [
        "4:19: tool_calls_limit: wanted a whole number from 0 up, or none, found x",
        "5:13: cost_limit: wanted an amount in USD from 0 up, or none, found $5",
        "6:10: landing: wanted auto, force, order, none, finalize or stop, found soon",
        "8:9: countdown.from: wanted a share from 0.0 to 1.0, a whole number of calls left, or none, found 1.5",
        "9:9: countdown.form: no such key",
    ]


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read, Bash(git log:*, git show:*), Agent(a, b)", ("Read", "Bash(git log:*, git show:*)", "Agent(a, b)")),
        ("[Read, 'Agent(a, b)']", ("Read", "Agent(a, b)")),
        ("[Read, Agent(a, b)]", ("Read", "Agent(a, b)")),
        ("Read, Grep]", ("Read", "Grep")),
        ("[Read, Grep, Bash(git log:*)", ("Read", "Grep", "Bash(git log:*)")),
        ("Read Grep Bash(git log)", ("Read", "Grep", "Bash(git log)")),
        ("|\n  Read\n  Grep", ("Read", "Grep")),
        ("\n  - Read\n  - name: Grep", ("Read", "Grep")),
        ("{read: true, bash: false}", ("read",)),
        ("{bash: false}", None),
        ("{'*': false}", ()),
        ("{'*': false, read: true}", ("read",)),
        ("*", None),
        ("['*']", None),
        ("[]", ()),
        ("''", ()),
        ("", None),
    ],
)
def test_rule_7_forms_of_tools(written: str, tools: tuple[str, ...] | None) -> None:
    """Rule 7: lists in every form; a comma inside parentheses does not split; names stay as written."""
    assert file_of(HEAD + f"tools: {written}").tools == tools


def test_rule_7_switches_that_are_off_take_tools_away() -> None:
    """Rule 7: a map that only turns tools off restricts nothing else."""
    file = file_of(HEAD + "tools: {bash: false}\ndisallowed_tools: Grep")
    assert file.specialist is not None
    assert (file.specialist.tools, set(file.specialist.disallowed_tools)) == (None, {"bash", "Grep"})


def test_rule_7_all_off_but_some() -> None:
    """Rule 7: a map that turns everything off leaves what it turns on."""
    file = file_of(HEAD + "tools:\n  '*': false\n  read: true\n  bash: false")
    assert file.specialist is not None
    assert (file.specialist.tools, file.specialist.disallowed_tools) == (("read",), ("bash",))


@pytest.mark.parametrize("written", ["model:\n  - opus\n  - haiku", "tools:\n  - Bash", "tools:\n  read: true"])
def test_rule_7_remarks_on_a_block_stand_at_its_key(written: str) -> None:
    """Rules 4 and 7: what is said about a list or map as a whole points at the line of its key."""
    assert [(p.line, p.column) for p in file_of(HEAD + written).problems] == [(4, 1)]


def test_rule_7_tools_that_we_lack() -> None:
    """Rule 7: a warning names them, and says so when none is left."""
    assert lines_of(file_of(HEAD + "tools: Read, Bash, WebFetch")) == ["4:8: tools: not available here: Bash, WebFetch"]
    assert lines_of(file_of(HEAD + "tools: Bash")) == [
        "4:8: tools: not available here: Bash; no tool is left, so it will not be run"
    ]
    assert file_of(HEAD + "tools: mcp__web__fetch\nmcp_servers: {web: http://localhost/}").status == "ok"


def test_s0_9_a_bad_file_is_named_with_line_and_reason_and_the_others_load(tmp_path: Path) -> None:
    """S0.9 and rule 8: one file that cannot be run harms no other and is never left out."""
    (tmp_path / "bad.md").write_text("---\nname: bad\ndescription: d\ntool_calls_limit: twelve\n---\nBody\n")
    (tmp_path / "binary.md").write_bytes(bytes(range(256)))
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "good.md").write_text("---\nname: good\ndescription: d\n---\nBody\n")
    files = {file.name: file for file in Registry([tmp_path]).files()}
    assert sorted(files) == ["bad", "binary", "gone", "good"]
    assert (files["good"].status, files["bad"].status, files["gone"].status) == ("ok", "error", "error")
    assert str(files["bad"].problems[0]) == (
        f"{tmp_path}/bad.md:4:19: tool_calls_limit: wanted a whole number from 0 up, or none, found twelve"
    )
    assert files["good"].specialist is not None


@pytest.mark.parametrize("make", ["folder", "missing", "fifo"])
def test_rule_8_what_cannot_be_read_is_an_error(make: str, tmp_path: Path) -> None:
    """Rule 8: a folder, a missing file and a pipe are told, not raised."""
    path = tmp_path / "x.md"
    if make == "folder":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    file = load(path)
    assert (file.name, file.status, file.specialist) == ("x", "error", None)
    assert (file.problems[0].line, file.problems[0].column) == (1, 1)


def test_rule_9_turns_like_keys_are_never_tool_calls() -> None:
    """Rule 9: limits of other programs set the turns, and nothing else."""
    file = file_of(HEAD + "steps: 7")
    assert file.tool_calls_limit is None
    assert file.specialist is not None
    assert (file.specialist.turns_limit, file.specialist.tool_calls_limit) == (7, 30)
