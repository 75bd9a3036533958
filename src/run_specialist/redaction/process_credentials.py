"""The credentials that this process itself uses: which they are, and in which encodings a text may show them."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote

SHORTEST = 8
"""A shorter secret is taken for a placeholder, which may be a part of plain words [characters]."""

_NAMED = re.compile(
    r"(?<!PUBLIC_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS|_PWD|CREDENTIALS?)(?:_\d+)?\Z", re.IGNORECASE
)
_PASSWORD_IN_A_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s:/@]*:([^\s/]+)@", re.IGNORECASE)
_LINE = 20
"""Of a value with several lines, such as a private key, each line of this length is a secret too [characters]."""


def credentials(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables whose names say that they are secret, and the passwords of all URLs.

    A value that is the path of an existing file, or a URL, is not secret itself.
    """
    named = (value.strip() for name, value in environment.items() if _NAMED.search(name))
    secrets = [value for value in named if not _is_place(value)]
    return (*secrets, *(password for value in environment.values() for password in passwords(value)))


def passwords(url: str) -> tuple[str, ...]:
    """Return the password of a URL, as it is written and decoded; empty where there is none."""
    found = _PASSWORD_IN_A_URL.match(url) if "@" in url else None
    return (found[1], unquote(found[1])) if found else ()


def _is_place(value: str) -> bool:
    return "://" in value or (value.startswith(("/", "~", ".")) and os.path.lexists(os.path.expanduser(value)))  # noqa: PTH111 - any text


def encodings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return every form of the secrets that a text may hold, the longest first; short ones are left out."""
    parts = {part for secret in secrets for part in (secret, *_lines(secret)) if len(part) >= SHORTEST}
    forms = {form for part in parts for form in _forms(part) if len(form) >= SHORTEST}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _lines(secret: str) -> list[str]:
    return [line for line in secret.splitlines() if len(line) >= _LINE] if "\n" in secret else []


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
        # JSON inside JSON, as a server's answer often is.
        yield json.dumps(escaped, ensure_ascii=plain)[1:-1]
    yield from _in_base64(raw)


def _in_base64(raw: bytes) -> Iterator[str]:
    """Yield what stands in the base64 of any text that holds the bytes, whatever surrounds them."""
    for before, touched in ((0, 0), (1, 2), (2, 3)):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(b"\0" * before + raw).decode()[touched:]
            yield whole
            yield whole.rstrip("=")
            # The last letter depends on what follows, unless the bytes end where a group of letters does.
            yield whole if (before + len(raw)) % 3 == 0 else whole.rstrip("=")[:-1]
