"""In-memory full-text tables (SQLite FTS5), and the lookup of query words in them."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from run_specialist.tools.search.terms import STOP_WORDS, parts, spellings

_SHORTEST_PREFIX = 4
_HASH_SIZE = 8_000_000
"""Size of the FTS5 hash buffer; the default flushes too often [bytes]."""


class Table:
    """Full-text table with named columns; words match regardless of inflection and accents.

    Threads may share it, one at a time.
    """

    def __init__(self, weights: Mapping[str, float], rows: Iterable[Sequence[str | int]], *, keeps_text: bool) -> None:
        """Create and fill a table.

        weights: weight of a match in each column.
        rows: row number, then the columns.
        keeps_text: whether to store the text; False saves its memory and half of the time.
        """
        import sqlite3  # noqa: PLC0415 - most commands never search

        self._ranked = (
            f"SELECT rowid, -bm25(texts, {', '.join(map(str, weights.values()))}) FROM texts WHERE texts MATCH ?"  # noqa: S608 - only numbers
            " ORDER BY rank LIMIT ?"
        )
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        options = ["tokenize = 'porter unicode61 remove_diacritics 2'", *(() if keeps_text else ["content = ''"])]
        connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5({', '.join([*weights, *options])})")
        connection.execute("INSERT INTO texts(texts, rank) VALUES ('hashsize', ?)", (_HASH_SIZE,))
        connection.execute("BEGIN")
        placeholders = ", ".join("?" * (len(weights) + 1))
        connection.executemany(f"INSERT INTO texts(rowid, {', '.join(weights)}) VALUES ({placeholders})", rows)  # noqa: S608 - only column names
        connection.execute("COMMIT")
        self._connection = connection
        weakref.finalize(self, connection.close)

    def rows(self, expression: str) -> set[int]:
        """Return the rows that match an FTS5 expression."""
        return {
            row for (row,) in self._connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (expression,))
        }

    def best(self, expression: str, count: int) -> dict[int, float]:
        """Return up to `count` rows that match an FTS5 expression, with their BM25 scores, best first."""
        return dict(self._connection.execute(self._ranked, (expression, count)).fetchall())

    def words(self) -> list[str]:
        """Return all words of the table, in lower case and stemmed."""
        # It exists already if an earlier call ran out of memory.
        self._connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, texts, row)")
        return [word for (word,) in self._connection.execute("SELECT term FROM temp.word")]


@dataclass(slots=True)
class MatchingRows:
    """Rows that match the words of a query."""

    rows: dict[str, set[int]]
    """Rows by FTS5 expression, without expressions that match nothing."""
    by_term: dict[str, set[int]]
    """Rows by word: of its exact form, else of the first looser form that matches; may be empty."""

    @property
    def any(self) -> set[int]:
        """Rows that contain any of the words."""
        return set().union(*self.rows.values())


def look_up(rows: Callable[[str], set[int]], terms: Iterable[str]) -> MatchingRows:
    """Look up each word of a query.

    rows: returns the rows that match an FTS5 expression.
    """
    found = MatchingRows({}, {})
    for term in terms:
        hits = {expression: rows(expression) for expression in expressions(term)}
        if not any(hits.values()) and len(term) >= _SHORTEST_PREFIX:
            prefix = f'"{" ".join(parts(term))}" *'
            hits = {prefix: rows(prefix)}
        # The first expression is the exact term; the others are looser.
        found.by_term[term] = next((matching for matching in hits.values() if matching), set())
        found.rows.update({expression: matching for expression, matching in hits.items() if matching})
    return found


def expressions(term: str) -> list[str]:
    """Return FTS5 phrases for a term: the exact term, other spellings, and the parts of an identifier."""
    pieces = parts(term)
    phrases = [" ".join(pieces), *(spelling.casefold() for spelling in spellings(term))]
    alone = [piece for piece in pieces if len(piece) > 1 and piece not in STOP_WORDS]
    return [f'"{phrase}"' for phrase in dict.fromkeys([*phrases, *alone])]
