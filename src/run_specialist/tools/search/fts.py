"""Tables in memory that find the rows that hold a word, and how a word of a query is looked up in them."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from run_specialist.tools.search.terms import STOP_WORDS, parts, spellings

_SHORTEST_PREFIX = 4
_BUFFER = 8_000_000
"""Words are sorted into the table when so much has come; by default so seldom is too often [bytes]."""


class Table:
    """Texts in named columns, by the number of their row; words count as equal that differ in ending or accents only.

    Threads may share it, one at a time.
    """

    def __init__(self, weights: Mapping[str, float], rows: Iterable[Sequence[str | int]], *, keeps_text: bool) -> None:
        """Fill a table, once.

        weights: what a word counts in each column.
        rows: the number of each, then its columns.
        keeps_text: False saves the memory, and half of the time.
        """
        import sqlite3  # noqa: PLC0415 - most runs of most commands never search

        self._ranked = (
            f"SELECT rowid, -bm25(held, {', '.join(map(str, weights.values()))}) FROM held WHERE held MATCH ?"  # noqa: S608 - numbers
            " ORDER BY rank LIMIT ?"
        )
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        options = ["tokenize = 'porter unicode61 remove_diacritics 2'", *(() if keeps_text else ["content = ''"])]
        connection.execute(f"CREATE VIRTUAL TABLE held USING fts5({', '.join([*weights, *options])})")
        connection.execute("INSERT INTO held(held, rank) VALUES ('hashsize', ?)", (_BUFFER,))
        connection.execute("BEGIN")
        marks = ", ".join("?" * (len(weights) + 1))
        connection.executemany(f"INSERT INTO held(rowid, {', '.join(weights)}) VALUES ({marks})", rows)  # noqa: S608 - names
        connection.execute("COMMIT")
        self._connection = connection
        weakref.finalize(self, connection.close)

    def rows(self, expression: str) -> set[int]:
        """Return the rows that an FTS5 expression finds."""
        return {row for (row,) in self._connection.execute("SELECT rowid FROM held WHERE held MATCH ?", (expression,))}

    def best(self, expression: str, count: int) -> dict[int, float]:
        """Return so many rows that an FTS5 expression finds, and how well each fits, best first."""
        return dict(self._connection.execute(self._ranked, (expression, count)).fetchall())

    def words(self) -> list[str]:
        """Return all words that stand in it, in lower case and without their endings."""
        # It is there already where this broke off once, for want of memory.
        self._connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, held, row)")
        return [word for (word,) in self._connection.execute("SELECT term FROM temp.word")]


@dataclass(slots=True)
class Found:
    """Where the words of a query stand."""

    rows: dict[str, set[int]]
    """By FTS5 expression, for those that stand anywhere."""
    by_term: dict[str, set[int]]
    """The rows of each word as it stands, or else in the first of its looser forms that is found; may be empty."""

    @property
    def any(self) -> set[int]:
        """The rows that hold any of the words."""
        return set().union(*self.rows.values())


def look_up(rows: Callable[[str], set[int]], terms: Iterable[str]) -> Found:
    """Look each word of a query up.

    rows: finds the rows of an FTS5 expression.
    """
    found = Found({}, {})
    for term in terms:
        hits = {expression: rows(expression) for expression in expressions(term)}
        if not any(hits.values()) and len(term) >= _SHORTEST_PREFIX:
            prefix = f'"{" ".join(parts(term))}" *'
            hits = {prefix: rows(prefix)}
        # The first expression is the term as it stands; the others are looser.
        found.by_term[term] = next((held for held in hits.values() if held), set())
        found.rows.update({expression: held for expression, held in hits.items() if held})
    return found


def expressions(term: str) -> list[str]:
    """Word a term as FTS5 phrases: the whole, other spellings, and the parts of an identifier."""
    pieces = parts(term)
    phrases = [" ".join(pieces), *(spelling.casefold() for spelling in spellings(term))]
    alone = [piece for piece in pieces if len(piece) > 1 and piece not in STOP_WORDS]
    return [f'"{phrase}"' for phrase in dict.fromkeys([*phrases, *alone])]
