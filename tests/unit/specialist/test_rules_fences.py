"""Rules 1 to 3 of lenient loading: encoding, fences, and files without front matter."""

import codecs
import textwrap
from pathlib import Path

import pytest

from run_specialist.specialist.loader import load_text
from tests.unit.specialist.front_matter import HEAD, file_of, lines_of


def test_a_well_formed_file_has_no_problems() -> None:
    """A well-formed file loads without problems."""
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
)
def test_rule_2_malformed_fences_are_accepted_with_a_warning(text: str, line: int) -> None:
    """Rule 2: malformed fences are recognized, and the warning names the line."""
    file = load_text(text, Path("agent.md"))
    assert (file.name, file.description) == ("agent", "Finds notes")
    assert file.specialist is not None
    assert file.specialist.prompt.endswith("Body")
    assert [(problem.line, problem.level) for problem in file.problems] == [(line, "warning")]


def test_rule_2_unclosed_front_matter_does_not_swallow_the_body() -> None:
    """Rule 2: if the closing fence is missing, a later rule line is not one; the body starts at its first sentence."""
    text = f"---\n{HEAD}tools: Read\n\n# Title\n\nYou do this: well.\n\n---\n\nMore"
    file = load_text(text, Path("agent.md"))
    assert file.tools == ("Read",)
    assert file.specialist is not None
    assert file.specialist.prompt == "# Title\n\nYou do this: well.\n\n---\n\nMore"
    assert any("no closing fence" in problem.text for problem in file.problems)


def test_rule_2_a_title_ends_an_unclosed_description() -> None:
    """Rule 2: an unclosed description ends at the body's title."""
    body = "# Finder\n\n## Role\nYou find: notes."
    file = load_text(f"---\nname: agent\ndescription: Finds notes\n{body}\n\n---\n\nMore", Path("agent.md"))
    assert (file.description, file.model) == ("Finds notes", None)
    assert file.specialist is not None
    assert file.specialist.prompt == f"{body}\n\n---\n\nMore"
    assert "4:1: the front matter has no closing fence; the body is assumed to start here" in lines_of(file)


@pytest.mark.parametrize(
    "text",
    [
        f"---\n# about it\n{HEAD}\nBody",
        f"---\n\n# about it\n{HEAD}\nBody",
        f"# made\n---\n# about it\n{HEAD}---\nBody",
    ],
)
def test_rule_2_comments_above_the_first_key(text: str) -> None:
    """Rule 2: a comment between a malformed fence and the first key is skipped."""
    file = load_text(text, Path("agent.md"))
    assert (file.name, file.description, len(file.problems)) == ("agent", "Finds notes", 1)


def test_rule_3_a_code_fence_around_the_file_is_reported() -> None:
    """Rule 3: a file that starts with a code fence has no front matter, and the warning gives that reason."""
    file = load_text(f"```agent\n---\n{HEAD}---\nBody\n```", Path("finder.md"))
    assert file.name == "finder"
    assert "no front matter (the file starts with a code fence)" in file.problems[0].text


def test_rule_2_indented_lines_belong_to_the_key_above_when_unclosed() -> None:
    """Rule 2: in unclosed front matter, a block value may contain a blank line."""
    file = load_text("---\nname: agent\ndescription: |\n  One\n\n  Two\nmodel: opus\n\nBody", Path("agent.md"))
    assert (file.description, file.model) == ("One\n\nTwo", "opus")


@pytest.mark.parametrize(
    "text", ["Find notes.\n\n---\n\nMore", "# Title\n\n---\n\nText\n\n---\n", "---\n\nText only.\n\n---\nMore", "---"]
)
def test_rule_3_a_file_without_front_matter_uses_its_name_and_text(text: str) -> None:
    """Rule 3: without front matter, the file's name and first words are used, and the complete text is the prompt."""
    file = load_text(text, Path("some/finder.agent.md"))
    assert file.name == "finder"
    assert file.description
    assert file.specialist is not None
    assert file.specialist.prompt == text.strip()
    assert "no front matter" in str(file.problems)
    assert file.status == "warning"


def test_rule_3_a_missing_description_is_taken_from_the_body() -> None:
    """Rule 3: a missing description is taken from the first words of the body."""
    assert load_text("\n\nFind notes.\nFast.", Path("a.md")).description == "Find notes."
    assert file_of("name: agent").description == "You find notes."
    assert lines_of(file_of("name: agent"))[0].startswith("1:1: description: missing")
