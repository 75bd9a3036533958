"""Secrets are taken out of a result once, before anything else sees it."""

import re

MASK = "[redacted]"

_SECRETS = re.compile(
    r"""
    -----BEGIN\ (?:[A-Z ]+\ )?PRIVATE\ KEY-----.*?(?:-----END\ (?:[A-Z ]+\ )?PRIVATE\ KEY-----|\Z)
  | \bsk-[A-Za-z0-9_-]{20,}                             # Anthropic, OpenAI
  | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                       # AWS key ids
  | \bgh[pousr]_[A-Za-z0-9]{30,}\b | \bgithub_pat_\w{30,}\b
  | \bglpat-[\w-]{20,}                                  # GitLab
  | \bxox[abeoprs]-[A-Za-z0-9-]{10,}                    # Slack
  | \bAIza[0-9A-Za-z_-]{35}                             # Google
  | (?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}          # JSON web tokens
    """,
    re.VERBOSE | re.DOTALL,
)
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,100}:)[^\s:/@]{3,200}(?=@)")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{16,}=*")
_ASSIGNED = re.compile(
    r"""(?ix)
    (?<![a-z0-9_])([a-z0-9_]{0,40}?(?:api[_-]?key|secret(?:[_-]?(?:access)?[_-]?key)?|access[_-]?token|auth[_-]?token|password)
       ["']? \s* [:=] \s* ["']?)
    (?=[^\s"']{0,200}?\d) [A-Za-z0-9._~+/-]{16,}=*
    """
)


def redact(text: str) -> str:
    """Replace keys, tokens and private keys by a mask; everything else stays byte for byte."""
    text = _SECRETS.sub(MASK, text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    return _ASSIGNED.sub(rf"\1{MASK}", text)
