"""Recognize code files, and the lines in them that define a function, a method or a class."""

import re
from functools import lru_cache
from pathlib import PurePosixPath

_KEYWORD_ONLY = frozenset({".py", ".pyi", ".rb", ".ex", ".exs", ".lua", ".jl", ".sh", ".bash", ".zsh"})
"""Languages in which a keyword begins each definition."""
_BRACES = frozenset(
    """
    .js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .java .kt .kts .scala .go .rs .c .h .cc .hh .cpp .hpp .cxx .cs
    .php .swift .m .mm .dart .groovy .zig .pl .pm .r .nim
    """.split()  # noqa: SIM905 - shorter than 35 quoted suffixes
)
"""Languages in which only a brace may mark a definition."""
SUFFIXES = _KEYWORD_ONLY | _BRACES
"""Suffixes of code files, with the dot."""
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|open|sealed|virtual"
    r"|readonly|declare|inline|pub(?:\(\w+\))?|unsafe|extern|const|suspend|data|local)\s+)*"
)
_WORDS = r"def|defp|defmodule|class|interface|struct|trait|enum|impl|object|protocol|module|function\*?|fn|func|fun|sub"
_BY_KEYWORD = re.compile(rf"\s*{_MODIFIERS}(?:{_WORDS})\s+(?:<[^>]*>\s*|\([^)]*\)\s*)?(?:self\.)?([\w$]+)")
_BOUND = re.compile(
    r"\s*(?:(?:export\s+)?(?:default\s+)?(?:const|let|var|val)\s+|[\w$]+\.(?:[\w$]+\.)*)([\w$]+)\b[^;]*?="
    r"\s*\(?(?:async\s*)?"
    r"(?:function\b|(?:<[^>]*>\s*)?\((?:[^)]*$|.*=>)|[\w$]+\s*=>)"
)
_METHOD = re.compile(
    rf"\s*{_MODIFIERS}(?:get\s+|set\s+)?[#*]?"
    r"(?:[\w:<>,\[\]*&?.@]+\s+[*&]*){0,4}([\w$~]+)\s*(?:<[^<>]*>)?\([^;]*\{\s*$"
)
_NAMED_ARGUMENT = re.compile(r".*[(,]\s*(?:async\s+)?function\*?\s+([\w$]+)\s*\([^()]*\)\s*\{\s*$")
"""A named function passed to another function."""
_CONTROL = frozenset(
    """
    if for while switch catch return function with do else elif match when using lock synchronized foreach unless until
    new throw await yield case try finally typeof super
    """.split()  # noqa: SIM905 - as above
)
_LONGEST = 300
_SHORTEST_STEM = 3


@lru_cache(maxsize=4096)
def is_code(path: str) -> bool:
    """Return whether a path is that of a source file, by its suffix."""
    return PurePosixPath(path).suffix.casefold() in SUFFIXES


@lru_cache(maxsize=16_384)
def defined(line: str, suffix: str) -> str | None:
    """Return the name that a line defines; None if it defines none."""
    if len(line) > _LONGEST:
        return None
    if found := _BY_KEYWORD.match(line):
        return found[1]
    if suffix not in _BRACES:
        return None
    if found := _BOUND.match(line) or _NAMED_ARGUMENT.match(line):
        return found[1]
    words = line.split(maxsplit=1)
    if not words or not line.rstrip().endswith("{") or "=>" in line or re.match(r"\W*(\w+)", line) is None:
        return None
    found = _METHOD.match(line)
    first = re.split(r"\W", words[0].lstrip("}"))[0]
    return found[1] if found and first not in _CONTROL and found[1] not in _CONTROL else None


def pattern(stems: list[str]) -> str:
    """Return a regular expression for lines that define a name in which a word has one of these beginnings.

    Use it without regard to case.
    """
    either = "|".join(re.escape(stem) for stem in stems if len(stem) >= _SHORTEST_STEM)
    return (
        rf"^\s*(?:[a-z]+ ){{0,3}}[a-z0-9_#$]*(?:{either})[a-z0-9_$]*\(.*\{{$"
        rf"|\.[a-z0-9_$]*(?:{either})[a-z0-9_$]*\s*=\s*(?:async )?(?:function\b|\(.*=>)"
        rf"|\b(?:const|let|var|val)\s+[a-z0-9_$]*(?:{either}).{{0,200}}=.{{0,200}}(?:=>|\bfunction\b|\($|\{{$)"
        rf"|\b(?:{_WORDS})\s+(?:\([^)]{{0,80}}\)\s*)?[a-z0-9_$.]*(?:{either})"
    )
