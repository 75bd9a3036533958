"""Tokenization of queries and texts: stop words, spelling variants of identifiers, and stems."""

import re
from collections.abc import Iterator
from functools import lru_cache

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
    words = (word for word in dict.fromkeys(text.split()) if not (word.isascii() and word.isalpha() and word.islower()))
    return " ".join(filter(None, map(_variants, words)))


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
