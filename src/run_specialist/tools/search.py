"""Ranked search: passages, terms, full-text tables."""

import re
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, product
from math import log
from pathlib import PurePosixPath

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox import Sandbox, escape_path, files, read_text
from run_specialist.tools.scripts import lines_in

_SHORTEST_PREFIX = 4


Rows = dict[str, set[int]]
"""Numbers of the rows that match each FTS5 expression, or each word."""


class Table:
    """Full-text table with named columns; words match regardless of inflection and accents.

    Threads may share it, one at a time.
    """

    def __init__(self, weights: Mapping[str, float], rows: Iterable[Sequence[str | int]]) -> None:
        """Create and fill a table.

        weights: weight of a match in each column.
        rows: row number, then the columns.
        """
        import sqlite3  # noqa: PLC0415 - most commands never search

        self._ranked = (
            f"SELECT rowid, -bm25(texts, {', '.join(map(str, weights.values()))}) FROM texts WHERE texts MATCH ?"  # noqa: S608 - only numbers
            " ORDER BY rank LIMIT ?"
        )
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        # Without the text itself, it takes half of the time and less memory.
        options = "tokenize = 'porter unicode61 remove_diacritics 2', content = ''"
        connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5({', '.join(weights)}, {options})")
        # With the default size of its buffer [bytes], it is written too often.
        connection.execute("INSERT INTO texts(texts, rank) VALUES ('hashsize', 8000000)")
        connection.execute("BEGIN")
        placeholders = ", ".join("?" * (len(weights) + 1))
        connection.executemany(f"INSERT INTO texts(rowid, {', '.join(weights)}) VALUES ({placeholders})", rows)  # noqa: S608 - only column names
        connection.execute("COMMIT")
        self._connection = connection
        weakref.finalize(self, connection.close)

    def rows(self, expression: str) -> set[int]:
        """Return the rows that match an FTS5 expression."""
        found = self._connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (expression,))
        return {row for (row,) in found}

    def look_up(self, terms: Iterable[str]) -> tuple[Rows, Rows]:
        """Look up each word of a query; return the rows of its expressions that match, and those of each word.

        The rows of a word are those of its exact form, else of the first looser form that matches; maybe none.
        """
        by_expression: Rows = {}
        by_term: Rows = {}
        for term in terms:
            hits = {expression: self.rows(expression) for expression in expressions(term)}
            if not any(hits.values()) and len(term) >= _SHORTEST_PREFIX:
                prefix = f'"{" ".join(parts(term))}" *'
                hits = {prefix: self.rows(prefix)}
            # The first expression is the exact term; the others are looser.
            by_term[term] = next((matching for matching in hits.values() if matching), set())
            by_expression |= {expression: matching for expression, matching in hits.items() if matching}
        return by_expression, by_term

    def best(self, expression: str, count: int) -> dict[int, float]:
        """Return up to `count` rows that match an FTS5 expression, with their BM25 scores, best first."""
        return dict(self._connection.execute(self._ranked, (expression, count)).fetchall())


def expressions(term: str) -> list[str]:
    """Return FTS5 phrases for a term: the exact term, other spellings, and the parts of an identifier."""
    pieces = parts(term)
    phrases = [" ".join(pieces), *(spelling.casefold() for spelling in spellings(term))]
    alone = [piece for piece in pieces if len(piece) > 1 and piece not in STOP_WORDS]
    return [f'"{phrase}"' for phrase in dict.fromkeys([*phrases, *alone])]


_PROSE = {".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".org", ""}
# Minimum length at which a passage ends at the next good break [characters].
_TARGET_SIZE = 600
_HEADING = re.compile(r"(#{1,6})\s+[^\s#]")
_UNDERLINES = frozenset('=-~^"*')
_NOT_IN_TITLE = frozenset(("", *"|->#* \t"))
_FENCES = ("```", "~~~")
_BREAKS = (re.compile(r"[.!?]\s+"), re.compile(r"\s+"))


Line = tuple[int, str]
"""Line number, from 1, and text; `…` marks where a long line was split."""


@dataclass(slots=True)
class Passage:
    """Consecutive lines below one heading."""

    headings: tuple[Line, ...]
    """Headings from the title down to the nearest one."""
    lines: list[Line] = field(default_factory=list)
    """Nonempty lines."""
    size: int = 0
    """Total length of the lines [characters]."""

    @property
    def text(self) -> str:
        """Lines as one string."""
        return "\n".join(text for _, text in self.lines)


def is_prose(path: str) -> bool:
    """Return whether a file is prose, not code, by its extension."""
    return PurePosixPath(path).suffix.casefold() in _PROSE


def passages(lines: Iterable[str], *, prose: bool, first: int = 1) -> Iterator[Passage]:
    """Split lines into passages, at headings, at blank lines and after enough text.

    prose: False for code, where a leading `#` is not a heading.
    first: number of the first line.
    """
    for headings, section in _sections(enumerate(lines, first), prose=prose):
        passage = Passage(headings)
        for number, line in section:
            if passage.size > (2 * _TARGET_SIZE if line else _TARGET_SIZE):
                yield passage
                passage = Passage(headings)
            for part in [line] if len(line) <= _TARGET_SIZE else _parts(line):
                if passage.size > _TARGET_SIZE // 2 and part is not line:
                    yield passage
                    passage = Passage(headings)
                if part:
                    passage.lines.append((number, part))
                    passage.size += len(part)
        yield passage


def _sections(lines: Iterable[Line], *, prose: bool) -> Iterator[tuple[tuple[Line, ...], list[Line]]]:
    """Yield the headings and the lines of each section; blank lines become empty."""
    headings: dict[int, Line] = {}
    section: list[Line] = []
    fence = ""
    for number, line in lines:
        start, before = line.lstrip()[:3], fence
        # The fence of the code block or front matter that is open after this line; empty if none is.
        if fence:
            fence = "" if start == fence else fence
        elif start in _FENCES or (number == 1 and start == "---"):
            fence = start
        level = _level(line, section) if prose and not (fence or before) else 0
        if not level:
            section.append((number, line if start else ""))
            continue
        # An underline makes the line before it a heading.
        title = (number, line) if line[0] == "#" else section.pop()
        if any(text for _, text in section):
            yield tuple(headings.values()), section
        elif level <= max(headings, default=0):
            *above, last = headings.values()
            yield tuple(above), [last]
        headings = {depth: heading for depth, heading in headings.items() if depth < level} | {level: title}
        section = []
    yield tuple(headings.values()), section or [*headings.values()][-1:]


def _level(line: str, section: Sequence[Line]) -> int:
    """Return the level of the heading that this line is or underlines; 0 if none."""
    if line.startswith("#"):
        heading = _HEADING.match(line)
        return len(heading[1]) if heading else 0
    if line[:1] not in _UNDERLINES or not section:
        return 0
    above, underline = section[-1][1], line.strip()
    underlined = len(set(underline)) == 1 and len(underline) >= max(3, len(above.strip()) - 1)
    return (1 if underline[0] == "=" else 2) if underlined and above[:1] not in _NOT_IN_TITLE else 0


def _parts(line: str) -> Iterator[str]:
    """Split a long line after sentences, else between words, and mark the splits."""
    start = 0
    while start < len(line):
        end = start + _TARGET_SIZE
        if end < len(line):
            ends = [[found.end() for found in kind.finditer(line, start + _TARGET_SIZE // 2, end)] for kind in _BREAKS]
            end = next((good[-1] for good in ends if good), end)
        yield f"{'… ' if start else ''}{line[start:end].strip()}{' …' if end < len(line) else ''}"
        start = end


_CANDIDATES = 200
_PER_FILE = 3
_WEIGHTS = {"name": 2.0, "headings": 3.0, "body": 1.0, "variants": 0.8}


Hit = tuple[str, Passage]
"""Path and passage that match a query."""


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

    def __init__(
        self, texts: Iterable[tuple[str, Iterable[Passage]]], rarity: Mapping[str, float] | None = None
    ) -> None:
        """Index the passages of each path.

        rarity: rarity of each FTS5 expression in all files, if these are only the best; their passages may overlap.
        """
        self._hits: list[Hit] = []
        self._rarity = rarity
        self._table = Table(_WEIGHTS, self._rows(texts))

    def search(self, query: str, limit: int) -> Hits:
        """Return the best passages that contain any word of the query, best first, at most a few per file."""
        found, by_term = self._table.look_up(content_terms(query))
        for expression in self._rarity or ():
            if expression not in found and (matching := self._table.rows(expression)):
                found[expression] = matching
        per_file: Counter[str] = Counter()
        best: list[Hit] = []
        seen: set[tuple[str, int, str]] = set()
        for row in self._ranked(found) if found else ():
            path, passage = self._hits[row]
            lines = {(path, number, text) for number, text in passage.lines}
            if self._rarity is not None and not seen.isdisjoint(lines):
                continue
            seen |= lines
            per_file[path] += 1
            if per_file[path] <= _PER_FILE and len(best) < limit:
                best.append((path, passage))
        counts = {term: len(rows) for term, rows in by_term.items()}
        return Hits(tuple(best), "passages", len(set().union(*found.values())), counts)

    def _ranked(self, found: Rows) -> Sequence[int]:
        """Order rows by score, and by how much of the query the passage and its file contain."""
        scores: dict[int, float] = defaultdict(float)
        if self._rarity is None:
            weights = {expression: log(1 + len(self._hits) / len(rows)) for expression, rows in found.items()}
            scores = self._table.best(" OR ".join(found), _CANDIDATES)
        else:
            # Expressions that match only other spellings in these passages are rare.
            rarest = max(self._rarity.values())
            weights = {expression: self._rarity.get(expression, rarest) for expression in found}
            for expression, rows in found.items():
                # FTS5 weighted the score with the rarity in these passages; replace it.
                here = max(1e-6, log((len(self._hits) - len(rows) + 0.5) / (len(rows) + 0.5)))
                for row, score in self._table.best(expression, len(rows)).items():
                    scores[row] += score / here * weights[expression]
        total = sum(weights.values())
        in_passage: defaultdict[int, float] = defaultdict(float)
        in_file: defaultdict[str, float] = defaultdict(float)
        for expression, rows in found.items():
            for row in rows:
                in_passage[row] += weights[expression] / total
            for path in {self._hits[row][0] for row in rows}:
                in_file[path] += weights[expression] / total

        def key(row: int) -> tuple[float, int]:
            return -scores[row] * (0.5 + in_passage[row] + 0.5 * in_file[self._hits[row][0]]), row

        return sorted(scores, key=key)

    def _rows(self, texts: Iterable[tuple[str, Iterable[Passage]]]) -> Iterator[tuple[int, str, str, str, str]]:
        for path, found in texts:
            name = f"{escape_path(path)} {variants(escape_path(path))}"
            for passage in found:
                row = len(self._hits)
                self._hits.append((path, passage))
                headings = "\n".join(title for _, title in passage.headings)
                yield row, name, headings, passage.text, variants(f"{headings}\n{passage.text}")


STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any anyone anything are aren't as at back be because
    been before being below between both but by came can can't cannot come could couldn't did didn't do does
    doesn't doing don't done down during each either else ever every everything exactly few find for from
    further gave get give given gives go got had hadn't has hasn't have haven't having he hence her here him his
    how however i if in into is isn't it its itself just know known let like made make many may me might more
    most much must my need neither no nor not now of off often on once one only or other our out over own per
    please really same say says shall she should since so some something such take taken tell than that that's
    the their them then there these they thing things this those though through to too under until up upon us
    use used very was wasn't way we well went were weren't what what's when where whether which while who whom
    whose why will with within without won't would wouldn't yes yet you your
    """.split()  # noqa: SIM905 - more readable than 200 quoted words
)
"""English words that do not help to find the topic of a question."""

_TOKEN = re.compile(r"\w+(?:[.:/+#@'’-]+\w+)*(?:\+\+|#)?")
_PART = re.compile(r"[^\W_]+")
# Characters around a word that cannot begin or end a token.
_AROUND = ".,;:!?()[]{}<>\"'`*|"
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def tokens(text: str) -> Iterator[str]:
    """Yield the words of a text; identifiers, versions and paths stay in one piece."""
    for match in _TOKEN.finditer(text.replace("’", "'")):
        yield match[0].removesuffix("'s").strip("'")


def parts(token: str) -> list[str]:
    """Split a token into runs of letters and digits, in lower case, as the index does."""
    return [part.casefold() for part in _PART.findall(token)]


def variants(text: str) -> str:
    """Return the distinct spelling variants of the identifiers in a text, to be indexed with it."""
    # Most words are plain, apart from punctuation and a capital letter.
    words = dict.fromkeys(word.strip(_AROUND) for word in text.split())
    odd = (word for word in words if not (word.isalpha() and word.isascii() and word[1:].islower()))
    return " ".join(filter(None, map(_variants, odd)))


@lru_cache(maxsize=262_144)
def _variants(word: str) -> str:
    return " ".join(spelling for token in tokens(word) for spelling in spellings(token))


def spellings(token: str) -> Iterator[str]:
    """Yield spelling variants of a token.

    `HttpServerConfig` as `Http Server Config`, `time-out` as `timeout`, ideographs one by one.
    """
    # Most tokens are plain words; an index asks about each of them.
    if not token.islower() and len(split := _CAMEL.findall(token)) > 1:
        yield " ".join(split)
    if not token.isalnum() and (joined := "".join(_PART.findall(token))) != token:
        yield joined
    if separated := ideographs(token):
        yield separated


def ideographs(text: str) -> str:
    """Return the ideographs of a text separated by spaces, to be indexed with it."""
    return "" if text.isascii() else " ".join(_IDEOGRAPHS.findall(text))


def content_terms(query: str) -> list[str]:
    """Return the distinct tokens of a query, in order, without stop words and single lowercase letters.

    If nothing else remains, these are returned.
    """
    found = list(dict.fromkeys(token for token in tokens(query) if parts(token)))
    terms: dict[str, str] = {}
    for token in found:
        if token.casefold() not in STOP_WORDS and (len(token) > 1 or not token.islower()):
            terms.setdefault(token.casefold(), token)
    return list(terms.values()) or found


def stems(text: str) -> set[str]:
    """Return the stems of all words in a text."""
    return {stem(part) for part in _PART.findall(text)}


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return a rough stem of an English word, so that its inflections compare equal."""
    word = word.casefold()
    for suffix, least in (("ies", 5), ("ied", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4), ("ly", 6)):
        if len(word) >= least and word.endswith(suffix) and not word.endswith("ss"):
            word = word[: -len(suffix)] + ("y" if suffix in {"ies", "ied"} else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":  # noqa: PLR2004 - planned, plan
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 - a short word keeps its e


# Length above which a file is ranked in chunks, since its length would lower its rank [characters].
_CHUNK_LENGTH = 16_000
# Distance before a chunk that is searched for its headings [characters].
_HEADING_LOOKBACK = 24_000
# Minimum number of matching chunks to split into passages for a query.
_MIN_CHUNKS = 16
_MAX_RANKED = 200
# Maximum number of consecutive words tried as one identifier.
_MAX_JOINED = 3
_MAX_WORD = 40
_FILE_WEIGHTS = {"name": 2.0, "headings": 3.0, "body": 1.0, "ideographs": 0.8}


class FileIndex:
    """Index of the words of very many files, without their text and without spelling variants.

    Queries are expanded instead: `HttpServerConfig` is found by `http server`.
    """

    def __init__(self, sandbox: Sandbox, texts: Iterable[tuple[str, str]], largest: int) -> None:
        """Index the words of each path.

        largest: maximum size of a file to read again, in case it has grown [bytes].
        """
        self._sandbox = sandbox
        self._largest = largest
        self._chunks: list[tuple[str, int, int]] = []
        self._table = Table(_FILE_WEIGHTS, self._rows(texts))

    def search(self, query: str, limit: int) -> Hits:
        """Rank the passages of the best files, at most a few per file."""
        terms = content_terms(query)
        found, by_term = self._table.look_up(terms)
        self._expand(found, by_term, terms)
        counts = {term: self._count_files(rows) for term, rows in by_term.items()}
        if not found:
            return Hits((), "files", 0, counts)
        rarity = {expression: log(1 + len(self._chunks) / len(rows)) for expression, rows in found.items()}
        most = max(_MIN_CHUNKS, limit)
        passages_by_path = islice(self._split(self._ranked(found, rarity, most)), most)
        best = PassageIndex(passages_by_path, rarity).search(query, limit).best
        return Hits(best, "files", self._count_files(set().union(*found.values())), counts)

    def _expand(self, found: Rows, by_term: Rows, terms: Sequence[str]) -> None:
        """Add the rows that match consecutive words joined, and the two parts of a word that does not occur."""
        for start, count in product(range(len(terms)), range(2, _MAX_JOINED + 1)):
            words = terms[start : start + count]
            joined = f'"{"".join(piece for term in words for piece in parts(term))}" *'
            if len(words) == count and (matching := self._table.rows(joined)):
                found[joined] = matching
                by_term.update({term: by_term[term] or matching for term in words})
        for term in terms:
            word = term.casefold()
            if by_term[term] or parts(term) != [word] or len(word) > _MAX_WORD:
                continue
            for end in range(2, len(word) - 1):
                split = f'"{word[:end]} {word[end:]}"'
                if matching := self._table.rows(split):
                    found[split] = matching
                    by_term[term] |= matching

    def _count_files(self, rows: Iterable[int]) -> int:
        return len({self._chunks[row][0] for row in rows})

    def _ranked(self, found: Rows, rarity: Mapping[str, float], least: int) -> Sequence[int]:
        """Order chunks by score, and by how much of the query they contain."""
        # Very frequent words do not discriminate, and are slow to score.
        selective = [expression for expression, rows in found.items() if 2 * len(rows) < len(self._chunks)]
        scores = self._table.best(" OR ".join(selective), _MAX_RANKED) if selective else {}
        if len(scores) < least:
            scores = self._table.best(" OR ".join(found), _MAX_RANKED)
        total = sum(rarity.values())
        matching: defaultdict[int, float] = defaultdict(float)
        for expression, rows in found.items():
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
        for path, text in texts:
            name = f"{escape_path(path)} {variants(escape_path(path))}"
            for start, end in _chunk_bounds(text):
                body = text[start:end]
                self._chunks.append((path, start, end))
                headings = "".join(re.findall(r"\n#.*", f"\n{body}")) if is_prose(path) else ""
                yield len(self._chunks) - 1, name, headings, body, "" if body.isascii() else ideographs(body)


def _chunk_bounds(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each chunk of a text, at line ends where possible."""
    start = 0
    while len(text) - start > _CHUNK_LENGTH:
        end = text.rfind("\n", start + _CHUNK_LENGTH // 2, start + _CHUNK_LENGTH) + 1 or start + _CHUNK_LENGTH
        yield start, end
        start = end
    yield start, len(text)


LARGEST_FILE = 2_000_000
"""Maximum size of an indexed file; larger ones are skipped [bytes]."""
# Maximum total size of the indexed files [bytes].
_LARGEST_INDEX = 100_000_000
LARGEST_CUT = 8_000_000
"""Maximum total length for a passage index [characters]; above it, the first search would take too long."""
# Timeout for reading the files, after which those read so far are searched [s].
#
# Splitting them into passages takes another second or two.
_LONGEST_BUILD = 20.0


class SearchIndex:
    """Index that is built at the first search, and again once files were changed; thread-safe."""

    def __init__(self, sandbox: Sandbox, changes: Callable[[], int] = int) -> None:
        """Create an index without reading any file.

        changes: returns how many changes of files were made so far; by default none.
        """
        self._sandbox = sandbox
        self._changes = changes
        self._built_after = 0
        self._lock = threading.Lock()
        self._built: PassageIndex | FileIndex | None = None
        self.skipped: list[str] = []
        """Text files that are too large, or did not fit in the index."""
        self.files = 0
        """Number of indexed files."""
        self.complete = True
        """Whether all files were read before the timeout."""

    def search(self, query: str, limit: int) -> Hits:
        """Return the best passages that contain any word of the query, best first, at most a few per file."""
        with self._lock:
            changes = self._changes()
            if self._built is None or self._built_after != changes:
                self.skipped, self.files, self.complete = [], 0, True
                self._built, self._built_after = self._build(), changes
            return self._built.search(query, limit)

    def _build(self) -> PassageIndex | FileIndex:
        texts, read, size = self._texts(), [], 0
        for path, text in texts:
            read.append((path, text))
            size += len(text) + 400  # the cost of each file, however short
            if size > LARGEST_CUT:
                return FileIndex(self._sandbox, chain(read, texts), LARGEST_FILE)
        return PassageIndex((path, passages(lines_in(text), prose=is_prose(path))) for path, text in read)

    def _texts(self) -> Iterator[tuple[str, str]]:
        remaining, deadline = _LARGEST_INDEX, time.monotonic() + _LONGEST_BUILD

        # A cancelled search still completes the index, since the next search of the run needs it.
        def check() -> None:
            if time.monotonic() > deadline:
                raise TimeoutError

        try:
            for path in files(self._sandbox, check=check):
                check()
                with suppress(ToolError):
                    read = read_text(self._sandbox, path, min(LARGEST_FILE, remaining))
                    if read is None:
                        self.skipped.append(path)
                        continue
                    text, size = read
                    remaining -= size
                    self.files += 1
                    yield path, text
        except TimeoutError:
            self.complete = False
