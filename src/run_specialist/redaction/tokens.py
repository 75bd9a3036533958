"""Find tokens of well-known services by their format.

Most patterns come from the gitleaks rules (https://github.com/gitleaks/gitleaks, config/gitleaks.toml; MIT License,
Copyright (c) 2019 Zachary Rice), rewritten for Python's `re` and loosened, as masking tolerates more false positives.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from run_specialist.redaction.mask import TextSpan

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


@dataclass(frozen=True, slots=True)
class _InnerLetters:
    """A token that is found by letters inside it."""

    before: int
    """Maximum number of characters before these letters."""
    pattern: re.Pattern[str]

    def span(self, text: str, at: int) -> TextSpan | None:
        """Return the span of the token whose letters are at this position; None if there is no token."""
        starts = range(max(0, at - self.before), at + 1)
        return next((found.span() for start in starts if (found := self.pattern.match(text, start))), None)


def _inner_letters() -> Iterator[tuple[re.Pattern[str], tuple[_InnerLetters, ...]]]:
    """Yield one search pattern per first letter, with the tokens that may match."""
    for first in sorted({letters[0] for _, letters, _, _ in ANYWHERE}):
        alike = [row for row in ANYWHERE if row[1][0] == first]
        letters = "|".join(letters[1:] for _, letters, _, _ in alike)
        yield (
            re.compile(rf"{re.escape(first)}(?:{letters})"),
            tuple(_InnerLetters(before, re.compile(pattern)) for *_, before, pattern in alike),
        )


_INNER_LETTERS = tuple(_inner_letters())


def tokens(text: str) -> list[TextSpan]:
    """Return the spans of tokens of known services in a text, in ascending order."""
    return sorted([*_by_inner_letters(text), *_by_prefix(text)])


def _by_inner_letters(text: str) -> Iterator[TextSpan]:
    for letters, candidates in _INNER_LETTERS:
        done = 0
        for found in letters.finditer(text):
            # Skip matches inside a token; otherwise a long token would be scanned once per match.
            if found.start() >= done:
                for candidate in candidates:
                    if span := candidate.span(text, found.start()):
                        done = max(done, span[1])
                        yield span


def _by_prefix(text: str) -> Iterator[TextSpan]:
    for pattern in _PREFIX_ENDS:
        done = 0
        for found in pattern.finditer(text):
            end = found.end()
            if end > done and (begin := _prefix_before(text, end)) and (rest := _RESTS[begin].match(text, end)):
                done = rest.end()
                yield end - len(begin), done


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
