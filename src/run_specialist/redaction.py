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

    signs: tuple[str, ...]
    """One of these, in lower case, stands in every such secret: it is looked for only where one does."""
    pattern: re.Pattern[str]
    instead: str = MASK


_PEM = r"(?s)-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY-----.*?(?:-----END (?:[A-Z ]+ )?PRIVATE KEY-----|\Z)"
_JSON_WEB = r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
_IN_A_URL = r"(://[^\s:/@]{1,100}:)[^\s:/@]{3,200}(?=@)"
_BEARER = r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{16,}=*"
_ASSIGNED = r"""(?ix)
    (
        (?: api[_-]?key | secret(?:[_-]?(?:access)?[_-]?key)? | access[_-]?token | auth[_-]?token | password )
        ["']? \s* [:=] \s* ["']?
    )
    (?= [^\s"']{0,200}? \d) [A-Za-z0-9._~+/-]{16,} =*
"""
_NAMED = (
    *(
        f"{first}{joint}{last}"
        for first, last in [("api", "key"), ("access", "token"), ("auth", "token")]
        for joint in ("", "_", "-")
    ),
    "secret",
    "password",
)

RULES = (
    Rule(("private key-----",), re.compile(_PEM)),
    Rule(("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")),  # Anthropic, OpenAI
    Rule(("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),  # AWS key ids
    Rule(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}\b")),
    Rule(("github_pat_",), re.compile(r"\bgithub_pat_\w{30,}\b")),
    Rule(("glpat-",), re.compile(r"\bglpat-[\w-]{20,}")),
    Rule(("xox",), re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),  # Slack
    Rule(("aiza",), re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),  # Google
    Rule(("eyj",), re.compile(_JSON_WEB)),
    Rule(("://",), re.compile(_IN_A_URL), rf"\1{MASK}"),
    Rule(("bearer",), re.compile(_BEARER), rf"\1{MASK}"),
    Rule(_NAMED, re.compile(_ASSIGNED), rf"\1{MASK}"),
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
    signs = text.casefold()
    for rule in RULES:
        if any(sign in signs for sign in rule.signs):
            text = rule.pattern.sub(rule.instead, text)
    return text
