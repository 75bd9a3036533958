"""Ranked search finds passages, whatever the wording of the query and the size of the root; and .gitignore files."""

import asyncio
import gc
import io
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.notes import SEAL, SEALED, write
from run_specialist.errors import ToolError
from run_specialist.safety.safe_files import Folder
from run_specialist.tools import search as index_module
from run_specialist.tools.files import file_tools
from run_specialist.tools.ignore import IgnoreRules
from run_specialist.tools.sandbox import Sandbox, files
from run_specialist.tools.scripts import lines_in, lines_of
from run_specialist.tools.search import SearchIndex, passages, spellings, tokens, variants


def paths_of(result: str) -> list[str]:
    """Return the paths of the hits in order, each once."""
    lines = [line for line in result.split("\n") if line and not line.startswith("[")]
    return list(dict.fromkeys(line.split(":")[0] for line in lines))


@pytest.fixture(params=["by passages", "by files"])
def form(request, monkeypatch):
    """Run the test with both index forms, by passages and by files, regardless of the size of the root."""
    if request.param == "by files":
        monkeypatch.setattr(index_module, "LARGEST_CUT", 0)


@pytest.fixture
def notes(write):
    """Write a few notes on different subjects."""
    write(
        {
            "cache.md": "# Cache\n\nIt was removed because it grew without bound.\n\n## Size\n\nIt held 40 GB.\n",
            "release.md": "# Release\n\nWe shipped v0.3 on Monday. The parser lives in parse.rs:207.\n",
            "api.md": "# API\n\nSet `tool_choice` to force a tool. See HttpServerConfig and the time-out tests.\n",
            "lunch.md": "# Lunch\n\nOn Monday there is soup.\n",
        }
    )


@given(st.lists(st.text(st.sampled_from("aBcé1_-.'’#+:/()\"日")), max_size=6))
def test_every_other_spelling_of_a_text_is_indexed(words):
    """Words that are passed over for speed, such as a capitalized one with a comma, have no other spelling."""
    spelled = {one for word in words for token in tokens(word) for one in " ".join(spellings(token)).split()}
    assert set(variants(" ".join(words)).split()) == spelled


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.usefixtures("notes", "form")
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("Why did we remove the cache?", "cache.md"),
        ("how large was it, in gigabytes? caches sizes", "cache.md"),
        ("tool_choice", "api.md"),
        ("tool choice forcing", "api.md"),
        ("v0.3", "release.md"),
        ("parse.rs:207", "release.md"),
        ("http server config", "api.md"),
        ("httpserverconfig", "api.md"),
        ("timeout", "api.md"),
        ("LUNCH", "lunch.md"),
    ],
)
def test_questions_and_identifiers_find_their_note(call, query, path):
    """Stop words, word endings, identifiers, versions and other spellings are handled."""
    assert paths_of(call("search", query=query))[0] == path


@pytest.mark.usefixtures("notes")
def test_hits_have_their_heading_path_and_line_number(call):
    """A hit shows its heading and lines with path and line number; a final note explains how to see more."""
    assert call("search", query="gigabytes GB", limit=1).split("\n") == [
        "cache.md:5: ## Size",
        "cache.md:7: It held 40 GB.",
        "[passages per word: GB 1]",
        "[in no file: gigabytes]",
        "[1 best of 1 passages; read(path, offset=line-10, limit=40) shows more]",
    ]


@pytest.mark.usefixtures("notes", "form")
def test_a_search_without_matches_names_the_missing_words(call):
    """A search without matches lists the words that are in no file and suggests what to try."""
    assert call("search", query="What about Terraform?").split("\n") == [
        "[in no file: Terraform]",
        "[nothing found in 4 files; use other words, or grep for a part of one]",
    ]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.usefixtures("notes", "form")
@pytest.mark.parametrize(
    "query", ["", "?", "the of and", '"', "NEAR(", "a AND", "*", "col:x", "-", "'", "x" * 5000, "😀"]
)
def test_no_query_breaks_the_search(call, query):
    """Query syntax of the search engine is treated as ordinary text."""
    assert call("search", query=query).endswith("]")


@pytest.mark.usefixtures("notes", "form")
def test_file_names_are_searched(call, write):
    """A word that occurs only in a file's name finds the file."""
    write({"2026-01-02_postmortem.md": "All was fine."})
    assert paths_of(call("search", query="postmortem")) == ["2026-01-02_postmortem.md"]


@pytest.mark.usefixtures("form")
def test_at_most_three_passages_of_a_file_are_shown(call, write):
    """At most three passages of a file are shown."""
    write({"a.md": "\n".join(f"# Part {number}\nneedle needle\n" for number in range(20)), "b.md": "one needle in hay"})
    result = call("search", query="needle")
    assert paths_of(result) == ["a.md", "b.md"]
    assert result.count("needle needle") == 3


@pytest.mark.usefixtures("form")
def test_accents_are_ignored_and_ideographs_found(call, write):
    """Accents are ignored, and a word inside a run of ideographs is found."""
    write({"a.md": "Der Überlauf im Café", "b.md": "今天讨论了机器学习的结果"})
    assert paths_of(call("search", query="uberlauf cafe")) == ["a.md"]
    assert paths_of(call("search", query="机器学习")) == ["b.md"]


@pytest.mark.usefixtures("form")
def test_only_the_matching_part_of_a_long_line_is_shown(call, write):
    """For a match in a very long line, only the matching part is shown, marked as cut."""
    write({"a.md": "Nothing here. " * 300 + "The needle is here. " + "Nothing there. " * 300})
    result = call("search", query="needle", limit=1)
    assert result.startswith("a.md:1: … ")
    assert "The needle is here." in result
    assert len(result) < 1000


@pytest.mark.usefixtures("form")
def test_threads_share_one_index(root, write, monkeypatch):
    """Parallel searches build the index once and get equal results."""
    write({f"{number}.md": f"needle {number}\n" for number in range(50)})
    built = []
    really_build = index_module.SearchIndex._build
    monkeypatch.setattr(index_module.SearchIndex, "_build", lambda self: built.append(1) or really_build(self))
    search = {tool.name: tool for tool in file_tools(root)}["search"].function
    barrier = threading.Barrier(4)

    def together(_: int) -> str:
        barrier.wait()
        return search("needle")

    with ThreadPoolExecutor(4) as pool:
        results = set(pool.map(together, range(4)))
    assert len(results) == 1
    assert built == [1]


@pytest.mark.usefixtures("form")
def test_the_index_closes_its_connection(root, write):
    """Releasing the tools closes the database; otherwise a ResourceWarning would fail this test."""
    write({"a.md": "needle"})
    tools = {tool.name: tool for tool in file_tools(root)}
    asyncio.run(tools["search"].call({"query": "needle"}))
    del tools
    gc.collect()


def cut(text: str, *, prose: bool = True) -> list[tuple[list[str], list[str]]]:
    """Return the headings and the lines of each passage."""
    found = passages(text.split("\n"), prose=prose)
    return [([heading for _, heading in item.headings], [line for _, line in item.lines]) for item in found]


def test_both_kinds_of_headings_are_recognized():
    """Headings with # and underlined headings are recognized, except in code and front matter."""
    text = "---\ntitle: x\n---\n# A\na\n## B\n```\n# no\n```\n# C\nc\nUnder\n-----\nu"
    assert cut(text) == [
        ([], ["---", "title: x", "---"]),
        (["# A"], ["a"]),
        (["# A", "## B"], ["```", "# no", "```"]),
        (["# C"], ["c"]),
        (["# C", "Under"], ["u"]),
    ]
    assert cut("# comment\nx = 1", prose=False) == [([], ["# comment", "x = 1"])]


@given(st.text("# ab\n-=`~\t.", max_size=200))
def test_passages_keep_every_line_and_its_number(text):
    """In any text, the lines of passages and headings keep their line numbers."""
    lines = text.split("\n")
    held = {}
    for passage in passages(lines, prose=True):
        held.update([*passage.headings, *passage.lines])
    assert all(lines[number - 1] == line for number, line in held.items())


NOTES = 180


@pytest.fixture
def by_files(monkeypatch):
    """Lower the size limit so that a few files are already searched by files."""
    monkeypatch.setattr(index_module, "LARGEST_CUT", 20_000)


@pytest.mark.exhaustive
def test_both_index_forms_rank_the_same_files_first(tmp_path, monkeypatch):
    """The best passage's file is among the first three hits by files, and the counts are exact; every note is searched.

    A word in a few notes, including the first and the last, is found in all of them.
    """
    queries = write(tmp_path, NOTES)
    texts = [path.read_text().casefold() for path in tmp_path.rglob("*.md")]
    small, large = SearchIndex(Sandbox(tmp_path)), SearchIndex(Sandbox(tmp_path))
    small.search(SEAL, 1)
    monkeypatch.setattr(index_module, "LARGEST_CUT", 20_000)
    hits = large.search(SEAL, 10)
    assert hits.total == len({path for path, _ in hits.best}) == hits.counts[SEAL] == SEALED
    assert all(any(SEAL in text for _, text in passage.lines) for _, passage in hits.best)
    assert (large.files, large.complete) == (NOTES, True)
    for query in queries:
        best, hits = small.search(query, 10), large.search(query, 10)
        assert (best.unit, hits.unit) == ("passages", "files")
        assert best.best[0][0] in [path for path, _ in hits.best[:3]], query
        assert hits.counts == {
            word: sum(re.search(rf"\b{word}\b", text) is not None for text in texts) for word in query.split()
        }
        assert min(10, hits.total) <= len(hits.best)
        assert hits.total <= NOTES


def test_matching_files_are_counted(call, write, by_files):
    """The notes below the hits count files and list the words that are in none."""
    write({f"{number}.md": "needle\n\n" * 1_500 for number in range(3)})
    result = call("search", query="needle haystack", limit=1).split("\n")
    assert result[-3:] == [
        "[files per word: needle 3]",
        "[in no file: haystack]",
        "[1 best of the passages of 3 files; read(path, offset=line-10, limit=40) shows more]",
    ]


def test_a_hit_deep_in_a_long_file_has_its_heading_and_number(call, write, by_files):
    """A hit in a later chunk of a long file has its heading and line number from the chunks before."""
    above = [f"# Title\n\n## Part {part}\n" + "hay hay hay hay\n\n" * 900 for part in range(6)]
    text = "".join(above) + "A needle is here.\n\n" + "hay hay\n\n" * 9_000
    write({"long.md": text})
    number = text[: text.index("A needle")].count("\n") + 1
    lines = call("search", query="needle", limit=1).split("\n")
    assert f"long.md:{number}: A needle is here." in lines
    assert re.fullmatch(r"long\.md:\d+: ## Part 5", lines[0])


def test_no_line_is_shown_twice(call, write, by_files):
    """Passages at the edges of chunks are cut with the text around them and shown once."""
    lines = ["Nothing of note stands here.\n"] * 2_000
    lines[535:575] = [f"Needle {number} of forty.\n" for number in range(40)]  # near the end of the first chunk
    write({"long.md": "".join(lines)})
    found = [line for line in call("search", query="needle", limit=50).split("\n") if "Needle" in line]
    assert sorted(found) == sorted(set(found))
    assert len(found) > 5


def test_a_rare_word_does_not_hide_the_others(call, write, by_files):
    """After the few files with a rare word, files with a common one follow."""
    write({f"{number:02}.md": "common\n\n" + "hay " * 900 for number in range(30)} | {"rare.md": "quaint"})
    result = call("search", query="quaint common", limit=10)
    assert result.startswith("rare.md:1: quaint")
    assert "[10 best of the passages of 31 files" in result


def test_a_file_that_holds_more_of_the_query_goes_first(call, write, by_files):
    """A file with both words ranks before many files that repeat one of them."""
    heavy = {f"{word}{number:02}.md": f"{word} " * 800 for word in ("left", "right") for number in range(25)}
    write(heavy | {"both.md": "The left one and the right one.\n\n" + "hay straw\n\n" * 600})
    assert call("search", query="left right").startswith("both.md:1: The left")


CHANGES = {
    "gone": lambda path: path.unlink(),
    "emptied": lambda path: path.write_text(""),
    "swapped": lambda path: (path.unlink(), path.symlink_to(path.parent.parent / "secret.txt")),
    "grown": lambda path: os.truncate(path, index_module.LARGEST_FILE + 1),
}


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("change", CHANGES)
def test_files_that_change_between_the_two_stages_yield_nothing(root, write, by_files, change):
    """A file that was deleted, emptied, enlarged or replaced by a link yields nothing; the others are found."""
    names = [f"{number:02}.md" for number in range(40)]
    write({name: f"The needle of {name}.\n" + "hay\n\n" * 150 for name in names})
    index = SearchIndex(Sandbox(root))
    assert len(index.search("needle", 50).best) == 40
    for changed, left in ((names[:30], names[30:]), (names[30:], [])):
        for name in changed:
            CHANGES[change](root / name)
        assert [path for path, _ in index.search("needle", 10).best] == left


def test_a_search_that_runs_out_of_time_reports_it(call, write, by_files, monkeypatch):
    """When time runs out, the files read so far are searched, and a note reports it."""
    write({f"{number}.md": "needle\n" * 1_000 for number in range(9)})
    read, read_text = [], index_module.read_text
    monkeypatch.setattr(index_module, "read_text", lambda *given: read.append(given) or read_text(*given))
    monkeypatch.setattr(index_module, "time", SimpleNamespace(monotonic=lambda: 30.0 if len(read) > 2 else 0.0))
    result = call("search", query="needle")
    assert "[only the first 3 files were searched: the root is too large; use grep]" in result
    assert "[files per word: needle 3]" in result


@given(st.text("ab\r\n\u2028\x85 é", max_size=40))
def test_the_index_numbers_lines_as_read_does(text):
    """The index numbers lines as `read` and `grep` do."""
    assert lines_in(text) == [line for line, _ in lines_of(io.BytesIO(text.encode()), "utf-8")]


MANY = 30_000


def test_a_gitignore_with_very_many_lines_takes_effect(call, write):
    """Among 30,000 lines, names, paths, endings and folders are hidden, and later lines win."""
    lines = [*(f"x{number}" for number in range(MANY)), "/top.md", "*.tmp.log", "build/", "!x7", "sub/x8.md", "y*z"]
    write({".gitignore": "\n".join(lines)})
    hidden = ["x0", "sub/x29999", "top.md", "a.tmp.log", "build/a.md", "sub/x8.md", "sub/y--z"]
    seen = ["sub/build", "sub/top.md", "x7", "x8.md"]
    write(dict.fromkeys([*hidden, *seen], "needle"))
    assert call("grep", pattern="needle").splitlines() == [f"{path}:1: needle" for path in seen]
    for path in hidden:
        with pytest.raises(ToolError, match=r"hidden by \.gitignore"):
            call("read", path=path)


def test_a_changed_gitignore_takes_effect_with_the_same_time_and_size(call, write, root):
    """A changed .gitignore takes effect even with the same time and size; the cache key is its content."""
    write({".gitignore": "a.md\n", "a.md": "needle", "b.md": "needle"})
    before = (root / ".gitignore").stat()
    assert call("grep", pattern="needle") == "b.md:1: needle"
    write({".gitignore": "b.md\n"})
    os.utime(root / ".gitignore", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert call("grep", pattern="needle") == "a.md:1: needle"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("**/*a*a*a*/**/*a*a/**/b*a*b\n" * 5_000, "more than 100,000 characters of patterns with wildcards"),
        ("*a" * 60_000, "more than 100,000 characters of patterns with wildcards"),
        (None, "larger than 4 MB"),
    ],
    ids=["catastrophic", "one line", "huge"],
)
def test_a_gitignore_that_is_too_large_closes_its_folder(call, write, root, content, why):
    """A .gitignore that is too large closes its folder; `ls` and `read` give the reason, and other files are found."""
    write({"sub/.gitignore": content or "", "sub/deep/a.md": "needle", "b.md": "needle"})
    if content is None:
        os.truncate(root / "sub" / ".gitignore", 1_000_000_000)
    assert call("grep", pattern="needle") == "b.md:1: needle"
    assert call("ls") == "sub/  unreadable\nb.md  6 B  1 line"
    with pytest.raises(ToolError, match=f"'sub/deep/a.md' cannot be reached: sub/.gitignore: {why}"):
        call("read", path="sub/deep/a.md")
    with pytest.raises(ToolError, match=f"sub cannot be listed: sub/.gitignore: {why}"):
        call("ls", path="sub")


def test_a_closed_root_is_reported_by_each_tool(call, write):
    """If the root's .gitignore is too large, each tool gives the reason instead of an empty result."""
    write({".gitignore": "*a" * 60_000, "a.md": "x"})
    arguments = {"glob": {"pattern": "*"}, "grep": {"pattern": "x"}, "search": {"query": "x"}, "ls": {}}
    for name, given_ones in arguments.items():
        with pytest.raises(ToolError, match=r"cannot be listed: \.gitignore: more than"):
            call(name, **given_ones)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(24, "Too many open files")])
def test_an_unreadable_gitignore_hides_everything(write, root, monkeypatch, error):
    """An unreadable .gitignore hides everything, since its rules are unknown; a missing one hides nothing."""
    write({".gitignore": "a.md\n", "a.md": "x"})

    def fail(_, name):
        raise error if name == ".gitignore" else AssertionError(name)

    monkeypatch.setattr(Folder, "file", fail)
    with pytest.raises(OSError, match=rf"\.gitignore: {error.strerror}"):
        IgnoreRules().within(Folder(None), "")


def test_a_symlinked_gitignore_is_ignored(call, write, root):
    """A .gitignore that is a symlink is ignored, as in git, because it could lead anywhere."""
    write({"rules": "a.md\n", "a.md": "needle"})
    (root / ".gitignore").symlink_to("rules")
    assert call("grep", pattern="needle") == "a.md:1: needle"


def test_odd_patterns_and_paths_match_as_in_git(call, write, root):
    """Odd patterns and paths match as in git."""
    write({".gitignore": b"\xef\xbb\xbfa.md\n*.log\ncaf\xe9*\n\\*.b\\ \nc.d \n", "new\nline/x.log": "needle"})
    write(dict.fromkeys(["a.md", "*.b ", "c.d", "e.md"], "needle"))
    (root / os.fsdecode(b"caf\xe9.md")).write_text("needle")
    assert call("grep", pattern="needle") == "e.md:1: needle"


NAMES = [
    "a\nb",
    *["a", "b", "ab", "a.x", "b.x.y", ".x", "x y", "A", "a*b", "[a]", "!a", "#a", "a\\b", "n.log", "a ", "b."],
]
PIECES = [
    *("*", "*", "**", "/", "/**/", "a", "b", "ab", "?", "[ab]", "[!a]", "\\*", ".", ".x", "*.x", "x y", "!", "#"),
    *("[a-z]", "*.log", "[]a]", " ", "\\ ", "A", "foo"),
]


@pytest.mark.exhaustive
@pytest.mark.skipif(not shutil.which("git") or sys.platform == "win32", reason="git is asked what it hides")
@pytest.mark.parametrize("seed", range(2))
def test_random_patterns_hide_the_same_files_as_git(root, seed):
    """Random patterns in several .gitignore files, in a tree of odd names, hide the same files as git."""
    chance = random.Random(seed)  # noqa: S311 - random test patterns
    folders = [root]
    for _ in range(12):
        parent = chance.choice(folders)
        for name in chance.sample(NAMES, 6):
            path = parent / name
            if not path.exists() and chance.random() < 0.3:
                path.mkdir()
                folders.append(path)
            elif not path.exists():
                path.write_text("x")
    command = ["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"]
    subprocess.run([*command[:1], "init", "-q"], cwd=root, check=True)
    for _ in range(40):
        chosen = [folder / ".gitignore" for folder in chance.sample(folders, 2)]
        for path in chosen:
            lines = ["".join(chance.choices(PIECES, k=chance.randint(1, 5))) for _ in range(4)]
            # git and our patterns differ on classes that contain a `/`, and on several `/` in a row.
            lines = [line for line in lines if "//" not in line.replace("**", "") and not ("[" in line and "/" in line)]
            path.write_text("".join(f"{'!' * (chance.random() < 0.2)}{line}\n" for line in lines))
        shown = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
        told = [path.read_text() for path in chosen]
        assert set(files(Sandbox(root))) == {os.fsdecode(path) for path in shown.split(b"\0") if path}, told
        for path in chosen:
            path.unlink()
