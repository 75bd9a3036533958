"""Ranked search over the passages of all visible text files, in memory."""

import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import log
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from run_specialist.errors import ToolError
from run_specialist.tools.listing import files
from run_specialist.tools.passages import Passage, passages
from run_specialist.tools.sandbox import Sandbox, shown
from run_specialist.tools.terms import STOP_WORDS, content_terms, parts, spellings, variants
from run_specialist.tools.text import Text, text_lines

if TYPE_CHECKING:
    import sqlite3

LARGEST_FILE = 2_000_000
"""Larger files are left out of the index [bytes]."""
LARGEST_INDEX = 100_000_000
"""No more than this is indexed [bytes]."""
LONGEST_BUILD = 20.0
"""A root too large to be read in this time is searched as far as it was read [s]."""
_PROSE = {".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".org", ""}
_CANDIDATES = 200
_PER_FILE = 3
_SHORTEST_PREFIX = 4
_TABLE = """
CREATE VIRTUAL TABLE passage USING fts5(
    name, headings, body, variants, tokenize = "porter unicode61 remove_diacritics 2")
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found."""

    path: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Hits:
    """What a ranked search came to."""

    best: tuple[Hit, ...]
    total: int
    """Passages that hold any of the words."""
    counts: Mapping[str, int]
    """For each word of the query, how many passages hold it."""


class Index:
    """Built once, at the first search; threads may share it."""

    def __init__(self, sandbox: Sandbox) -> None:
        """Remember where to look; nothing is read yet."""
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._hits: list[Hit] = []
        self._file_of: list[int] = []
        self.skipped: list[str] = []
        """Text files that are too large, or came after the index was full."""
        self.files = 0
        """How many files were read."""
        self.complete = True
        """False when there was no time to read all of them."""

    def search(self, query: str, limit: int) -> Hits:
        """Rank the passages that hold any word of the query, best first, at most a few of each file."""
        with self._lock:
            connection = self._connection or self._build()
            found, counts = _rows_by_term(connection, content_terms(query))
            if not found:
                return Hits((), 0, counts)
            expression = " OR ".join(found)
            ranked = connection.execute(
                "SELECT rowid, -bm25(passage, 2.0, 3.0, 1.0, 0.8) FROM passage WHERE passage MATCH ?"
                " ORDER BY rank LIMIT ?",
                (expression, _CANDIDATES),
            ).fetchall()
        rows = self._rerank(dict(ranked), found)
        per_file: Counter[int] = Counter()
        best: list[Hit] = []
        for row in rows:
            per_file[self._file_of[row]] += 1
            if per_file[self._file_of[row]] <= _PER_FILE and len(best) < limit:
                best.append(self._hits[row])
        return Hits(tuple(best), len(set().union(*found.values())), counts)

    def _rerank(self, scores: Mapping[int, float], found: Mapping[str, set[int]]) -> list[int]:
        """Order rows by score, and by how much of the query the passage and its file hold."""
        weights = {term: log(1 + len(self._hits) / len(rows)) for term, rows in found.items()}
        whole = sum(weights.values())
        near: defaultdict[int, float] = defaultdict(float)
        far: defaultdict[int, float] = defaultdict(float)
        for term, rows in found.items():
            for row in rows:
                near[row] += weights[term] / whole
            for file in {self._file_of[row] for row in rows}:
                far[file] += weights[term] / whole
        return sorted(scores, key=lambda row: (-scores[row] * (0.5 + near[row] + 0.5 * far[self._file_of[row]]), row))

    def _build(self) -> "sqlite3.Connection":
        import sqlite3  # noqa: PLC0415 - most runs of most commands never search

        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO passage(rowid, name, headings, body, variants) VALUES (?,?,?,?,?)", self._rows()
        )
        connection.execute("COMMIT")
        self._connection = connection
        weakref.finalize(self, connection.close)
        return connection

    def _rows(self) -> Iterator[tuple[int, str, str, str, str]]:
        size, begun = 0, time.monotonic()
        for path in files(self._sandbox):
            if time.monotonic() - begun > LONGEST_BUILD:
                self.complete = False
                return
            with suppress(ToolError), text_lines(self._sandbox, path) as text:
                if text.size > LARGEST_FILE or size + text.size > LARGEST_INDEX:
                    self.skipped.append(path)
                    continue
                size += text.size
                self.files += 1
                yield from self._rows_of(path, text)

    def _rows_of(self, path: str, text: Text) -> Iterator[tuple[int, str, str, str, str]]:
        name = f"{shown(path)} {variants(shown(path))}"
        prose = PurePosixPath(path).suffix.casefold() in _PROSE
        for passage in passages((line for line, _ in text.lines), prose=prose):
            row = len(self._hits)
            self._hits.append(Hit(path, passage))
            self._file_of.append(self.files)
            headings = "\n".join(title for _, title in passage.headings)
            yield row, name, headings, passage.text, variants(f"{headings}\n{passage.text}")


def _rows_by_term(connection: "sqlite3.Connection", terms: list[str]) -> tuple[dict[str, set[int]], dict[str, int]]:
    """Look each term up: the rows that each of its FTS5 expressions finds, and how many find the term."""
    found: dict[str, set[int]] = {}
    counts: dict[str, int] = {}
    for term in terms:
        hits = {expression: _rows(connection, expression) for expression in expressions(term)}
        if not any(hits.values()) and len(term) >= _SHORTEST_PREFIX:
            prefix = f'"{" ".join(parts(term))}" *'
            hits = {prefix: _rows(connection, prefix)}
        # The first expression is the term as it stands; the others are looser.
        counts[term] = next((len(rows) for rows in hits.values() if rows), 0)
        found |= {expression: rows for expression, rows in hits.items() if rows}
    return found, counts


def _rows(connection: "sqlite3.Connection", expression: str) -> set[int]:
    return {row for (row,) in connection.execute("SELECT rowid FROM passage WHERE passage MATCH ?", (expression,))}


def expressions(term: str) -> list[str]:
    """Word a term as FTS5 phrases: the whole, other spellings, and the parts of an identifier."""
    pieces = parts(term)
    phrases = [" ".join(pieces), *(spelling.casefold() for spelling in spellings(term))]
    alone = [piece for piece in pieces if len(piece) > 1 and piece not in STOP_WORDS]
    return [f'"{phrase}"' for phrase in dict.fromkeys([*phrases, *alone])]
