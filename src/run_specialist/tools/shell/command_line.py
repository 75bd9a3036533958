"""Split a command line into its simple commands, as a POSIX shell would; reject what cannot be decided by parsing.

The text of each command is compared with rules, so in doubt a command line is undecided: a variable as the name of a
command, a function, a loop, a redirection into a file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

UNKNOWN = "\0"
"""Placeholder for text that is known only when the command runs, such as the value of a variable."""
INNER_BLANK = "\1"
"""Placeholder for a blank inside a word."""

_SEPARATORS = re.compile(r"\n|;(?!;)|&&|\|\||\|&|\||&(?!>)")
_REDIRECTION = re.compile(r"[0-9]*>&[0-9](?![^\s;&|)])|(?:[0-9]*>>?|&>>?)[ \t]*/dev/null(?![^\s;&|)])")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_RESERVED = frozenset(
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while { }".split()  # noqa: SIM905
)
_CONTINUED = "\\\n"
"""Line continuation, which a shell removes before it splits words."""
_MOST_NESTED = 20


class UndecidedError(Exception):
    """Raised with the reason, as a clause, if the commands of a line cannot be determined."""


@dataclass(slots=True)
class _Word:
    text: str = ""
    """Text without quotes, with `UNKNOWN` and `INNER_BLANK`."""
    is_quoted: bool = False
    """Whether any part of it is quoted, so that it is not a reserved word."""


@dataclass(slots=True)
class _CommandParser:
    source: str
    place: int = 0
    found: list[str] = field(default_factory=list)

    def commands(self, depth: int, *, is_inner: bool) -> None:
        """Read commands up to the end, or up to the parenthesis that closes a substitution."""
        if depth > _MOST_NESTED:
            raise UndecidedError("it is nested too deep")
        words: list[_Word] = []
        while self.place < len(self.source):
            if match := _REDIRECTION.match(self.source, self.place):
                self.place = match.end()
            elif match := _SEPARATORS.match(self.source, self.place):
                self.place = match.end()
                self._end(words)
            elif self.source[self.place] in " \t":
                self.place += 1
            elif self.source.startswith(_CONTINUED, self.place):
                self.place += len(_CONTINUED)
            elif is_inner and self.source[self.place] == ")":
                self.place += 1
                self._end(words)
                return
            else:
                words.append(self._word(depth))
        if is_inner:
            raise UndecidedError("a parenthesis is not closed")
        self._end(words)

    def _end(self, words: list[_Word]) -> None:
        if not words:
            return
        first = words[0]
        if not first.is_quoted and first.text in _RESERVED:
            raise UndecidedError(f"`{first.text}` is more than a simple command")
        if UNKNOWN in first.text:
            raise UndecidedError("the name of a command is known only when it runs")
        if re.match(r"[A-Za-z_]\w*\+?=", first.text):
            raise UndecidedError("it sets a variable")
        self.found.append(" ".join(word.text for word in words))
        words.clear()

    def _word(self, depth: int) -> _Word:
        word, start = _Word(), self.place
        while self.place < len(self.source):
            character = self.source[self.place]
            if self.source.startswith(_CONTINUED, self.place):
                self.place += len(_CONTINUED)
                continue
            if character in " \t\n;&|" or (character == ")" and depth):
                break
            _check_plain(character, is_first=self.place == start)
            if character in "'\"\\":
                word.is_quoted = True
                self._quoted(word, depth)
            elif character in "$`":
                word.text += self._expansion(depth)
            else:
                word.text += UNKNOWN if character in "*?[{~" else character
                self.place += 1
        if self.place == start:
            raise UndecidedError(f"`{self.source[start : start + 2]}` is not understood")
        return word

    def _quoted(self, word: _Word, depth: int) -> None:
        match self.source[self.place]:
            case "'":
                word.text += _inner(self._until("'"))
            case "\\":
                word.text += _inner(self._escaped())
            case _:
                self._double_quoted(word, depth)

    def _until(self, closing: str) -> str:
        end = self.source.find(closing, self.place + 1)
        if end < 0:
            raise UndecidedError("a quote is not closed")
        text, self.place = self.source[self.place + 1 : end], end + 1
        return text

    def _escaped(self) -> str:
        """Return the character after a backslash."""
        self.place += 2
        return self.source[self.place - 1 : self.place]

    def _double_quoted(self, word: _Word, depth: int) -> None:
        self.place += 1
        while self.place < len(self.source):
            character = self.source[self.place]
            if character == '"':
                self.place += 1
                return
            if self.source.startswith(_CONTINUED, self.place):
                self.place += len(_CONTINUED)
            elif character == "\\" and self.source[self.place + 1 : self.place + 2] in {"$", "`", '"', "\\"}:
                word.text += _inner(self._escaped())
            elif character in "$`":
                word.text += self._expansion(depth)
            else:
                word.text += _inner(character)
                self.place += 1
        raise UndecidedError("a quote is not closed")

    def _expansion(self, depth: int) -> str:
        if match := _VARIABLE.match(self.source, self.place):
            self.place = match.end()
            return UNKNOWN
        if self.source.startswith("$(", self.place) and not self.source.startswith("$((", self.place):
            self.place += 2
            self.commands(depth + 1, is_inner=True)
            return UNKNOWN
        raise UndecidedError(f"`{self.source[self.place : self.place + 2]}` is an expansion that is not understood")


def _check_plain(character: str, *, is_first: bool) -> None:
    """Raise UndecidedError for a character that ends a simple command in an unsupported way."""
    if character in "<>()":
        raise UndecidedError(f"`{character}` is a redirection, a group or a function")
    if character == "#" and is_first:
        raise UndecidedError("it has a comment")


def _inner(text: str) -> str:
    return re.sub(r"\s", INNER_BLANK, text)


def simple_commands(line: str) -> Iterator[str]:
    """Yield each simple command of a command line, without quotes, including those in substitutions.

    Words are separated by one blank; see `UNKNOWN` and `INNER_BLANK`.
    Raises UndecidedError.
    """
    if _CONTROL.search(line):
        raise UndecidedError("it has control characters")
    reader = _CommandParser(line)
    reader.commands(0, is_inner=False)
    yield from reader.found
