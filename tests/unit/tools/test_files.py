"""Output of `read`, `ls` and `glob`, and the notes that report cut results."""

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.files import file_tools


def test_the_five_tools_are_repeatable_and_described(root):
    """The five tools have a description for every argument and may answer identical calls from the record."""
    tools = file_tools(root)
    assert sorted(tool.name for tool in tools) == ["glob", "grep", "ls", "read", "search"]
    for tool in tools:
        assert tool.repeatable
        assert all("description" in item for item in tool.input_schema["properties"].values())


def test_read_numbers_lines_and_gives_the_next_offset(call, write):
    """`read` numbers each line; the note gives the lines shown, the line count and the next offset."""
    write({"a.md": "".join(f"line {number}\n" for number in range(1, 913))})
    result = call("read", path="a.md").split("\n")
    assert result[0] == "     1\tline 1"
    assert result[199] == "   200\tline 200"
    assert result[200:] == ["[lines 1-200 of 912; read on with offset=201]"]
    assert call("read", path="a.md", offset=911, limit=5).split("\n") == [
        "   911\tline 911",
        "   912\tline 912",
        "[lines 911-912 of 912]",
    ]


def test_read_stays_below_the_result_limit(call, write):
    """A result that would exceed the limit ends after a complete line and gives the next offset."""
    write({"a.md": "".join(f"{'x' * 90}{number}\n" for number in range(200))})
    result = call("read", path="a.md", result_limit=2000)
    assert len(result) <= 2000
    assert result.endswith("[lines 1-19 of 200; read on with offset=20]")


def test_read_past_the_end_is_an_error_and_an_empty_file_is_reported(call, write):
    """An offset past the end is an error that reports the line count; an empty file is reported as empty."""
    write({"a.md": "one\ntwo\n", "empty.md": ""})
    with pytest.raises(ToolError, match="ends before line 9; it has 2 lines"):
        call("read", path="a.md", offset=9)
    assert call("read", path="empty.md") == "[the file is empty]"


def test_read_suggests_similar_paths(call, write):
    """The error for a path that does not exist suggests similar paths."""
    write({"docs/release-plan.md": "x", "notes.md": "x"})
    with pytest.raises(ToolError, match=r"did you mean docs/release-plan\.md\?"):
        call("read", path="release-plan.md")
    with pytest.raises(ToolError, match=r"did you mean notes\.md\?"):
        call("read", path="note.md")
    with pytest.raises(ToolError, match=r"does not exist$"):
        call("read", path="zzzzzz")


def test_read_refuses_folders_and_binary_files(call, write):
    """Reading a folder is an error that suggests `ls`; reading a binary file is an error."""
    write({"docs/a.md": "x", "image.png": b"\x89PNG\0\0\0"})
    with pytest.raises(ToolError, match="is a folder; use ls"):
        call("read", path="docs")
    with pytest.raises(ToolError, match="is a binary file"):
        call("read", path="image.png")
    assert "image.png  7 B  binary" in call("ls")


def test_a_very_long_line_is_clipped_unless_read_alone(call, write):
    """A long line among others is clipped at 2,000 characters and marked; read alone, it fills the result."""
    write({"a.md": "short\n" + "y" * 1_000_000 + "\nend\n"})
    result = call("read", path="a.md").split("\n")
    assert result[1] == "     2\t" + "y" * 2_000 + " … [clipped: 1000000 characters; read it alone with limit=1]"
    assert result[2] == "     3\tend"
    alone = call("read", path="a.md", offset=2, limit=1)
    assert 19_000 < len(alone) <= 20_000


def test_a_paragraph_in_one_line_is_read_whole(call, write):
    """Of notes with one paragraph per line `read` shows each whole, and `grep` the 500 characters around a match."""
    paragraphs = [f"{number} {'word ' * 390}end{number}" for number in range(3)]
    assert all(1_900 < len(paragraph) <= 2_000 for paragraph in paragraphs)
    write({"a.md": "\n".join(paragraphs) + "\n"})
    read = call("read", path="a.md").split("\n")
    assert [line.split("\t")[1] for line in read[:3]] == paragraphs
    found = call("grep", pattern="end1")
    assert found.startswith("a.md:2: … ")
    assert found.endswith("end1 … [clipped: 1956 characters; read it alone with limit=1]")
    assert len(found) < 600


@pytest.mark.parametrize(("result_limit", "most"), [(20_000, 2_000), (4_000, 1_000), (2_000, 500), (800, 500)])
def test_a_clipped_line_takes_at_most_a_quarter_of_a_short_result(call, write, result_limit, most):
    """Where results are short, a line is clipped earlier, though never below 500 characters, and it says so."""
    write({"a.md": "y" * 3_000 + "\nend\n"})
    first, *others = call("read", path="a.md", result_limit=result_limit).split("\n")
    assert first == "     1\t" + "y" * most + " … [clipped: 3000 characters; read it alone with limit=1]"
    assert others == ["     2\tend", "[lines 1-2 of 2]"]


def test_a_huge_file_is_not_read_to_its_end(call, root):
    """The first lines of a huge file are returned without counting all its lines."""
    with (root / "huge.log").open("wb") as file:
        file.write(b"first\n" * 2000)
        file.truncate(500_000_000)
    assert call("read", path="huge.log", limit=2).endswith("[lines 1-2 of many; read on with offset=3]")
    assert "476.8 MB  many lines" in call("ls")
    assert "[large files not searched: 1, such as huge.log; use grep]" in call("search", query="first")


def test_line_ends_and_encodings_are_decoded(call, write):
    """CRLF is removed, UTF-16 with a byte order mark is decoded, and bytes that are not UTF-8 are replaced."""
    write({"a.txt": "one\r\ntwo\r\n", "b.txt": "sechzehn ü\n".encode("utf-16"), "c.txt": b"caf\xe9\n"})
    assert call("read", path="a.txt") == "     1\tone\n     2\ttwo\n[lines 1-2 of 2]"
    assert "sechzehn ü" in call("read", path="b.txt")
    assert "caf\ufffd" in call("read", path="c.txt")


def test_ls_puts_folders_first_and_counts(call, write):
    """`ls` lists folders first with their number of entries, then files with size and line count."""
    write({"a.md": "x\n" * 3, "z/one.md": "", "z/two.md": "", "big.txt": "x" * 2048})
    assert call("ls").split("\n") == ["z/  2 entries", "a.md  6 B  3 lines", "big.txt  2.0 KB  1 line"]
    assert call("ls", path="z") == "one.md  0 B  0 lines\ntwo.md  0 B  0 lines"
    with pytest.raises(ToolError, match="is no folder; use read"):
        call("ls", path="a.md")


def test_ls_reports_cut_and_empty_listings(call, write, root):
    """A cut listing reports the number of entries; an empty folder is reported as empty."""
    (root / "empty").mkdir()
    assert call("ls", path="empty") == "[the folder is empty, or all in it is hidden]"
    write({f"{number:03}.md": "" for number in range(300)})
    assert call("ls", result_limit=1000).endswith("of 301 entries; use glob to see others]")


def test_glob_matches_across_folders(call, write):
    """`**` spans folders, a bare name matches at any depth, and braces give alternatives; the result is sorted."""
    write(dict.fromkeys(["b/c/x.md", "b/y.md", "a.md", "b/z.txt", "#odd.md"], ""))
    assert call("glob", pattern="*.md").split("\n") == ["#odd.md", "a.md", "b/c/x.md", "b/y.md"]
    assert call("glob", pattern="b/**/*.md").split("\n") == ["b/c/x.md", "b/y.md"]
    assert call("glob", pattern="b/*.{md,txt}").split("\n") == ["b/y.md", "b/z.txt"]
    assert call("glob", pattern="#odd.md") == "#odd.md"
    assert call("glob", pattern="b") == "b/c/x.md\nb/y.md\nb/z.txt"


def test_glob_reports_its_limit_and_refuses_invalid_patterns(call, write):
    """A cut list has a note, `..` and patterns with too many wildcards are refused, and no match is not an error."""
    write({f"{number}.md": "" for number in range(9)})
    assert call("glob", pattern="*", limit=2) == "0.md\n1.md\n[the first 2; narrow the pattern to see others]"
    assert call("glob", pattern="*.rs").startswith("[no file matches")
    with pytest.raises(ToolError, match=r"outside the root|leads out"):
        call("glob", pattern="../*")
    with pytest.raises(ToolError, match="too many wildcards"):
        call("glob", pattern="*a" * 20)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("result_limit", [1, 50, 200, 1000])
def test_every_result_stays_below_its_limit(call, write, result_limit):
    """No tool exceeds the result limit, however small it is."""
    write({f"folder/note {number}.md": f"needle {'word ' * 300}\n" * 20 for number in range(30)})
    for name, arguments in [
        ("search", {"query": "needle nowhere"}),
        ("grep", {"pattern": "needle", "context": 2}),
        ("glob", {"pattern": "**"}),
        ("read", {"path": "folder/note 1.md"}),
        ("ls", {"path": "folder"}),
    ]:
        assert len(call(name, result_limit=result_limit, **arguments)) <= result_limit
