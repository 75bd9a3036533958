"""Ranked search over an index of passages."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

from run_specialist.tools.sandbox.sandbox import escape_path
from run_specialist.tools.search.fts import MatchingRows, Table, look_up
from run_specialist.tools.search.passages import Passage
from run_specialist.tools.search.terms import content_terms, variants

_CANDIDATES = 200
_PER_FILE = 3
_WEIGHTS = {"name": 2.0, "headings": 3.0, "body": 1.0, "variants": 0.8}


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that matches a query."""

    path: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Hits:
    """Result of a ranked search."""

    best: tuple[Hit, ...]
    unit: str
    """Unit of the counts: `passages` or `files`."""
    total: int
    """Number of units that contain any of the words."""
    counts: Mapping[str, int]
    """Number of units that contain each word of the query."""


class PassageIndex:
    """Index of all passages of a few files, including spelling variants."""

    def __init__(self, texts: Iterable[tuple[str, Iterable[Passage]]]) -> None:
        """Index the passages of each path."""
        self._hits: list[Hit] = []
        self._table = Table(_WEIGHTS, self._rows(texts), keeps_text=True)

    def search(self, query: str, limit: int) -> Hits:
        """Return the best passages that contain any word of the query, best first, at most a few per file."""
        found = look_up(self._table.rows, content_terms(query))
        counts = {term: len(rows) for term, rows in found.by_term.items()}
        return Hits(self._best(found, limit), "passages", len(found.any), counts)

    def _best(self, found: MatchingRows, limit: int) -> tuple[Hit, ...]:
        if not found.rows:
            return ()
        per_file: Counter[str] = Counter()
        best: list[Hit] = []
        for row in self._ranked(self._scores(found), found):
            hit = self._hits[row]
            per_file[hit.path] += 1
            if per_file[hit.path] <= _PER_FILE and len(best) < limit:
                best.append(hit)
        return tuple(best)

    def _ranked(self, scores: Mapping[int, float], found: MatchingRows) -> Sequence[int]:
        """Order rows by score, and by how much of the query the passage and its file contain."""
        weights = self._weights(found)
        total = sum(weights.values())
        in_passage: defaultdict[int, float] = defaultdict(float)
        in_file: defaultdict[str, float] = defaultdict(float)
        for expression, rows in found.rows.items():
            for row in rows:
                in_passage[row] += weights[expression] / total
            for path in {self._hits[row].path for row in rows}:
                in_file[path] += weights[expression] / total

        def key(row: int) -> tuple[float, int]:
            return -scores[row] * (0.5 + in_passage[row] + 0.5 * in_file[self._hits[row].path]), row

        return sorted(scores, key=key)

    def _scores(self, found: MatchingRows) -> Mapping[int, float]:
        """Return the scores of candidate passages."""
        return self._table.best(" OR ".join(found.rows), _CANDIDATES)

    def _weights(self, found: MatchingRows) -> Mapping[str, float]:
        """Return the weight of each expression: the rarer, the higher."""
        return {expression: log(1 + len(self._hits) / len(rows)) for expression, rows in found.rows.items()}

    def _rows(self, texts: Iterable[tuple[str, Iterable[Passage]]]) -> Iterator[tuple[int, str, str, str, str]]:
        for path, found in texts:
            name = f"{escape_path(path)} {variants(escape_path(path))}"
            for passage in found:
                row = len(self._hits)
                self._hits.append(Hit(path, passage))
                headings = "\n".join(title for _, title in passage.headings)
                yield row, name, headings, passage.text, variants(f"{headings}\n{passage.text}")
