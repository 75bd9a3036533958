"""Mask credentials in texts, including those of this process."""

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote

from run_specialist.safety.credentials import MASK, lowered, masked, request_credentials, tokens, without_private_keys


def redact(text: str) -> str:
    """Replace keys, tokens, passwords and private keys by the mask; the rest of the text stays unchanged."""
    if not text:
        return text
    from run_specialist.safety.assigned_secrets import assigned  # noqa: PLC0415 - 30 patterns: fast `specialists list`

    # Most texts have only short words, which hold neither keys nor tokens.
    longest = max(map(len, text.split()), default=0)
    text = without_private_keys(text, longest)
    lower = lowered(text)
    return masked(text, sorted([*tokens(text, longest), *request_credentials(text, lower), *assigned(text, lower)]))


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that also masks these values: plain, URL-encoded, JSON-escaped and in base64.

    secrets: values shorter than `_SHORTEST` are ignored.
    """
    return _redactor(frozenset(secrets))


# Cached, since all children of a run use the same one.
@lru_cache(maxsize=16)
def _redactor(secrets: frozenset[str]) -> Callable[[str], str]:
    known = encodings(secrets)
    if not known:
        return redact

    def hide(text: str) -> str:
        for one in known:
            text = text.replace(one, MASK)
        return redact(text)

    return hide


# Shorter secrets are not masked: they are placeholders, which may occur in plain text [characters].
_SHORTEST = 8

_NAMED = re.compile(
    r"(?<!PUBLIC_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS|_PWD|CREDENTIALS?)(?:_\d+)?\Z", re.IGNORECASE
)
_PASSWORD_IN_A_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s:/@]*:([^\s/]+)@", re.IGNORECASE)
# Length from which on each line of a multi-line value, such as a private key, counts as a secret [characters].
_LINE = 20


def credentials(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables with the name of a secret, and the passwords in all URLs.

    Values that are URLs or paths of existing files are not secrets.
    """
    given = [*environment.items()]
    named = (value.strip() for name, value in given if _NAMED.search(name))
    secrets = [value for value in named if "://" not in value and not _is_path(value)]
    return (*secrets, *(password for _, value in given if "@" in value for password in passwords(value)))


def passwords(url: str) -> tuple[str, ...]:
    """Return the password of a URL as written and decoded; empty if there is none."""
    found = _PASSWORD_IN_A_URL.match(url)
    return (found[1], unquote(found[1])) if found else ()


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~", ".")) and os.path.lexists(os.path.expanduser(value))  # noqa: PTH111 - any text


def encodings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return all encodings of the secrets that a text may contain, longest first, without short ones."""
    whole = [*secrets]
    lines = [line for secret in whole if "\n" in secret for line in secret.splitlines() if len(line) >= _LINE]
    parts = {part for part in (*whole, *lines) if len(part) >= _SHORTEST}
    forms = {form for part in parts for form in _forms(part) if len(form) >= _SHORTEST}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _forms(secret: str) -> Iterator[str]:
    yield secret
    raw = secret.encode("utf-8", "surrogatepass")
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    for plain in (True, False):
        escaped = json.dumps(secret, ensure_ascii=plain)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        # JSON inside JSON, as in many server responses.
        yield json.dumps(escaped, ensure_ascii=plain)[1:-1]
    # Its base64 at each of the three alignments inside a longer text.
    for before, touched in ((0, 0), (1, 2), (2, 3)):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(b"\0" * before + raw).decode()[touched:]
            yield encoded
            yield encoded.rstrip("=")
            # The last letter depends on the following bytes, unless the bytes end at a group boundary.
            yield encoded if (before + len(raw)) % 3 == 0 else encoded.rstrip("=")[:-1]
