"""Tokens of known services are masked; each is assembled here, so that secret scanners do not report this file."""

import random
import string

import pytest

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def token_letters(size: int, letters: str = LETTERS) -> str:
    """Return random characters, the same in every run, with a digit and both cases if the alphabet is alphanumeric."""
    drawn = "".join(random.Random(size).choices(letters, k=size - 3))  # noqa: S311 - not used for secrets
    return drawn + ("7Za" if letters == LETTERS else drawn[:3])


SERVICES = {
    "Anthropic": "sk-" + "ant-api03-" + token_letters(95),
    "OpenAI project": "sk-" + "proj-" + token_letters(60),
    "OpenAI, old": "sk-" + token_letters(48),
    "Langfuse": "sk-" + "lf-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "xAI": "xai-" + token_letters(80),
    "Hugging Face": "hf_" + token_letters(34, string.ascii_letters),
    "Stripe live": "sk_" + "live_" + token_letters(24),
    "Stripe webhook": "whsec_" + token_letters(32),
    "npm": "npm_" + token_letters(36),
    "PyPI": "pypi-" + "AgEIcHlwaS5vcmc" + token_letters(80),
    "SendGrid": "SG." + token_letters(22) + "." + token_letters(43),
    "Sendinblue": "xkeysib-" + token_letters(64, HEX) + "-" + token_letters(16),
    "Google OAuth": "ya29." + token_letters(60),
    "Google OAuth, short": "ya29." + token_letters(30),
    "PlanetScale": "pscale_pw_" + token_letters(32),
    "Grafana Cloud": "glc_" + token_letters(36),
    "OpenRouter": "sk-" + "or-v1-" + token_letters(64, HEX),
    "Google OAuth client": "GOCSPX-" + token_letters(28),
    "Google OAuth refresh": "1/" + "/0" + token_letters(60),
    "Google key": "AIza" + token_letters(35),
    "Vault service": "hvs." + token_letters(95),
    "Vault, old": "s." + token_letters(24),
    "AWS": "AKIA" + token_letters(16, string.ascii_uppercase),
    "AWS Bedrock": "ABSK" + token_letters(120),
    "Microsoft Entra": "xyz8Q~" + token_letters(34),
    "GitHub": "ghp_" + token_letters(36),
    "GitHub fine-grained": "github_" + "pat_" + token_letters(22) + "_" + token_letters(59),
    "GitLab": "glpat-" + token_letters(20),
    "GitLab routable": "glpat-" + token_letters(27) + ".01." + token_letters(9, HEX),
    "GitLab runner, old": "GR" + "1348941" + token_letters(20),
    "Slack bot": "xoxb" + "-123456789012-1234567890123-" + token_letters(24),
    "Slack app": "xapp" + "-1-A0123456789-1234567890123-" + token_letters(64, HEX),
    "Slack configuration": "xoxe." + "xoxp-1-" + token_letters(160),
    "Slack webhook": "hooks." + "slack.com/services/T0123ABCD/B0123ABCD/" + token_letters(24),
    "Discord bot": "M" + token_letters(25) + "." + token_letters(6) + "." + token_letters(38),
    "Discord webhook": "discord.com/api/" + "webhooks/123456789012345678/" + token_letters(68),
    "Telegram": "1234567890:" + "AA" + token_letters(33),
    "DigitalOcean": "dop_v1_" + token_letters(64, HEX),
    "Twilio": "SK" + token_letters(32, HEX),
    "Databricks": "dapi" + token_letters(32, HEX) + "-2",
    "Notion": "ntn_" + "12345678901" + token_letters(35),
    "Notion, old": "secret_" + token_letters(43),
    "age": "AGE-SECRET-KEY-" + "1" + token_letters(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "Postman": "PMAK-" + token_letters(24, HEX) + "-" + token_letters(34, HEX),
    "Grafana": "glsa_" + token_letters(32) + "_" + token_letters(8, HEX),
    "Dynatrace": "dt0c01." + token_letters(24) + "." + token_letters(64),
    "Cloudflare origin": "v1.0-" + token_letters(24, HEX) + "-" + token_letters(146, HEX),
    "Heroku": "HRKU-" + "AA" + token_letters(58),
    "Atlassian": "ATATT3" + token_letters(180),
    "1Password": "ops_" + "eyJ" + token_letters(250),
    "OpenShift": "sha256~" + token_letters(43),
    "Terraform Cloud": token_letters(14) + ".atlasv1." + token_letters(64),
    "JSON Web Token": "eyJ" + token_letters(30) + ".eyJ" + token_letters(60) + "." + token_letters(43),
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


# Beginnings of tokens with the lengths of their random parts.
OTHERS = {
    "gsk_ r8_ api_org_ gho_ ghu_ ghs_ ghr_ pnu_ pplx- lin_api_ lin_oauth_ doo_v1_ dor_v1_": 36,
    "shpat_ shpca_ shppa_ shpss_ rubygems_ pul- shippo_live_ shippo_test_": 36,
    "sk-or-v1- sk-svcacct- sk-admin- hvb. hvr. sgp_ duffel_live_ duffel_test_ sq0atp- sq0csp- NRAK- NRII- NRJS-": 40,
    "GOCSPX- gldt- glrt- glptt- glcbt- glft- glimt- glsoat- glagent- gloas- glffct-": 28,
    "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. pscale_tkn_ pscale_pw_ pscale_oauth_ tfp_ fo1_ fm1r_ fm1a_": 59,
    "fm2_ sntryu_ sntrys_ glc_": 64,
    "sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ xoxa- xoxo- xoxr- xoxs-": 24,
}


@pytest.mark.parametrize("beginning", " ".join(OTHERS).split())
def test_a_token_of_any_known_service_is_masked(beginning):
    """Each beginning that a service gives its tokens is known, also of its other kinds of tokens."""
    (length,) = (length for beginnings, length in OTHERS.items() if beginning in beginnings.split())
    assert redact(f"key = {beginning}{token_letters(length)};") == f"key = {MASK};"


def test_a_temporary_key_of_aws_is_masked():
    """It has another beginning than a lasting one."""
    assert redact(f"ASIA{token_letters(16, string.ascii_uppercase)}") == MASK


@pytest.mark.parametrize("before", ["Z", "_", "é"])
def test_a_token_pattern_after_a_letter_is_not_masked(before):
    """A token pattern preceded by a letter is part of another word and is not masked."""
    for token in SERVICES.values():
        # The second half of a configuration token is a token by itself.
        if not token.startswith(("xoxe.", "hooks.", "discord.com")):
            assert redact(before + token) == before + token


def test_several_tokens_are_all_masked():
    """The text between them stays."""
    assert redact(" | ".join(SERVICES.values())) == " | ".join([MASK] * len(SERVICES))
