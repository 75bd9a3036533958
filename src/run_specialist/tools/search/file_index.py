"""Ranked search over files that are too many to keep all their passages: the best are read again and cut."""

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
from run_specialist.tools.sandbox.sandbox import Sandbox, shown
from run_specialist.tools.sandbox.text import whole_text
from run_specialist.tools.search.fts import Found, Table, look_up
from run_specialist.tools.search.passage_index import Hit, Hits, PassageIndex
from run_specialist.tools.search.passages import Passage, is_prose, passages
from run_specialist.tools.search.terms import content_terms, ideographs, parts, variants

_STRETCH = 16_000
"""A longer file is ranked in stretches of this length, or it would drown what it says [characters]."""
_ABOVE = 24_000
"""How far above a stretch its headings are looked for [characters]."""
_CUT = 16
"""At least so many stretches are cut into passages for a query, if so many hold its words."""
_RANKED = 200
_JOINED = 3
"""So many words in a row may be one identifier."""
_AROUND = 50
"""Of the words around one that stands nowhere by itself so many are looked for."""
_SHORTEST = 4
_LONGEST = 40
_HEADING = re.compile(r"\n#.*")
_WEIGHTS = {"name": 2.0, "headings": 3.0, "body": 1.0, "signs": 0.8}


class _Stretch(NamedTuple):
    path: str
    start: int
    end: int


class FileIndex:
    """The words of very many files, neither the files themselves nor the other spellings of identifiers in them.

    So `HttpServerConfig` is found by `http server`, and by `server` if that stands nowhere by itself.
    """

    def __init__(self, sandbox: Sandbox, texts: Iterable[tuple[str, str]], largest: int) -> None:
        """Read the words of each path.

        largest: a file that has grown beyond this is not read again [bytes].
        """
        self._sandbox = sandbox
        self._largest = largest
        self._stretches: list[_Stretch] = []
        self._files_of: list[int] = []
        self._table = Table(_WEIGHTS, self._rows(texts), keeps_text=False)

    def search(self, query: str, limit: int) -> Hits:
        """Rank the passages of the files that fit the query best, at most a few of each file."""
        terms = content_terms(query)
        found = look_up(self._table.rows, terms)
        self._respell(found, terms)
        counts = {term: self._files(rows) for term, rows in found.by_term.items()}
        if not found.rows:
            return Hits((), "files", 0, counts)
        rarity = {expression: log(1 + len(self._stretches) / len(rows)) for expression, rows in found.rows.items()}
        most = max(_CUT, limit)
        cut = islice(self._cut(self._ranked(found, rarity, most)), most)
        best = _Closest(cut, rarity, rarest=log(1 + len(self._stretches))).closest(terms, limit)
        return Hits(best, "files", self._files(found.any), counts)

    def _respell(self, found: Found, terms: Sequence[str]) -> None:
        """Add what is found when words in a row are joined, and when one that stands nowhere is taken apart."""
        for start, count in product(range(len(terms)), range(2, _JOINED + 1)):
            run = terms[start : start + count]
            joined = f'"{"".join(piece for term in run for piece in parts(term))}" *'
            if len(run) == count and (held := self._table.rows(joined)):
                found.rows[joined] = held
                found.by_term.update({term: found.by_term[term] or held for term in run})
        for term in terms:
            word = term.casefold()
            if found.by_term[term] or parts(term) != [word] or not _SHORTEST <= len(word) <= _LONGEST:
                continue
            halves = (f"{word[:end]} {word[end:]}" for end in range(2, len(word) - 1))
            held_by = {f'"{form}"': self._table.rows(f'"{form}"') for form in chain(halves, self._around(word))}
            found.rows.update({form: held for form, held in held_by.items() if held})
            found.by_term[term] = set().union(*held_by.values())

    def _around(self, word: str) -> Iterator[str]:
        """Yield some of the longer words that a word is a part of."""
        at = self._words.find(word)
        for _ in range(_AROUND):
            if at < 0:
                return
            end = self._words.index("\n", at)
            yield self._words[self._words.rindex("\n", 0, at) + 1 : end]
            at = self._words.find(word, end)

    @cached_property
    def _words(self) -> str:
        # Most searches find what they look for, and need no list of all that there is.
        return "\n".join(["", *self._table.words(), ""])

    def _files(self, rows: Iterable[int]) -> int:
        return len(set(map(self._files_of.__getitem__, rows)))

    def _ranked(self, found: Found, rarity: Mapping[str, float], least: int) -> Sequence[int]:
        """Order stretches by score, and by how much of the query they hold."""
        # What stands nearly everywhere says nothing, and takes long to score.
        telling = [expression for expression, rows in found.rows.items() if 2 * len(rows) < len(self._stretches)]
        scores = self._table.best(" OR ".join(telling), _RANKED) if telling else {}
        if len(scores) < least:
            scores = self._table.best(" OR ".join(found.rows), _RANKED)
        whole = sum(rarity.values())
        held: defaultdict[int, float] = defaultdict(float)
        for expression, rows in found.rows.items():
            for row in rows & scores.keys():
                held[row] += rarity[expression] / whole
        return sorted(scores, key=lambda row: (-scores[row] * held[row], row))

    def _cut(self, rows: Iterable[int]) -> Iterator[tuple[str, list[Passage]]]:
        """Read stretches again and cut them; one that is gone is passed over."""
        for path, start, end in map(self._stretches.__getitem__, rows):
            with suppress(ToolError):
                text, _ = whole_text(self._sandbox, path, self._largest) or ("", 0)
                above = text.find("\n", start - _ABOVE, start) + 1 or start if start > _ABOVE else 0
                first = text.count("\n", 0, above) + 1
                begun = text.count("\n", above, start) + first
                found = passages(lines_in(text[above:end]), prose=is_prose(path), first=first)
                if end and start >= len(text):
                    continue
                yield path, [each for each in found if not start or (each.lines and each.lines[-1][0] >= begun)]

    def _rows(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str, str, str, str]]:
        for number, (path, text) in enumerate(texts):
            name = shown(path)
            name = f"{name} {variants(name)}"
            for start, end in _ends(text):
                body = text[start:end]
                self._stretches.append(_Stretch(path, start, end))
                self._files_of.append(number)
                headings = "".join(_HEADING.findall(f"\n{body}")) if is_prose(path) else ""
                yield len(self._stretches) - 1, name, headings, body, "" if body.isascii() else ideographs(body)


class _Closest(PassageIndex):
    """Passages of the best files, where what was found in all files counts by how rare it is there, not in these."""

    def __init__(
        self, texts: Iterable[tuple[str, Iterable[Passage]]], rarity: Mapping[str, float], rarest: float
    ) -> None:
        """Read the passages of each path.

        rarity: of each FTS5 expression that stands in any file.
        rarest: of what stands in these in another spelling only.
        """
        super().__init__(texts)
        self._rarity = rarity
        self._rarest = rarest

    def closest(self, terms: Iterable[str], limit: int) -> tuple[Hit, ...]:
        """Return the passages that fit best, at most a few of each file."""
        found = look_up(self._table.rows, terms)
        for expression in self._rarity:
            if expression not in found.rows and (held := self._table.rows(expression)):
                found.rows[expression] = held
        return self._best(found, limit)

    def _ranked(self, scores: Mapping[int, float], found: Found) -> Sequence[int]:
        """Order rows as ever, without those that stand in a better one: stretches overlap at their edges."""
        seen: set[tuple[str, int, str]] = set()
        kept: list[int] = []
        for row in super()._ranked(scores, found):
            lines = {(self._hits[row].path, number, text) for number, text in self._hits[row].passage.lines}
            if seen.isdisjoint(lines):
                kept.append(row)
                seen |= lines
        return kept

    def _scores(self, found: Found) -> Mapping[int, float]:
        scores: defaultdict[int, float] = defaultdict(float)
        weights = self._weights(found)
        for expression, rows in found.rows.items():
            # FTS5 multiplies with this, as rare as the expression is here.
            here = max(1e-6, log((len(self._hits) - len(rows) + 0.5) / (len(rows) + 0.5)))
            for row, score in self._table.best(expression, len(rows)).items():
                scores[row] += score / here * weights[expression]
        return scores

    def _weights(self, found: Found) -> Mapping[str, float]:
        return {expression: self._rarity.get(expression, self._rarest) for expression in found.rows}


def _ends(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each stretch of a text begins and ends, at the end of a line if there is one."""
    start = 0
    while len(text) - start > _STRETCH:
        end = text.rfind("\n", start + _STRETCH // 2, start + _STRETCH) + 1 or start + _STRETCH
        yield start, end
        start = end
    yield start, len(text)
