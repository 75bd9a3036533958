"""Secrets are taken out of a result once, before anything else sees it."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MASK = "[redacted]"
SHORTEST = 8
"""A secret that is shorter is taken for a placeholder [characters]."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret."""

    pattern: re.Pattern[str]
    instead: str = MASK
    names: tuple[re.Pattern[str], ...] = ()
    """Where given, one of these stands in every such secret, in lower case: it is looked for only where one does."""


def _token(begin: str, rest: str, edge: str = r"\b") -> Rule:
    """Make the rule for a word that begins so; the edge is what must stand before it."""
    # Looked for behind the first letters: a search for plain letters is forty times as fast as one for an edge.
    return Rule(re.compile(rf"{begin}(?<={edge}{begin}){rest}"))


_PEM = r"(?s)-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY-----.*?(?:-----END (?:[A-Z ]+ )?PRIVATE KEY-----|\Z)"
_IN_A_URL = r"(://[^\s:/@]{1,100}:)[^\s:/@]{3,200}(?=@)"
_BEARER = r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{16,}=*"
_NAMES = (
    r"api[_-]?key",
    r"secret(?:[_-]?(?:access)?[_-]?key)?",
    r"access[_-]?token",
    r"auth[_-]?token",
    "password",
)
_ASSIGNED = rf"""(?ix)
    ( (?: {"|".join(_NAMES)} ) ["']? \s* [:=] \s* ["']? )
    (?= [^\s"']{{0,200}}? \d) [A-Za-z0-9._~+/-]{{16,}} =*
"""

RULES = (
    Rule(re.compile(_PEM)),
    _token("sk-", r"[A-Za-z0-9_-]{20,}"),  # Anthropic, OpenAI
    _token("A", r"[KS]IA[0-9A-Z]{16}\b"),  # AWS key ids
    _token("gh", r"[pousr]_[A-Za-z0-9]{30,}\b"),
    _token("github_pat_", r"\w{30,}\b"),
    _token("glpat-", r"[\w-]{20,}"),
    _token("xox", r"[abeoprs]-[A-Za-z0-9-]{10,}"),  # Slack
    _token("AIza", r"[0-9A-Za-z_-]{35}"),  # Google
    _token("eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}", edge=r"(?<![\w-])"),  # JSON Web Tokens
    Rule(re.compile(_IN_A_URL), rf"\1{MASK}"),
    Rule(re.compile(_BEARER), rf"\1{MASK}", (re.compile("bearer"),)),
    Rule(re.compile(_ASSIGNED), rf"\1{MASK}", tuple(map(re.compile, _NAMES))),
)


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks these secrets too, whatever they look like."""
    known = sorted({one for one in secrets if len(one) >= SHORTEST}, key=len, reverse=True)

    def hide(text: str) -> str:
        for one in known:
            text = text.replace(one, MASK)
        return redact(text)

    return hide


def redact(text: str) -> str:
    """Replace keys, tokens and private keys by a mask; everything else stays byte for byte."""
    if not text:
        return text
    folded = text.casefold()
    for rule in RULES:
        if not rule.names or any(name.search(folded) for name in rule.names):
            text = rule.pattern.sub(rule.instead, text)
    return text
