"""A block of code that can be quoted, with the names around it."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from run_specialist.providers.offline.definitions import defined
from run_specialist.providers.offline.quotable import Quotable
from run_specialist.providers.offline.similarity import roots

_ACTION = re.compile(
    r"\b(?:for|while|loop|if|elif|else|switch|case|match|try|except|catch|raise|throw|return|yield|await|with|until)\b"
    r"|[\w\])]\("
)
_STUB = re.compile(r"\s*(?:pass|\.\.\.|raise NotImplementedError.*|return;?)\s*(?:#.*)?$")
_TEST = re.compile(
    r"(?i)(?:^|/)(?:tests?|__tests__|spec|specs|testing|fixtures?|examples?|samples?|bench\w*|docs?|docs_src|scripts?|"
    r"vendor\w*|third_party|node_modules|migrations)/|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*[._-](?:test|spec)s?\.\w+)$"
)
_CONSTRUCTORS = frozenset({"__init__", "constructor", "__repr__", "__str__", "__eq__", "toString"})
_ACTIONS = (0.5, 0.8, 1.0)
"""Factor on the score of a block, by its number of lines that do something."""
_COMMENTS, _CONSTRUCTOR, _IN_TESTS = 0.5, 0.85, 0.4
"""Factors for comments, for what every object does, for files beside the program itself."""
_DOES, _MOST_DOES, _INSIDE = 0.3, 5, 1.5
"""Rating of a line that does something, maximum number of such lines, deduction for starting inside a statement."""
_MIDDLE = (")", "]", "}", "else", "except")


@dataclass(frozen=True)
class Words:
    """The roots of the words in a text."""

    roots: frozenset[str]
    joined: str
    """The roots in one string, each after a space."""

    @staticmethod
    @lru_cache(maxsize=8192)
    def of(text: str) -> "Words":
        """Return the words of a text; paths and dotted names are split."""
        found = roots(text.replace("/", " "))
        return Words(found, "".join(f" {root}" for root in found))


@dataclass(frozen=True, eq=False)
class CodeBlock(Quotable):
    """Consecutive lines of one definition, or between definitions."""

    name: str = ""
    """Name of the innermost definition; empty outside of any."""
    start: int = 0
    """Number of the line where the innermost definition begins; 0 outside of any."""
    outer: tuple[str, ...] = ()
    """Names of the definitions around the innermost one."""
    doc: str = ""
    """Comments and docstring of the innermost definition, as far as they are known."""
    is_comment: bool = False
    is_unread: bool = False
    """True for a definition of which only the first line is known."""

    @cached_property
    def words(self) -> "Words":
        """Words of the block."""
        return Words.of(self.text)

    @cached_property
    def name_words(self) -> "Words":
        """Words in the name of the innermost definition."""
        return Words.of(self.name)

    @cached_property
    def outer_words(self) -> "Words":
        """Words in the names of the definitions around the block, and in its path."""
        return Words.of(" ".join([self.name, *self.outer, PurePosixPath(self.path).with_suffix("").as_posix()]))

    @cached_property
    def doc_words(self) -> "Words":
        """Words in the comments of the definition."""
        return Words.of(self.doc)

    @cached_property
    def known(self) -> dict[str, float]:
        """Cache of the confidence that the block is about a term, by the term's text."""
        return {}

    @cached_property
    def heading_roots(self) -> frozenset[str]:
        """Roots of the words in the names of the definitions around the block, and in its path."""
        return self.outer_words.roots

    @cached_property
    def form(self) -> float:
        """A factor for how likely the block shows a behaviour: highest for statements in a function."""
        if self.is_comment:
            factor = _COMMENTS
        else:
            lines = self.text.split("\n") if self.start else []
            body = [line for line in lines if not _STUB.match(line) and not defined(line, self.suffix)]
            factor = _ACTIONS[min(sum(map(bool, map(_ACTION.search, body))), len(_ACTIONS) - 1)]
            factor *= _CONSTRUCTOR if self.name in _CONSTRUCTORS else 1.0
        return factor * (_IN_TESTS if _TEST.search(self.path) else 1.0)

    @property
    def suffix(self) -> str:
        """Suffix of the path, in lower case."""
        return PurePosixPath(self.path).suffix.casefold()


def shape(text: str) -> float:
    """Rate a piece of code by the number of lines that do something, and by whether it starts inside a statement."""
    lines = text.strip().split("\n")
    inside = (len(lines) > 1 and lines[0].rstrip().endswith(",")) or lines[0].startswith(
        (")", "]", "}", "else", "except")
    )
    return _DOES * min(sum(map(bool, map(_ACTION.search, lines))), _MOST_DOES) - (_INSIDE if inside else 0.0)
