"""Find the tokens of well-known services by their shape.

Most shapes are those of the gitleaks rules (https://github.com/gitleaks/gitleaks, config/gitleaks.toml; MIT License,
Copyright (c) 2019 Zachary Rice), rewritten for Python's `re` and loosened: a mask may hide a little more than a report.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from run_specialist.redaction.mask import Span

_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"
_HEX = "[A-Fa-f0-9]"

BEGINNINGS: tuple[tuple[str, str, str], ...] = (
    # Service, how its tokens begin (alternatives by `|`, each ending in one of `_-.`), what follows.
    ("Anthropic", "sk-ant-", rf"{_WORD}{{16,}}"),
    ("OpenAI", "sk-proj-|sk-svcacct-|sk-admin-", rf"{_WORD}{{20,}}"),
    ("Langfuse", "sk-lf-", rf"{_WORD}{{20,}}"),
    # CSS classes begin with `sk-` too.
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
    # Before version 1.10; a digit tells it from a method on a variable called `s`.
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
    # Service, what to look for (its first letter as it is), how many characters may stand before that, the whole token.
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


def _joints() -> Iterator[re.Pattern[str]]:
    """Yield what finds the ends of all beginnings that end alike: `re` is fastest at looking for one letter."""
    for joint in "_-.":
        begins = [begin for begin in _RESTS if begin.endswith(joint)]
        of_length: defaultdict[int, list[str]] = defaultdict(list)
        for begin in begins:
            of_length[len(begin)].append(re.escape(begin))
        before = "".join(sorted({begin[-2] for begin in begins}))
        behind = "|".join(f"(?<={'|'.join(alike)})" for alike in of_length.values())
        end = re.escape(joint)
        yield re.compile(rf"{end}(?<=[{before}]{end})(?=[A-Za-z0-9_+/.-]{{10}})(?:{behind})")


_JOINTS = tuple(_joints())


@dataclass(frozen=True, slots=True)
class _Inside:
    """A token that is known by letters inside it."""

    before: int
    """How many characters may stand before them."""
    whole: re.Pattern[str]

    def span(self, text: str, at: int) -> Span | None:
        """Return where the token stands that has its letters there; None where it is none."""
        starts = range(max(0, at - self.before), at + 1)
        return next((found.span() for start in starts if (found := self.whole.match(text, start))), None)


def _insides() -> Iterator[tuple[re.Pattern[str], tuple[_Inside, ...]]]:
    """Yield what finds all letters that begin alike, with the tokens that may have them inside."""
    for first in sorted({letters[0] for _, letters, _, _ in ANYWHERE}):
        alike = [row for row in ANYWHERE if row[1][0] == first]
        letters = "|".join(letters[1:] for _, letters, _, _ in alike)
        yield (
            re.compile(rf"{re.escape(first)}(?:{letters})"),
            tuple(_Inside(before, re.compile(whole)) for *_, before, whole in alike),
        )


_INSIDES = tuple(_insides())


def tokens(text: str) -> list[Span]:
    """Return where tokens of known services stand in a text, in ascending order."""
    return sorted([*_by_their_letters(text), *_by_their_beginning(text)])


def _by_their_letters(text: str) -> Iterator[Span]:
    for letters, insides in _INSIDES:
        done = 0
        for found in letters.finditer(text):
            # What begins inside of a token is a part of it; else a long one would be read once for each beginning.
            if found.start() >= done:
                for inside in insides:
                    if span := inside.span(text, found.start()):
                        done = max(done, span[1])
                        yield span


def _by_their_beginning(text: str) -> Iterator[Span]:
    for joints in _JOINTS:
        done = 0
        for joint in joints.finditer(text):
            end = joint.end()
            if end > done and (begin := _beginning(text, end)) and (rest := _RESTS[begin].match(text, end)):
                done = rest.end()
                yield end - len(begin), done


def _beginning(text: str, end: int) -> str:
    """Return the longest beginning that ends there and begins a word; empty where none does."""
    for size in _SIZES:
        start = end - size
        if (
            start >= 0
            and text[start:end] in _RESTS
            and not (start and (text[start - 1].isalnum() or text[start - 1] == "_"))
        ):
            return text[start:end]
    return ""
