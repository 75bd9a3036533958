"""Find credentials by their form: tokens, private keys, headers; the mask that replaces them.

Lines in the body of a key have 64 characters in PEM (Source: RFC 7468), 70 in OpenSSH.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

NUMBERED = r"(?:[ \t]*\d{1,7}\t|[^\s:]{1,200}?[:-]\d{1,7}[:-][ ])?"
"""Matches the prefix of a line in a tool result: nothing, its number, or path and number."""


MASK = "[redacted]"

TextSpan = tuple[int, int]
"""Start and end of a secret in a text."""


def masked(text: str, spans: Iterable[TextSpan]) -> str:
    """Return the text with each span replaced by the mask.

    spans: in ascending order; overlapping spans are merged.
    """
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start >= done:
            parts += text[done:start], MASK
        done = max(done, end)
    return "".join([*parts, text[done:]]) if parts else text


def lowered(text: str) -> str:
    """Return the text in lower case, with the same length and offsets."""
    lower = text.lower()
    # The only letter whose lowercase form has two characters.
    return lower if len(lower) == len(text) else text.replace("İ", "I").lower()


_LABEL = re.compile(r"-{4,5} ?(?P<which>BEGIN|END) (?P<what>[A-Z0-9 ]{1,60}?) ?-{4,5}")
_COMPLETE = re.compile(
    r"""(?xs) -{4,5}[ ]?BEGIN[ ](?:[A-Z0-9]+[ ]){0,4}PRIVATE[ ]KEY(?:[ ]BLOCK)?[ ]?-{4,5} (?P<body> (?:(?!----).)* )
    -{4,5}[ ]?END[ ](?:[A-Z0-9]+[ ]){0,4}PRIVATE[ ]KEY(?:[ ]BLOCK)?[ ]?-{4,5}"""
)
_PUTTY = re.compile(r"Private-Lines: \d")
_OPEN, _CLOSE = r"""[ \t>#*|"'+]{0,24}""", r"""[ \t\r"',;+)\\]{0,12}"""
# Matches a line break, also escaped as in JSON.
_BREAK = re.compile(r"\r?\n|\\r\\n|\\n")
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID)\b[^\n\\]{0,200}"
_BODY = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{12,}}={{0,3}}|{_HEADER}|=[A-Za-z0-9+/]{{4}}|){_CLOSE}")
# The last line may be short, but it must not be a lowercase word.
_LAST = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>(?=[a-z+/]{{0,80}}[A-Z0-9=])[A-Za-z0-9+/]{{1,80}}={{0,3}}){_CLOSE}")
_INSIDE = re.compile(rf"[A-Za-z0-9+/]{{20,}}|^{_OPEN}[A-Za-z0-9+/]{{8,}}={{0,3}}{_CLOSE}$", re.MULTILINE)
_PREFIX = re.compile(rf"(?m)^{NUMBERED}")
_LONG = re.compile(r"[A-Za-z0-9+/]{64}")
# Base64 has this variety, unlike hexadecimal digests and repeated letters; it may begin with `+`, as a line of a diff.
_FULL = re.compile(
    rf"{NUMBERED}{_OPEN}(?P<key>(?=[a-z0-9+/]*[A-Z])(?=[A-Za-f0-9+/]*[g-z])(?=[A-Za-z+/]*[0-9])"
    rf"[A-Za-z0-9+/]{{64}}(?:[A-Za-z0-9+/]{{6}})?){_CLOSE}"
)
# Minimum length of a full line of a key [characters].
_WIDTH = 64


def without_private_keys(text: str, longest: int) -> str:
    """Mask all private keys in a text, even if the first or last line of a key is missing.

    longest: length of its longest word, blanks aside [characters].
    """
    if "PRIVATE KEY" in text:
        text = _COMPLETE.sub(lambda found: MASK if _holds_key(found["body"]) else found[0], text)
    elif "Private-Lines" not in text and (longest < _WIDTH or not _LONG.search(text)):
        return text
    return masked(text, _key_spans(text))


def _holds_key(body: str) -> bool:
    """Return whether the text contains base64, not only prose about a key or masked parts."""
    return _INSIDE.search(_PREFIX.sub("", _BREAK.sub("\n", body).replace(MASK, ""))) is not None


def _key_spans(text: str) -> Iterator[TextSpan]:
    """Yield what to mask of each run of lines that look like those of a key.

    They are a key after its first line, before its last one, or if two of them have full length.
    """
    run: list[re.Match[str]] = []
    label: re.Match[str] | None = None
    is_putty = False
    breaks = [found.span() for found in _BREAK.finditer(text)]
    for at, to in zip([0, *(end for _, end in breaks)], [*(start for start, _ in breaks), len(text)], strict=True):
        line = _FULL.fullmatch(text, at, to) or _BODY.fullmatch(text, at, to) or _LAST.fullmatch(text, at, to)
        run += [line] if line else []
        if line and to < len(text):
            continue
        keys = [one for one in run if one["key"]]
        full = [index for index, one in enumerate(keys) if one.re is _FULL]
        labels = [*_LABEL.finditer(text, at, to)]
        begins, ends = _side(label, "BEGIN"), _side(labels[0] if labels else None, "END")
        if label and begins and keys and keys[0].re is not _LAST:
            yield label.start(), keys[-1].end("key")
        elif is_putty or ends:
            yield from (one.span("key") for one in keys)
        elif len(full) > 1 and begins is not False and ends is not False:
            yield from (one.span("key") for one in keys[full[0] :])
        run, label = [], labels[-1] if labels else None
        same = _BODY.fullmatch(text, label.end(), to) if label and _side(label, "BEGIN") else None
        if label and same and same["key"]:
            yield label.start(), same.end("key")
        is_putty = _PUTTY.search(text, at, to) is not None


def _side(label: re.Match[str] | None, which: str) -> bool | None:
    """Return whether a label is that of a private key; None if it is not the first or last line of anything."""
    return None if label is None or label["which"] != which else "PRIVATE KEY" in label["what"]


def lines_without_keys(lines: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Mask the lines between the first and last line of each key; the number of lines stays unchanged.

    lines: lines of a file from its start, each possibly truncated, with its full length [characters].
    """
    is_inside = has_begun = False
    for line, length in lines:
        body = (_BODY.fullmatch(line) or (_LAST.fullmatch(line) if has_begun else None)) if is_inside else None
        if body is None:
            label = next(reversed([*_LABEL.finditer(line)]), None) if "PRIVATE KEY" in line else None
            is_inside, has_begun = bool(_side(label, "BEGIN")) or _PUTTY.search(line) is not None, False
            yield line, length
        else:
            has_begun |= bool(body["key"])
            hidden = f"{line[: body.start('key')]}{MASK}{line[body.end('key') :]}" if body["key"] else line
            yield hidden, length - len(line) + len(hidden)


_URL_PASSWORD = re.compile(r"""://[^\s:/@"'<>`]{0,100}:(?![$<{\[*]|\d{1,5}[,;)\]])([^\s/"'<>`]{1,200})@""")
# These are matched against lowercase text: `re` is many times slower with IGNORECASE.
_BEARER = re.compile(r"bearer(?<=\bbearer)\s{1,8}([a-z0-9._~+/-]{16,}=*)")
_BASIC = re.compile(r"basic(?<=\bbasic)\s{1,8}([a-z0-9+/_-]{8,}={0,2})")
_AUTHORIZATION = re.compile(
    r"""(?x) authorization ["'\]\\]{0,4} \s{0,8} (?: : | =\s{0,8}(?=["'`\\]) ) \s{0,8} [\\"'`]{0,4}
    (?: (?: bearer | token | bot | api-?key | key | digest | negotiate | ssws | genie-?key ) \s{1,8} )?
    (?= [^\s"'`]{0,200}? (?: \d | [^\s"'`]{24} ) ) ([a-z0-9._~+/=:-]{8,})"""
)
_CURL = re.compile(r"""curl\b[^\n]{0,400}?\s(?:-u|--user)[ =]{0,2}["']?[^\s:"'$]{1,100}:([^\s"'$<{][^\s"']{0,200})""")
_SIGNATURE = re.compile(r"[?&;](?:x-amz-|x-goog-)?(?:sig|signature|security-token)=([a-z0-9%+/_-]{16,}=*)")
_DOCKER = re.compile(r""""auth\\?"\s{0,8}:\s{0,8}\\?"([a-z0-9+/_-]{8,}={0,2})""")
_PRINTABLE = range(0x20, 0x7F)


def request_credentials(text: str, lower: str) -> Iterator[TextSpan]:
    """Yield the spans of passwords and tokens in URLs and headers, without scheme and user.

    lower: the text in lower case, with the same offsets.
    """
    for hint, pattern, given in (
        ("://", _URL_PASSWORD, text),
        ("curl", _CURL, text),
        ("bearer", _BEARER, lower),
        ("authorization", _AUTHORIZATION, lower),
        ("sig", _SIGNATURE, lower),
        ("basic", _BASIC, lower),
        ('"auth', _DOCKER, lower),
    ):
        for found in pattern.finditer(given) if hint in given else ():
            span = found.span(1)
            if pattern not in {_BASIC, _DOCKER} or _is_user_and_password(text[slice(*span)]):
                yield span


def _is_user_and_password(encoded: str) -> bool:
    """Return whether a value is base64 of `user:password`, possibly truncated; English words never are."""
    unpadded = encoded.rstrip("=")
    with suppress(binascii.Error):
        decoded = base64.urlsafe_b64decode(unpadded[: len(unpadded) // 4 * 4])
        return b":" in decoded and all(byte in _PRINTABLE for byte in decoded)
    return False


# Tokens of well-known services. Most patterns come from the gitleaks rules (https://github.com/gitleaks/gitleaks,
# config/gitleaks.toml; MIT License, Copyright (c) 2019 Zachary Rice), loosened, as masking tolerates false positives.

_WORD = "[A-Za-z0-9_-]"
# The pattern of the rest of a token, by the prefixes that come before it.
_TOKENS = {
    """
    gsk_ r8_ hf_ api_org_ ghp_ gho_ ghu_ ghs_ ghr_ npm_ pnu_ ntn_ xai- pplx- lin_api_ lin_oauth_ shpat_ shpca_ shppa_
    shpss_ dop_v1_ doo_v1_ dor_v1_ rubygems_ pul- shippo_live_ shippo_test_ AGE-SECRET-KEY- sbp_ EZAK EZTK
    """: "[A-Za-z0-9]{30,}",
    """
    sk-ant- sk-proj- sk-svcacct- sk-admin- sk-lf- sk-or-v1- github_pat_ pypi-AgE GOCSPX- sq0atp- sq0csp- NRAK- NRII-
    NRJS- hvs. hvb. hvr. sgp_ duffel_live_ duffel_test_ AIza GR1348941 1//0 sha256~
    dckr_pat_ figd_ tskey-auth- tskey-api- tskey-client-
    """: rf"{_WORD}{{16,}}",
    "glpat- gldt- glrt- glptt- glcbt- glft- glimt- glsoat- glagent- gloas- glffct-": (
        rf"{_WORD}{{20,}}(?:\.[A-Za-z0-9]{{2,12}})*"
    ),
    """
    dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. tfp_ fo1_ fm1r_ fm1a_ fm2_ sntryu_ sntrys_ ops_eyJ dt0c01. SG.
    xkeysib- ABSK PMAK- HRKU-AA v1.0-
    """: r"[A-Za-z0-9_+/=.-]{40,}(?<!\.)",
    "pscale_tkn_ pscale_pw_ pscale_oauth_ glc_ glsa_": r"[A-Za-z0-9_+/=.-]{32,}(?<!\.)",
    "ya29. ATATT3": r"[A-Za-z0-9_=.-]{20,}(?<!\.)",
    "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_": r"[A-Za-z0-9+/]{10,}=*",
    "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxe.xoxb- xoxe.xoxp-": "[A-Za-z0-9-]{10,}",
    "AKIA ASIA": r"[0-9A-Z]{16}\b",
    "SK dapi key-": r"[A-Fa-f0-9]{32}(?:-\d)?\b",
    "pat": r"[A-Za-z0-9]{14}\.[a-f0-9]{64}\b",
    # Some CSS classes also start with `sk-`.
    "sk-": rf"(?:[A-Za-z0-9]{{20}}|(?={_WORD}{{0,60}}?\d)(?={_WORD}{{0,60}}?[A-Z]){_WORD}{{20}}){_WORD}*",
    # Vault before version 1.10; the digit excludes methods of a variable named `s`.
    "s.": r"(?=[A-Za-z0-9]{0,24}\d)(?=[A-Za-z0-9]{0,24}[A-Z])[A-Za-z0-9]{24}(?![\w.(-])",
    # Notion before 2024.
    "secret_": r"(?=[A-Za-z0-9]{0,43}\d)[A-Za-z0-9]{43}\b",
    "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/": "[A-Za-z0-9+/_]{20,}",
    "discord.com/api/webhooks/ discordapp.com/api/webhooks/": rf"\d{{8,20}}/{_WORD}{{40,}}",
}
_PATTERNS = (
    *(f"(?:{'|'.join(map(re.escape, begins.split()))}){rest}" for begins, rest in _TOKENS.items()),
    # JSON Web Tokens, Telegram, Entra, Terraform Cloud, Discord.
    rf"(?<!-)eyJ{_WORD}{{10,}}\.eyJ{_WORD}{{10,}}\.{_WORD}{{10,}}",
    rf"\d{{6,12}}:AA{_WORD}{{33}}(?![\w-])",
    r"(?<![.~])[\w.~-]{3}\dQ~[\w.~-]{31,34}",
    rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_WORD}{{60,70}}",
    rf"(?<!-)[MNO][A-Za-z0-9]{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,40}}",
)
_TOKEN = re.compile(rf"(?<!\w)(?:{'|'.join(_PATTERNS)})")
_LONG_WORD_LENGTH = 18
_LONG_WORD = re.compile(f"[A-Za-z0-9_.~/+=:-]{{{_LONG_WORD_LENGTH},}}")


def tokens(text: str, longest: int) -> Iterator[TextSpan]:
    """Yield the spans of tokens of known services in a text; longest: as for `without_private_keys`."""
    for word in _LONG_WORD.finditer(text) if longest >= _LONG_WORD_LENGTH else ():
        yield from (found.span() for found in _TOKEN.finditer(text, *word.span()))
