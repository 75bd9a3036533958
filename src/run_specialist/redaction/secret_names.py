"""Classify how secret a value is by the name of its variable, key or field."""

import re
from enum import Enum

NAME_ENDINGS = ("password", "passwd", "passphrase", "pwd", "_pass", "secret", "credential", "token", "key", "_auth")
"""Endings of the names of secrets in lower case, before a suffix such as `_2` or `_PROD`."""


class Secrecy(Enum):
    """How secret a value is, by its name."""

    PASSWORD = "password"  # noqa: S105 - not a password
    """Any literal is secret, of any length."""
    SECRET = "secret"  # noqa: S105 - as above
    """Any literal without blanks is secret, unless it is a name or a path."""
    PERHAPS = "perhaps"
    """An ambiguous name: its value is secret in an environment file, or if it looks like a token."""


_PASSWORD = re.compile(r"(?:password|passwd|passphrase|pwd|_pass)$")
_SECRET = re.compile(
    r"""(?x) (?: secret | credential
    | (?: api | access | admin | aes | account | auth | consumer | deploy | encryption | fernet | hmac | jwt | license
        | master | private | secret | security | service | shared | signing | storage | subscription | webhook
      ) [_.-]? key
    | (?: access | admin | api | auth | bearer | bot | client | deploy | device | gh | github | gitlab | hf | jwt
        | login | npm | oauth2? | personal | private | pypi | refresh | registry | secret | security | service | session
        | slack | upload | user | vault | webhook
      ) [_.-]? token )$"""
)
_HARMLESS = re.compile(
    r"""(?x) (?: ^(?:old)?pwd | ^accesskey
    | (?: bucket | cache | dedup | foreign | group | hash | hot | i18n | idempotency | idx | index | lookup | message
        | natural | object | parent | partition | primary | pub | public | range | routing | schema | sequence | shard
        | sort | state | translation | unique
      ) [_.-]? key
    | (?: bos | csrf | end | eos | id | mask | next | next_page | page | pad | sep | start | stop | unk | xsrf
      ) [_.-]? token )$"""
)


def kind_of(name: str) -> Secrecy | None:
    """Return how secret the value of a name is; None if it is not secret.

    name: an identifier or a dotted path, in any case, without a suffix such as `_2`.
    """
    lower = name.lower()
    if _HARMLESS.search(lower):
        return None
    if _PASSWORD.search(lower):
        return Secrecy.PASSWORD
    if _SECRET.search(lower):
        return Secrecy.SECRET
    # `key` alone is too ambiguous.
    perhaps = lower.endswith(("token", "_auth")) or (lower.endswith("_key") and name.isupper())
    return Secrecy.PERHAPS if perhaps else None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LONGEST_NAME = 48


def ends_like_a_name(value: str) -> bool:
    """Return whether a value is itself the name of a secret: of a variable, a header, a field."""
    return len(value) <= _LONGEST_NAME and value.lower().endswith(NAME_ENDINGS) and _NAME.fullmatch(value) is not None
