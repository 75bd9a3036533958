"""Gitignore patterns as regular expressions without catastrophic backtracking.

`*a*a*a*b` as `[^/]*a[^/]*a[^/]*a[^/]*b` backtracks exponentially on a name that does not match: minutes for a hundred
characters, while `re` blocks the entire process. The leftmost match of a part leaves the most text for the parts after
it, so backtracking into it is pointless; atomic groups prevent it, and matching takes nearly linear time.
"""

import re
from collections.abc import Iterable
from itertools import groupby

_STAR, _ANY_ABOVE, _ANY_BETWEEN = "[^/]*", "(?:.+/)?", "(?:/.+)?"
_ENDS = ("(?:(?P<ps_d>/)|$)", "(?P<ps_d>/)", "")
_WHOLE_ENDS = {_ENDS[0]: "/?", _ENDS[1]: "/", _ENDS[2]: ".+"}
# Expressions that pathspec creates for `**`, `*/` and `*/**`.
_ANY_NAME = {".": ".+", "(?P<ps_d>/)": ".+/", "/": ".+/.+"}
# A character class, an escaped character, or what pathspec creates for stars.
_TOKEN = re.compile(r"\(\?:\.\+/\)\?|\(\?:/\.\+\)\?|\[\^/\][*+]?|\[(?:\\.|[^\]\\])+\]|\\.|[^()*+?]", re.DOTALL)


def without_backtracking(regex: str) -> str:
    """Rewrite a regular expression from pathspec to match the same paths without backtracking."""
    end = next(end for end in _ENDS if regex.endswith(end))
    body = regex.removeprefix("^").removesuffix(end)
    tokens = _TOKEN.findall(body)
    if not regex.startswith("^") or "".join(tokens) != body:
        # There are no stars, or the form is unknown: nothing to rewrite.
        return regex
    any_depth = tokens[:1] == [_ANY_ABOVE]
    blocks = [_block(block) for between, block in groupby(tokens[any_depth:], _ANY_BETWEEN.__eq__) if not between]
    if not blocks:
        return regex
    if len(blocks) == 1:
        return f"^{_ANY_ABOVE if any_depth else ''}{blocks[0]}{end}"
    first, *middle, last = blocks
    # A block ends at the end of a folder name; blocks after the first begin with the preceding `/`.
    parts = [
        f"(?>(?:.+?/)??{first}(?=/))" if any_depth else first,
        *(f"(?>(?:/.+?)??{block}(?=/))" for block in middle),
    ]
    return f"^{''.join(parts)}{_ANY_BETWEEN}{last}{end}"


def full_match(regex: str, *, is_name: bool) -> str:
    """Rewrite a regular expression from pathspec so that it matches the entire path of an entry, by `fullmatch`.

    pathspec also matches everything inside a folder that a pattern names; here the folder itself is matched before its
    entries, by its path with a trailing `/`. Compile with `re.DOTALL`, since names may contain line breaks.
    is_name: the pattern applies to names at any depth; the expression then matches only the name.
    """
    if regex in _ANY_NAME:
        return _ANY_NAME[regex]
    regex = without_backtracking(regex)
    end = next(end for end in _ENDS if regex.endswith(end))
    body = regex.removeprefix("^").removesuffix(end)
    return (body.removeprefix(_ANY_ABOVE) if is_name else body) + _WHOLE_ENDS[end]


def _block(tokens: Iterable[str]) -> str:
    """Return the expression for the part between two `**`, name by name."""
    return "".join("".join(name) if slash else _name(list(name)) for slash, name in groupby(tokens, "/".__eq__))


def _name(tokens: list[str]) -> str:
    # A character class must stay within a name; `[!a]` would match the next `/` too.
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
