"""Search in a root too large to index all passages: files are ranked first, then the best are read again and cut."""

import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.notes import SEAL, SEALED, write
from run_specialist.tools import search as index_module
from run_specialist.tools.sandbox import Sandbox, read_text
from run_specialist.tools.scripts import lines_in, lines_of
from run_specialist.tools.search import SearchIndex

NOTES = 300


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Write 300 notes and return queries for them; the notes are read-only."""
    folder = tmp_path_factory.mktemp("notes")
    return folder, write(folder, NOTES)


@pytest.fixture(scope="module")
def small(notes: tuple[Path, list[str]]) -> SearchIndex:
    """Return an index of all passages of the notes."""
    index = SearchIndex(Sandbox(notes[0]))
    index.search(SEAL, 1)
    return index


@pytest.fixture
def large(notes: tuple[Path, list[str]], by_files: None) -> SearchIndex:
    """Return an index that keeps only the words of the notes and ranks files."""
    return SearchIndex(Sandbox(notes[0]))


@pytest.fixture
def by_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the size limit so that a few files are already searched by files."""
    monkeypatch.setattr(index_module, "LARGEST_CUT", 20_000)


@pytest.mark.exhaustive
def test_both_index_forms_rank_the_same_files_first(notes, small, large):
    """The best passage's file is among the first three hits by files, and the counts are exact."""
    folder, queries = notes
    texts = [path.read_text().casefold() for path in folder.rglob("*.md")]
    for query in queries:
        best, hits = small.search(query, 10), large.search(query, 10)
        assert (best.unit, hits.unit) == ("passages", "files")
        assert best.best[0][0] in [path for path, _ in hits.best[:3]], query
        assert hits.counts == {
            word: sum(re.search(rf"\b{word}\b", text) is not None for text in texts) for word in query.split()
        }
        assert hits.total <= NOTES
        assert len(hits.best) >= min(10, hits.total)


def test_every_note_is_searched(large):
    """A word in a few notes, including the first and the last, is found in all of them."""
    hits = large.search(SEAL, 10)
    assert hits.total == len({path for path, _ in hits.best}) == hits.counts[SEAL] == SEALED
    assert all(any(SEAL in text for _, text in passage.lines) for _, passage in hits.best)
    assert large.files == NOTES
    assert large.complete


def test_matching_files_are_counted(call, write, by_files):
    """The notes below the hits count files and list the words that are in none."""
    write({f"{number}.md": "needle\n\n" * 9_000 for number in range(3)})
    result = call("search", query="needle haystack", limit=1).split("\n")
    assert result[-3:] == [
        "[files per word: needle 3]",
        "[in no file: haystack]",
        "[1 best of the passages of 3 files; read(path, offset=line-10, limit=40) shows more]",
    ]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("settings", "settings.md"),  # only in the file name
        ("http server", "camel.md"),  # joined
        ("timeout", "hyphen.md"),  # hyphenated in the file
        ("What is it?", "stop.md"),  # only stop words
        ("v0.3", "version.md"),
    ],
)
def test_other_spellings_are_found_at_query_time(call, write, monkeypatch, query, path):
    """The index holds only the words as written; other spellings are tried at query time."""
    monkeypatch.setattr(index_module, "LARGEST_CUT", 0)
    write(
        {
            "settings.md": "Nothing.",
            "camel.md": "See HttpServerConfig.",
            "hyphen.md": "The time-out tests.",
            "stop.md": "What it is.",
            "version.md": "We shipped v0.3 today, not 0.3v.",
            "server.md": "Http.\n\nA server.",
        }
    )
    result = call("search", query=query)
    assert path in {line.partition(":")[0] for line in result.split("\n")}
    assert "[in no file" not in result


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


def test_many_tiny_files_count_towards_the_size_limit(root, write, monkeypatch):
    """The fixed cost per file counts toward the size limit, so many tiny files are searched by files."""
    monkeypatch.setattr(index_module, "LARGEST_CUT", 1_000)
    write({f"{number}.md": "a" for number in range(5)})
    assert SearchIndex(Sandbox(root)).search("a", 1).unit == "files"


def test_reading_an_endless_file_stops_at_the_limit():
    """Reading an endless file stops at the requested limit."""

    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            self.given = getattr(self, "given", 0) + len(buffer)
            assert self.given < 1_000_000
            buffer[:] = b"a" * len(buffer)
            return len(buffer)

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            return offset

    assert read_text(SimpleNamespace(open=lambda _: io.BufferedReader(Endless())), "endless", 100_000) is None


def _gone(path: Path) -> None:
    path.unlink()


def _emptied(path: Path) -> None:
    path.write_text("")


def _swapped(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "secret.txt")


def _grown(path: Path) -> None:
    os.truncate(path, index_module.LARGEST_FILE + 1)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("change", [_gone, _emptied, _swapped, _grown])
def test_files_that_change_between_the_two_stages_yield_nothing(root, write, by_files, change: Callable[[Path], None]):
    """A file that was deleted, emptied, enlarged or replaced by a link yields nothing; the others are found."""
    write({f"{number:02}.md": f"The needle of {number}.\n" + "hay\n\n" * 900 for number in range(40)})
    index = SearchIndex(Sandbox(root))
    assert len(index.search("needle", 50).best) == 40
    for number in range(30):
        change(root / f"{number:02}.md")
    hits = index.search("needle", 10)
    assert [path for path, _ in hits.best] == [f"{number}.md" for number in range(30, 40)]
    for number in range(30, 40):
        change(root / f"{number:02}.md")
    assert index.search("needle", 10).best == ()


def test_a_search_that_runs_out_of_time_reports_it(call, write, by_files, monkeypatch):
    """When time runs out, the files read so far are searched, and a note reports it."""
    write({f"{number}.md": "needle\n" * 9_000 for number in range(9)})
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
