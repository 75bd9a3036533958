"""Find credentials by their form: tokens, private keys, headers; the mask that replaces them.

Lines in the body of a key have 64 characters in PEM (Source: RFC 7468), 70 in OpenSSH.
"""

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

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


BEGIN = re.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
END = re.compile(r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PUTTY = re.compile(r"Private-Lines: (\d{1,4})\b")
_OPEN, _CLOSE = r"""[ \t>#*|"'+]{0,24}""", r"""[ \t\r"',;+)\\]{0,12}"""
_BREAK = re.compile(r"\r?\n|\\r\\n|\\n")
"""Matches a line break, also escaped as in JSON."""
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID)\b[^\n\\]{0,200}"
_BODY = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{12,}}={{0,3}}|{_HEADER}|=[A-Za-z0-9+/]{{4}}|){_CLOSE}")
# The last line may be short, but it must not be a lowercase word.
_LAST = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>(?=[a-z+/]{{0,80}}[A-Z0-9=])[A-Za-z0-9+/]{{1,80}}={{0,3}}){_CLOSE}")
_FULL = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{64}}(?:[A-Za-z0-9+/]{{6}})?){_CLOSE}")
_INSIDE = re.compile(rf"[A-Za-z0-9+/]{{20,}}|^{_OPEN}[A-Za-z0-9+/]{{8,}}={{0,3}}{_CLOSE}$", re.MULTILINE)
_PREFIX = re.compile(rf"(?m)^{NUMBERED}")
_VARIED = tuple(map(re.compile, ("[A-Z]", "[g-z]", "[0-9]")))
_WIDTH = 64
"""Minimum length of a full line of a key [characters]."""
_FURTHEST = 40_000
"""Length of the text before the last line of a key that is searched for its body [characters]."""


def without_private_keys(text: str) -> str:
    """Mask all private keys in a text, even if the first or last line of a key is missing."""
    if "PRIVATE KEY" in text:
        text = masked(text, _from_begin_line(text))
        text = masked(text, _before_end_line(text))
    if "Private-Lines" in text:
        text = "\n".join(line for line, _ in lines_without_keys((line, 0) for line in text.split("\n")))
    # Long lines that end in a long word are rare.
    if any(" " not in line[-_WIDTH:] for line in text.split("\n") if len(line) >= _WIDTH):
        text = masked(text, _body_only(text))
    return text


def lines_without_keys(lines: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Mask the lines between the first and last line of each key; the number of lines stays unchanged.

    lines: lines of a file from its start, each possibly truncated, with its full length [characters].
    """
    inside, seen, left = False, False, 0
    for line, length in lines:
        body = _BODY.fullmatch(line) if inside or left else None
        if body is None and (seen or left):
            body = _LAST.fullmatch(line)
        if body is not None:
            left, seen = max(0, left - 1), seen or bool(body["key"])
            hidden = f"{line[: body.start('key')]}{MASK}{line[body.end('key') :]}" if body["key"] else line
            yield hidden, length - len(line) + len(hidden)
            continue
        begin = BEGIN.search(line) if "PRIVATE KEY" in line else None
        counted = _PUTTY.search(line) if "Private-Lines" in line else None
        inside, seen = begin is not None and not END.search(line, begin.end()), False
        left = int(counted[1]) if counted else 0
        yield line, length


def _from_begin_line(text: str) -> Iterator[TextSpan]:
    """Yield the spans of keys with a first line, up to their last line or the last line that looks like a key."""
    for begin in BEGIN.finditer(text):
        dashes = text.find("----", begin.end())
        end = END.match(text, dashes) if dashes >= 0 else None
        if end is None:
            last = _follow(text, begin.end(), len(text) if dashes < 0 else dashes)
            if last > begin.end():
                yield begin.start(), last
        elif _holds_key(text[begin.end() : dashes]):
            yield begin.start(), end.end()


def _holds_key(body: str) -> bool:
    """Return whether the text contains base64, not only prose about a key or masked parts."""
    return _INSIDE.search(_PREFIX.sub("", _BREAK.sub("\n", body).replace(MASK, ""))) is not None


def _follow(text: str, start: int, stop: int) -> int:
    """Return the end of the key lines that follow the first line of a key; `start` if there are none."""
    last = start
    for at, to in _line_spans(text, start, stop):
        found = _BODY.fullmatch(text, at, to)
        if found is None and last > start:
            found = _LAST.fullmatch(text, at, to)
        if found is None:
            break
        last = found.end("key") if found["key"] else last
    return last


def _line_spans(text: str, start: int, stop: int) -> Iterator[TextSpan]:
    """Yield the span of each line."""
    while end := _BREAK.search(text, start, stop):
        yield start, end.start()
        start = end.end()
    yield start, stop


def _before_end_line(text: str) -> Iterator[TextSpan]:
    """Yield the lines of keys that have a last line but no first line."""
    done = 0
    for end in END.finditer(text):
        start = max(done, end.start() - _FURTHEST)
        found: list[TextSpan] = []
        *lines, _ = _line_spans(text, start, end.start())
        for at, to in reversed(lines):
            line = _BODY.fullmatch(text, at, to) or (None if found else _LAST.fullmatch(text, at, to))
            if line is None:
                break
            if line["key"]:
                found.append(line.span("key"))
        yield from reversed(found)
        done = end.end()


def _body_only(text: str) -> Iterator[TextSpan]:
    """Yield the lines of keys without first and last line: two or more of equal full length, and a shorter one."""
    run: list[TextSpan] = []
    for at, to in [*_line_spans(text, 0, len(text)), (len(text), len(text))]:
        line = _FULL.fullmatch(text, at, to)
        if line and _is_varied(line["key"]) and (not run or len(line["key"]) == run[0][1] - run[0][0]):
            run.append(line.span("key"))
            continue
        if len(run) > 1 and not _is_public(text, run[0][0], to):
            yield from run
            last = _LAST.fullmatch(text, at, to)
            if last and to > at:
                yield last.span("key")
        run = [line.span("key")] if line and _is_varied(line["key"]) else []


def _is_varied(line: str) -> bool:
    """Return whether a line has the character variety of base64, unlike hexadecimal digests and repeated letters."""
    return all(kind.search(line) for kind in _VARIED)


def _is_public(text: str, start: int, end: int) -> bool:
    """Return whether lines belong to a block with another label, such as a certificate."""
    before = text.rfind("-----BEGIN ", max(0, start - _FURTHEST), start)
    after = text.find("-----", end, end + _FURTHEST)
    opened = before >= 0 and text.find("-----END ", before, start) < 0
    return (opened and not BEGIN.match(text, before)) or (
        text.startswith("-----END ", after) and not END.match(text, after)
    )


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
    if "://" in text:
        yield from (found.span(1) for found in _URL_PASSWORD.finditer(text))
    if "curl" in text:
        yield from (found.span(1) for found in _CURL.finditer(text))
    yield from (found.span(1) for found in _BEARER.finditer(lower))
    yield from (found.span(1) for found in _AUTHORIZATION.finditer(lower))
    if "sig" in lower:
        yield from (found.span(1) for found in _SIGNATURE.finditer(lower))
    for pattern in (_BASIC, _DOCKER):
        spans = (found.span(1) for found in pattern.finditer(lower))
        yield from (span for span in spans if _is_user_and_password(text[slice(*span)]))


def _is_user_and_password(encoded: str) -> bool:
    """Return whether a value is base64 of `user:password`, possibly truncated; English words never are."""
    unpadded = encoded.rstrip("=")
    try:
        decoded = base64.b64decode(unpadded[: len(unpadded) // 4 * 4].translate(_STANDARD))
    except binascii.Error:
        return False
    return b":" in decoded and all(byte in _PRINTABLE for byte in decoded)


_STANDARD = str.maketrans("-_", "+/")


# Find tokens of well-known services by their format.
#
# Most patterns come from the gitleaks rules (https://github.com/gitleaks/gitleaks, config/gitleaks.toml; MIT License,
# Copyright (c) 2019 Zachary Rice), rewritten for Python's `re` and loosened, as masking tolerates more false positives.

_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"
_HEX = "[A-Fa-f0-9]"

BEGINNINGS: tuple[tuple[str, str, str], ...] = (
    # Service, prefixes of its tokens (separated by `|`, each ending in one of `_-.`), pattern of the rest.
    ("Anthropic", "sk-ant-", rf"{_WORD}{{16,}}"),
    ("OpenAI", "sk-proj-|sk-svcacct-|sk-admin-", rf"{_WORD}{{20,}}"),
    ("Langfuse", "sk-lf-", rf"{_WORD}{{20,}}"),
    # Some CSS classes also start with `sk-`.
    (
        "OpenAI and alike",
        "sk-",
        rf"(?:{_ALNUM}{{20}}|(?={_WORD}{{0,60}}?\d)(?={_WORD}{{0,60}}?[A-Z]){_WORD}{{20}}){_WORD}*",
    ),
    ("xAI", "xai-", rf"{_ALNUM}{{40,}}"),
    ("Perplexity", "pplx-", rf"{_ALNUM}{{40,}}"),
    ("Groq", "gsk_", rf"{_ALNUM}{{32,}}"),
    ("Replicate", "r8_", rf"{_ALNUM}{{32,}}"),
    ("Hugging Face", "hf_|api_org_", rf"{_ALNUM}{{30,}}"),
    ("Stripe", "sk_live_|sk_test_|sk_prod_|rk_live_|rk_test_|rk_prod_|whsec_", r"[A-Za-z0-9+/]{10,}=*"),
    ("GitHub", "ghp_|gho_|ghu_|ghs_|ghr_", rf"{_ALNUM}{{30,}}\b"),
    ("GitHub fine-grained", "github_pat_", r"[A-Za-z0-9_]{30,}\b"),
    (
        "GitLab",
        "glpat-|gldt-|glrt-|glptt-|glcbt-|glft-|glimt-|glsoat-|glagent-|gloas-|glffct-",
        rf"{_WORD}{{20,}}(?:\.{_ALNUM}{{2,12}})*",
    ),
    ("Slack", "xoxa-|xoxb-|xoxe-|xoxo-|xoxp-|xoxr-|xoxs-|xapp-", r"[A-Za-z0-9-]{10,}"),
    ("Slack configuration", "xoxe.", r"xox[bp]-[A-Za-z0-9-]{10,}"),
    ("npm", "npm_", rf"{_ALNUM}{{36,}}"),
    ("PyPI", "pypi-", rf"AgE{_WORD}{{20,}}"),
    ("RubyGems", "rubygems_", rf"{_HEX}{{48}}\b"),
    ("SendGrid", "SG.", rf"{_WORD}{{16,32}}\.{_WORD}{{32,64}}"),
    ("Sendinblue", "xkeysib-", rf"{_HEX}{{64}}-{_ALNUM}{{16}}"),
    ("Google OAuth", "ya29.", r"[A-Za-z0-9._-]{20,}"),
    ("Google OAuth client", "GOCSPX-", rf"{_WORD}{{20,}}"),
    ("Vault", "hvs.|hvb.|hvr.", rf"{_WORD}{{24,}}"),
    # Before version 1.10; the digit excludes methods of a variable named `s`.
    ("Vault, old", "s.", rf"(?={_ALNUM}{{0,24}}\d)(?={_ALNUM}{{0,24}}[A-Z]){_ALNUM}{{24}}(?![\w.(-])"),
    ("DigitalOcean", "dop_v1_|doo_v1_|dor_v1_", rf"{_HEX}{{64}}\b"),
    ("Shopify", "shpat_|shpca_|shppa_|shpss_", rf"{_HEX}{{32}}\b"),
    ("Square", "sq0atp-|sq0csp-", rf"{_WORD}{{22,}}"),
    ("Linear", "lin_api_|lin_oauth_", rf"{_ALNUM}{{32,}}"),
    ("Notion", "ntn_", rf"{_ALNUM}{{40,}}"),
    ("Notion, old", "secret_", rf"(?={_ALNUM}{{0,43}}\d){_ALNUM}{{43}}\b"),
    ("Doppler", "dp.pt.|dp.st.|dp.ct.|dp.sa.|dp.scim.|dp.audit.", r"[A-Za-z0-9._-]{40,}"),
    ("age", "AGE-SECRET-KEY-", r"1[A-Z0-9]{58}"),
    ("PlanetScale", "pscale_tkn_|pscale_pw_|pscale_oauth_", r"[\w=.-]{32,}"),
    ("Postman", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    ("Prefect", "pnu_", rf"{_ALNUM}{{36}}\b"),
    ("Pulumi", "pul-", rf"{_HEX}{{40}}\b"),
    ("Sentry", "sntryu_|sntrys_", r"[A-Za-z0-9+/=_-]{40,}"),
    ("Grafana", "glc_|glsa_", r"[A-Za-z0-9+/_]{32,}=*"),
    ("New Relic", "NRAK-|NRII-|NRJS-", rf"{_WORD}{{19,}}"),
    ("Dynatrace", "dt0c01.", rf"{_ALNUM}{{24}}\.{_ALNUM}{{64}}"),
    ("Cloudflare origin", "v1.0-", rf"{_HEX}{{24}}-{_HEX}{{146}}"),
    ("Fly", "fo1_|fm1r_|fm1a_|fm2_", r"[\w+/=-]{40,}"),
    ("Heroku", "HRKU-", rf"AA{_WORD}{{58}}"),
    ("1Password", "ops_", r"eyJ[A-Za-z0-9+/]{40,}=*"),
    ("Sourcegraph", "sgp_", r"[A-Za-z0-9_]{40,}"),
    ("Typeform", "tfp_", r"[\w.=-]{40,}"),
    ("Duffel", "duffel_live_|duffel_test_", rf"{_WORD}{{40,}}"),
    ("Shippo", "shippo_live_|shippo_test_", rf"{_HEX}{{40}}\b"),
)

_EDGE = r"(?<![\w-])"

ANYWHERE: tuple[tuple[str, str, int, str], ...] = (
    # Service, search pattern (starts with a literal letter), maximum offset of its match in the token, token pattern.
    ("AWS", "AKIA", 0, r"\bAKIA[0-9A-Z]{16}\b"),
    ("AWS temporary", "ASIA", 0, r"\bASIA[0-9A-Z]{16}\b"),
    ("AWS Bedrock", "ABSK", 0, r"\bABSK[A-Za-z0-9+/]{109,}=*"),
    ("Google", "AIza", 0, rf"\bAIza{_WORD}{{35}}"),
    ("Google OAuth refresh", "//0", 1, rf"{_EDGE}1//0{_WORD}{{30,}}"),
    ("JSON Web Token", "eyJ", 0, rf"{_EDGE}eyJ{_WORD}{{10,}}\.eyJ{_WORD}{{10,}}\.{_WORD}{{10,}}"),
    ("Twilio", "SK", 0, rf"\bSK{_HEX}{{32}}\b"),
    ("Databricks", "dapi", 0, rf"\bdapi{_HEX}{{32}}(?:-\d)?\b"),
    ("GitLab runner", "GR1348941", 0, rf"\bGR1348941{_WORD}{{20,}}"),
    ("Atlassian", "ATATT3", 0, r"\bATATT3[A-Za-z0-9_=-]{20,}"),
    (
        "Slack webhook",
        "/(?:services|workflows|triggers)/[A-Z]",
        15,
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_]{20,}",
    ),
    ("Discord webhook", "/api/webhooks/", 14, rf"discord(?:app)?\.com/api/webhooks/\d{{8,20}}/{_WORD}{{40,}}"),
    (
        "Discord bot",
        rf".(?={_WORD}{{6}}\.{_WORD}{{27}})",
        28,
        rf"{_EDGE}[MNO][A-Za-z0-9]{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,40}}",
    ),
    ("Telegram bot", ":AA", 12, rf"(?<![A-Za-z0-9_])\d{{6,12}}:AA{_WORD}{{33}}(?![\w-])"),
    ("Microsoft Entra", r"~(?<=\dQ~)", 5, r"(?<![\w.~])[\w.~-]{3}\dQ~[\w.~-]{31,34}"),
    ("OpenShift", r"~(?<=sha256~)", 6, rf"\bsha256~{_WORD}{{43}}(?![\w-])"),
    ("Terraform Cloud", r".atlasv1\.", 14, rf"\b{_ALNUM}{{14}}\.atlasv1\.{_WORD}{{60,70}}"),
)


_RESTS: Mapping[str, re.Pattern[str]] = {
    begin: re.compile(rest) for _, begins, rest in BEGINNINGS for begin in begins.split("|")
}
_SIZES = sorted({len(begin) for begin in _RESTS}, reverse=True)


def _prefix_ends() -> Iterator[re.Pattern[str]]:
    """Yield one pattern per last character of the prefixes: `re` is fastest at searching for a single literal."""
    for last in "_-.":
        begins = [begin for begin in _RESTS if begin.endswith(last)]
        of_length: defaultdict[int, list[str]] = defaultdict(list)
        for begin in begins:
            of_length[len(begin)].append(re.escape(begin))
        before = "".join(sorted({begin[-2] for begin in begins}))
        behind = "|".join(f"(?<={'|'.join(alike)})" for alike in of_length.values())
        end = re.escape(last)
        yield re.compile(rf"{end}(?<=[{before}]{end})(?=[A-Za-z0-9_+/.-]{{10}})(?:{behind})")


_PREFIX_ENDS = tuple(_prefix_ends())


def _inner_letters() -> Iterator[tuple[re.Pattern[str], list[tuple[int, re.Pattern[str]]]]]:
    """Yield one search pattern per first letter, with the tokens that may match.

    Each with the maximum number of characters before these letters.
    """
    for first in sorted({letters[0] for _, letters, _, _ in ANYWHERE}):
        alike = [row for row in ANYWHERE if row[1][0] == first]
        letters = "|".join(letters[1:] for _, letters, _, _ in alike)
        yield (
            re.compile(rf"{re.escape(first)}(?:{letters})"),
            [(before, re.compile(pattern)) for *_, before, pattern in alike],
        )


_INNER_LETTERS = tuple(_inner_letters())


def tokens(text: str) -> list[TextSpan]:
    """Return the spans of tokens of known services in a text, in ascending order."""
    spans = [*_by_inner_letters(text)]
    for pattern in _PREFIX_ENDS:
        done = 0
        for found in pattern.finditer(text):
            end = found.end()
            if end > done and (begin := _prefix_before(text, end)) and (rest := _RESTS[begin].match(text, end)):
                done = rest.end()
                spans.append((end - len(begin), done))
    return sorted(spans)


def _by_inner_letters(text: str) -> Iterator[TextSpan]:
    for letters, candidates in _INNER_LETTERS:
        done = 0
        for found in letters.finditer(text):
            # Skip matches inside a token; otherwise a long token would be scanned once per match.
            if found.start() >= done:
                for before, pattern in candidates:
                    starts = range(max(0, found.start() - before), found.start() + 1)
                    if token := next(filter(None, (pattern.match(text, start) for start in starts)), None):
                        done = max(done, token.end())
                        yield token.span()


def _prefix_before(text: str, end: int) -> str:
    """Return the longest prefix that ends at `end` and starts a word; empty if there is none."""
    for size in _SIZES:
        start = end - size
        if (
            start >= 0
            and text[start:end] in _RESTS
            and not (start and (text[start - 1].isalnum() or text[start - 1] == "_"))
        ):
            return text[start:end]
    return ""
