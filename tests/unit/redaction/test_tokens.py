"""Tokens of known services are masked; each is assembled here, so that secret scanners do not report this file."""

import random
import re
import string

import pytest

from run_specialist.redaction import MASK, redact
from run_specialist.redaction.tokens import ANYWHERE, BEGINNINGS

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def made(size: int, letters: str = LETTERS) -> str:
    """Return random characters, the same in every run, with a digit and both cases if the alphabet is alphanumeric."""
    drawn = "".join(random.Random(size).choices(letters, k=size - 3))  # noqa: S311 - not used for secrets
    return drawn + ("7Za" if letters == LETTERS else drawn[:3])


SERVICES = {
    "Anthropic": "sk-" + "ant-api03-" + made(95),
    "OpenAI project": "sk-" + "proj-" + made(60),
    "OpenAI, old": "sk-" + made(48),
    "OpenRouter": "sk-" + "or-v1-" + made(64),
    "Langfuse": "sk-" + "lf-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "xAI": "xai-" + made(80),
    "Perplexity": "pplx-" + made(48),
    "Groq": "gsk_" + made(52),
    "Replicate": "r8_" + made(37),
    "Hugging Face": "hf_" + made(34, string.ascii_letters),
    "Hugging Face organization": "api_" + "org_" + made(34, string.ascii_letters),
    "Stripe live": "sk_" + "live_" + made(24),
    "Stripe test": "sk_" + "test_" + made(99),
    "Stripe restricted": "rk_" + "live_" + made(24),
    "Stripe webhook": "whsec_" + made(32),
    "npm": "npm_" + made(36),
    "PyPI": "pypi-" + "AgEIcHlwaS5vcmc" + made(80),
    "RubyGems": "rubygems_" + made(48, HEX),
    "SendGrid": "SG." + made(22) + "." + made(43),
    "Sendinblue": "xkeysib-" + made(64, HEX) + "-" + made(16),
    "Google OAuth": "ya29." + made(60),
    "Google OAuth client": "GOCSPX-" + made(28),
    "Google OAuth refresh": "1/" + "/0" + made(60),
    "Google key": "AIza" + made(35),
    "Vault service": "hvs." + made(95),
    "Vault batch": "hvb." + made(140),
    "Vault, old": "s." + made(24),
    "AWS": "AKIA" + made(16, string.ascii_uppercase),
    "AWS temporary": "ASIA" + made(16, string.ascii_uppercase),
    "AWS Bedrock": "ABSK" + made(120),
    "Microsoft Entra": "xyz8Q~" + made(34),
    "GitHub": "ghp_" + made(36),
    "GitHub fine-grained": "github_" + "pat_" + made(22) + "_" + made(59),
    "GitLab": "glpat-" + made(20),
    "GitLab routable": "glpat-" + made(27) + ".01." + made(9, HEX),
    "GitLab deploy": "gldt-" + made(20),
    "GitLab runner": "glrt-" + made(20),
    "GitLab runner, old": "GR" + "1348941" + made(20),
    "GitLab trigger": "glptt-" + made(40, HEX),
    "GitLab job": "glcbt-64_" + made(20),
    "Slack bot": "xoxb" + "-123456789012-1234567890123-" + made(24),
    "Slack app": "xapp" + "-1-A0123456789-1234567890123-" + made(64, HEX),
    "Slack configuration": "xoxe." + "xoxp-1-" + made(160),
    "Slack webhook": "hooks." + "slack.com/services/T0123ABCD/B0123ABCD/" + made(24),
    "Discord bot": "M" + made(25) + "." + made(6) + "." + made(38),
    "Discord webhook": "discord.com/api/" + "webhooks/123456789012345678/" + made(68),
    "Telegram": "1234567890:" + "AA" + made(33),
    "DigitalOcean": "dop_v1_" + made(64, HEX),
    "Shopify": "shpat_" + made(32, HEX),
    "Square": "sq0atp-" + made(22),
    "Twilio": "SK" + made(32, HEX),
    "Databricks": "dapi" + made(32, HEX) + "-2",
    "Linear": "lin_" + "api_" + made(40),
    "Notion": "ntn_" + "12345678901" + made(35),
    "Notion, old": "secret_" + made(43),
    "Doppler": "dp.pt." + made(43),
    "age": "AGE-SECRET-KEY-" + "1" + made(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "PlanetScale": "pscale_" + "tkn_" + made(43),
    "Postman": "PMAK-" + made(24, HEX) + "-" + made(34, HEX),
    "Prefect": "pnu_" + made(36),
    "Pulumi": "pul-" + made(40, HEX),
    "Sentry": "sntryu_" + made(64, HEX),
    "Grafana": "glsa_" + made(32) + "_" + made(8, HEX),
    "New Relic": "NRAK-" + made(27, string.ascii_uppercase),
    "Dynatrace": "dt0c01." + made(24) + "." + made(64),
    "Cloudflare origin": "v1.0-" + made(24, HEX) + "-" + made(146, HEX),
    "Fly": "fm2_" + made(110),
    "Heroku": "HRKU-" + "AA" + made(58),
    "Atlassian": "ATATT3" + made(180),
    "1Password": "ops_" + "eyJ" + made(250),
    "Sourcegraph": "sgp_" + made(40, HEX),
    "Typeform": "tfp_" + made(59),
    "Duffel": "duffel_" + "live_" + made(43),
    "Shippo": "shippo_" + "live_" + made(40, HEX),
    "OpenShift": "sha256~" + made(43),
    "Terraform Cloud": made(14) + ".atlasv1." + made(64),
    "JSON Web Token": "eyJ" + made(30) + ".eyJ" + made(60) + "." + made(43),
}
PLACES = [
    "{}",
    "key = '{}'\n",
    "({})",
    "a.md:3: {} and more",
    "     3\t{}",
    "url?k={}&v=2",
    '"{}",',
    "{}\n{}",
    "é {} é",
]


@pytest.mark.parametrize("token", SERVICES.values(), ids=SERVICES)
def test_a_token_is_masked_in_every_context(token):
    """The complete token is masked, and the text around it is unchanged."""
    for place in PLACES:
        assert redact(place.format(token, token)) == place.format(MASK, MASK)


@pytest.mark.parametrize("token", SERVICES.values(), ids=SERVICES)
def test_a_token_pattern_after_a_letter_is_not_masked(token):
    """A token pattern preceded by a letter is part of another word and is not masked."""
    if token.startswith("xoxe."):
        pytest.skip("its second half is a token by itself")
    if token.startswith(("hooks.", "discord.com")):
        token = token.replace(".com", ".org")
    assert redact(f"Z{token}") == f"Z{token}"


def test_every_rule_matches_an_example_token():
    """Each row of both rule tables matches at least one of the tokens above."""
    unseen = {service for service, *_ in (*BEGINNINGS, *ANYWHERE)}
    for service, begins, _ in BEGINNINGS:
        if any(token.startswith(tuple(begins.split("|"))) for token in SERVICES.values()):
            unseen.discard(service)
    for service, _, _, whole in ANYWHERE:
        if any(re.match(whole, token) for token in SERVICES.values()):
            unseen.discard(service)
    assert unseen == set()
