"""Ranked search over passages that were cut beforehand."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

from run_specialist.tools.sandbox.sandbox import shown
from run_specialist.tools.search.fts import Found, Table, look_up
from run_specialist.tools.search.passages import Passage
from run_specialist.tools.search.terms import content_terms, variants

_CANDIDATES = 200
_PER_FILE = 3
_WEIGHTS = {"name": 2.0, "headings": 3.0, "body": 1.0, "variants": 0.8}


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found."""

    path: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Hits:
    """What a ranked search came to."""

    best: tuple[Hit, ...]
    unit: str
    """What is counted: `passages` or `files`."""
    total: int
    """How many hold any of the words."""
    counts: Mapping[str, int]
    """For each word of the query, how many hold it."""


class PassageIndex:
    """All passages of a few files, with other spellings of what stands in them."""

    def __init__(self, texts: Iterable[tuple[str, Iterable[Passage]]]) -> None:
        """Read the passages of each path."""
        self._hits: list[Hit] = []
        self._table = Table(_WEIGHTS, self._rows(texts), keeps_text=True)

    def search(self, query: str, limit: int) -> Hits:
        """Rank the passages that hold any word of the query, best first, at most a few of each file."""
        found = look_up(self._table.rows, content_terms(query))
        counts = {term: len(rows) for term, rows in found.by_term.items()}
        return Hits(self._best(found, limit), "passages", len(found.any), counts)

    def _best(self, found: Found, limit: int) -> tuple[Hit, ...]:
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

    def _ranked(self, scores: Mapping[int, float], found: Found) -> Sequence[int]:
        """Order rows by score, and by how much of the query the passage and its file hold."""
        weights = self._weights(found)
        whole = sum(weights.values())
        near: defaultdict[int, float] = defaultdict(float)
        far: defaultdict[str, float] = defaultdict(float)
        for expression, rows in found.rows.items():
            for row in rows:
                near[row] += weights[expression] / whole
            for path in {self._hits[row].path for row in rows}:
                far[path] += weights[expression] / whole
        return sorted(scores, key=lambda row: (-scores[row] * (0.5 + near[row] + 0.5 * far[self._hits[row].path]), row))

    def _scores(self, found: Found) -> Mapping[int, float]:
        """Score the passages that may be among the best."""
        return self._table.best(" OR ".join(found.rows), _CANDIDATES)

    def _weights(self, found: Found) -> Mapping[str, float]:
        """Weigh what was found by how rare it is."""
        return {expression: log(1 + len(self._hits) / len(rows)) for expression, rows in found.rows.items()}

    def _rows(self, texts: Iterable[tuple[str, Iterable[Passage]]]) -> Iterator[tuple[int, str, str, str, str]]:
        for path, cut in texts:
            name = f"{shown(path)} {variants(shown(path))}"
            for passage in cut:
                row = len(self._hits)
                self._hits.append(Hit(path, passage))
                headings = "\n".join(title for _, title in passage.headings)
                yield row, name, headings, passage.text, variants(f"{headings}\n{passage.text}")
