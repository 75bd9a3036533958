"""Gitignore patterns as regular expressions that take no longer than the path is long, nearly.

`*a*a*a*b` as `[^/]*a[^/]*a[^/]*a[^/]*b` tries every way to share out a name that does not match: minutes for a hundred
characters, and nothing else in the process can run meanwhile. The first place where a part fits leaves the most for
those after it, so it need never be given up again: that is what an atomic group says.
"""

import re
from collections.abc import Iterable
from itertools import groupby

_STAR, _ANY_ABOVE, _ANY_BETWEEN = "[^/]*", "(?:.+/)?", "(?:/.+)?"
_ENDS = ("(?:(?P<ps_d>/)|$)", "(?P<ps_d>/)", "")
_WHOLE_ENDS = {_ENDS[0]: "/?", _ENDS[1]: "/", _ENDS[2]: ".+"}
# pathspec writes these for `**`, `*/` and `*/**`.
_OF_ANY_NAME = {".": ".+", "(?P<ps_d>/)": ".+/", "/": ".+/.+"}
# A class of characters, a sign with a backslash, or what pathspec writes for stars.
_TOKEN = re.compile(r"\(\?:\.\+/\)\?|\(\?:/\.\+\)\?|\[\^/\][*+]?|\[(?:\\.|[^\]\\])+\]|\\.|[^()*+?]", re.DOTALL)


def tamed(regex: str) -> str:
    """Return an expression of pathspec's for one pattern in a form that matches the same and does not run away."""
    end = next(end for end in _ENDS if regex.endswith(end))
    body = regex.removeprefix("^").removesuffix(end)
    tokens = _TOKEN.findall(body)
    if not regex.startswith("^") or "".join(tokens) != body:
        # Nothing with stars, or with signs that stand for themselves: there is nothing to tame.
        return regex
    above = tokens[:1] == [_ANY_ABOVE]
    blocks = [_block(block) for between, block in groupby(tokens[above:], _ANY_BETWEEN.__eq__) if not between]
    if not blocks:
        return regex
    if len(blocks) == 1:
        return f"^{_ANY_ABOVE if above else ''}{blocks[0]}{end}"
    first, *middle, last = blocks
    # A block ends where a folder's name does; those after the first begin with the `/` before it.
    parts = [f"(?>(?:.+?/)??{first}(?=/))" if above else first, *(f"(?>(?:/.+?)??{block}(?=/))" for block in middle)]
    return f"^{''.join(parts)}{_ANY_BETWEEN}{last}{end}"


def entire(regex: str, *, is_name: bool) -> str:
    """Return an expression of pathspec's in a form that fits the path of an entry as a whole, by `fullmatch`.

    pathspec also matches everything in a folder that a pattern names; here a folder is matched by itself, with a `/` at
    the end of its path, before anything in it. To be compiled with `re.DOTALL`: names may hold line breaks.
    is_name: the pattern is for names at any depth, and the expression fits the name alone.
    """
    if regex in _OF_ANY_NAME:
        return _OF_ANY_NAME[regex]
    regex = tamed(regex)
    end = next(end for end in _ENDS if regex.endswith(end))
    body = regex.removeprefix("^").removesuffix(end)
    return (body.removeprefix(_ANY_ABOVE) if is_name else body) + _WHOLE_ENDS[end]


def _block(tokens: Iterable[str]) -> str:
    """Return what stands between two `**`, name by name."""
    return "".join("".join(name) if slash else _name(list(name)) for slash, name in groupby(tokens, "/".__eq__))


def _name(tokens: list[str]) -> str:
    # A class is about signs of a name; `[!a]` would take the `/` after it too.
    tokens = [f"(?!/){token}" if token[0] == "[" and not token.startswith("[^/]") else token for token in tokens]
    parts = ["".join(part) for star, part in groupby(tokens, _STAR.__eq__) if not star]
    if tokens[0] == _STAR:
        parts.insert(0, "")
    if tokens[-1] == _STAR:
        parts.append("")
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    return first + "".join(f"(?>{_STAR}?{part})" for part in middle) + _STAR + last
