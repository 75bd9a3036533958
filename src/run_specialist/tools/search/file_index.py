"""Ranked search over too many files to keep all passages: the best files are read again and split."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, islice, product
from math import log
from typing import NamedTuple

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.linescan import lines_in
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path
from run_specialist.tools.sandbox.text import read_text
from run_specialist.tools.search.fts import MatchingRows, Table, look_up
from run_specialist.tools.search.passage_index import Hit, Hits, PassageIndex
from run_specialist.tools.search.passages import Passage, is_prose, passages
from run_specialist.tools.search.terms import content_terms, ideographs, parts, variants

_CHUNK_LENGTH = 16_000
"""Length above which a file is ranked in chunks, since its length would lower its rank [characters]."""
_HEADING_LOOKBACK = 24_000
"""Distance before a chunk that is searched for its headings [characters]."""
_MIN_CHUNKS = 16
"""Minimum number of matching chunks to split into passages for a query."""
_MAX_RANKED = 200
_MAX_JOINED = 3
"""Maximum number of consecutive words tried as one identifier."""
_MAX_CONTAINING = 50
"""Maximum number of longer words tried in place of a word that does not occur by itself."""
_MIN_WORD = 4
_MAX_WORD = 40
_HEADING = re.compile(r"\n#.*")
_WEIGHTS = {"name": 2.0, "headings": 3.0, "body": 1.0, "ideographs": 0.8}


class _Chunk(NamedTuple):
    path: str
    start: int
    end: int


class FileIndex:
    """Index of the words of very many files, without their text and without spelling variants.

    Queries are expanded instead: `HttpServerConfig` is found by `http server`, and by `server` if that word does not
    occur by itself.
    """

    def __init__(self, sandbox: Sandbox, texts: Iterable[tuple[str, str]], largest: int) -> None:
        """Index the words of each path.

        largest: maximum size of a file to read again, in case it has grown [bytes].
        """
        self._sandbox = sandbox
        self._largest = largest
        self._chunks: list[_Chunk] = []
        self._files_of: list[int] = []
        self._table = Table(_WEIGHTS, self._rows(texts), keeps_text=False)

    def search(self, query: str, limit: int) -> Hits:
        """Rank the passages of the best files, at most a few per file."""
        terms = content_terms(query)
        found = look_up(self._table.rows, terms)
        self._expand(found, terms)
        counts = {term: self._count_files(rows) for term, rows in found.by_term.items()}
        if not found.rows:
            return Hits((), "files", 0, counts)
        rarity = {expression: log(1 + len(self._chunks) / len(rows)) for expression, rows in found.rows.items()}
        most = max(_MIN_CHUNKS, limit)
        passages_by_path = islice(self._split(self._ranked(found, rarity, most)), most)
        best = _Reranker(passages_by_path, rarity, rarest=log(1 + len(self._chunks))).rerank(terms, limit)
        return Hits(best, "files", self._count_files(found.any), counts)

    def _expand(self, found: MatchingRows, terms: Sequence[str]) -> None:
        """Add the rows that match consecutive words joined, and parts of a word that does not occur by itself."""
        for start, count in product(range(len(terms)), range(2, _MAX_JOINED + 1)):
            words = terms[start : start + count]
            joined = f'"{"".join(piece for term in words for piece in parts(term))}" *'
            if len(words) == count and (matching := self._table.rows(joined)):
                found.rows[joined] = matching
                found.by_term.update({term: found.by_term[term] or matching for term in words})
        for term in terms:
            word = term.casefold()
            if found.by_term[term] or parts(term) != [word] or not _MIN_WORD <= len(word) <= _MAX_WORD:
                continue
            splits = (f"{word[:end]} {word[end:]}" for end in range(2, len(word) - 1))
            matching_by_form = {
                f'"{form}"': self._table.rows(f'"{form}"') for form in chain(splits, self._words_containing(word))
            }
            found.rows.update({form: matching for form, matching in matching_by_form.items() if matching})
            found.by_term[term] = set().union(*matching_by_form.values())

    def _words_containing(self, word: str) -> Iterator[str]:
        """Yield some of the longer words that contain a word."""
        at = self._words.find(word)
        for _ in range(_MAX_CONTAINING):
            if at < 0:
                return
            end = self._words.index("\n", at)
            yield self._words[self._words.rindex("\n", 0, at) + 1 : end]
            at = self._words.find(word, end)

    @cached_property
    def _words(self) -> str:
        # Built on demand: most searches do not need the list of all words.
        return "\n".join(["", *self._table.words(), ""])

    def _count_files(self, rows: Iterable[int]) -> int:
        return len(set(map(self._files_of.__getitem__, rows)))

    def _ranked(self, found: MatchingRows, rarity: Mapping[str, float], least: int) -> Sequence[int]:
        """Order chunks by score, and by how much of the query they contain."""
        # Very frequent words do not discriminate, and are slow to score.
        selective = [expression for expression, rows in found.rows.items() if 2 * len(rows) < len(self._chunks)]
        scores = self._table.best(" OR ".join(selective), _MAX_RANKED) if selective else {}
        if len(scores) < least:
            scores = self._table.best(" OR ".join(found.rows), _MAX_RANKED)
        total = sum(rarity.values())
        matching: defaultdict[int, float] = defaultdict(float)
        for expression, rows in found.rows.items():
            for row in rows & scores.keys():
                matching[row] += rarity[expression] / total
        return sorted(scores, key=lambda row: (-scores[row] * matching[row], row))

    def _split(self, rows: Iterable[int]) -> Iterator[tuple[str, list[Passage]]]:
        """Read chunks again and split them into passages; skip those that no longer exist."""
        for path, start, end in map(self._chunks.__getitem__, rows):
            with suppress(ToolError):
                text, _ = read_text(self._sandbox, path, self._largest) or ("", 0)
                lookback = start - _HEADING_LOOKBACK
                before = text.find("\n", lookback, start) + 1 or start if lookback > 0 else 0
                first = text.count("\n", 0, before) + 1
                first_line = text.count("\n", before, start) + first
                found = passages(lines_in(text[before:end]), prose=is_prose(path), first=first)
                if end and start >= len(text):
                    continue
                yield path, [one for one in found if not start or (one.lines and one.lines[-1][0] >= first_line)]

    def _rows(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str, str, str, str]]:
        for number, (path, text) in enumerate(texts):
            name = escape_path(path)
            name = f"{name} {variants(name)}"
            for start, end in _chunk_bounds(text):
                body = text[start:end]
                self._chunks.append(_Chunk(path, start, end))
                self._files_of.append(number)
                headings = "".join(_HEADING.findall(f"\n{body}")) if is_prose(path) else ""
                yield len(self._chunks) - 1, name, headings, body, "" if body.isascii() else ideographs(body)


class _Reranker(PassageIndex):
    """Passages of the best files, ranked by the rarity of words in all files instead of in these few."""

    def __init__(
        self, texts: Iterable[tuple[str, Iterable[Passage]]], rarity: Mapping[str, float], rarest: float
    ) -> None:
        """Index the passages of each path.

        rarity: rarity of each FTS5 expression that occurs in any file.
        rarest: rarity of expressions that match only other spellings in these passages.
        """
        super().__init__(texts)
        self._rarity = rarity
        self._rarest = rarest

    def rerank(self, terms: Iterable[str], limit: int) -> tuple[Hit, ...]:
        """Return the best passages, at most a few per file."""
        found = look_up(self._table.rows, terms)
        for expression in self._rarity:
            if expression not in found.rows and (matching := self._table.rows(expression)):
                found.rows[expression] = matching
        return self._best(found, limit)

    def _ranked(self, scores: Mapping[int, float], found: MatchingRows) -> Sequence[int]:
        """Order rows as the base class does, without lines repeated from better rows: chunks overlap at their edges."""
        seen: set[tuple[str, int, str]] = set()
        distinct: list[int] = []
        for row in super()._ranked(scores, found):
            lines = {(self._hits[row].path, number, text) for number, text in self._hits[row].passage.lines}
            if seen.isdisjoint(lines):
                distinct.append(row)
                seen |= lines
        return distinct

    def _scores(self, found: MatchingRows) -> Mapping[int, float]:
        scores: defaultdict[int, float] = defaultdict(float)
        weights = self._weights(found)
        for expression, rows in found.rows.items():
            # FTS5 weighted the score with the rarity in these passages; replace it.
            here = max(1e-6, log((len(self._hits) - len(rows) + 0.5) / (len(rows) + 0.5)))
            for row, score in self._table.best(expression, len(rows)).items():
                scores[row] += score / here * weights[expression]
        return scores

    def _weights(self, found: MatchingRows) -> Mapping[str, float]:
        return {expression: self._rarity.get(expression, self._rarest) for expression in found.rows}


def _chunk_bounds(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each chunk of a text, at line ends where possible."""
    start = 0
    while len(text) - start > _CHUNK_LENGTH:
        end = text.rfind("\n", start + _CHUNK_LENGTH // 2, start + _CHUNK_LENGTH) + 1 or start + _CHUNK_LENGTH
        yield start, end
        start = end
    yield start, len(text)
