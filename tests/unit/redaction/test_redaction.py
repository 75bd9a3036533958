"""Secrets are removed from tool results; all other text is unchanged."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact

B64 = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODkw"
PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ==\n-----END {0}PRIVATE KEY-----"

TOKENS = {
    "Anthropic": "sk-ant-api03-" + "A1b2-_" * 8,
    "OpenAI": "sk-proj-" + "Zz09" * 10,
    "OpenAI, old": "sk-" + "a1B2" * 12,
    "AWS key": "AKIA" + "IOSFODNN7EXAMPLE",
    "AWS session": "ASIA" + "IOSFODNN7EXAMPLE",
    "GitHub": "ghp_" + "a1B2" * 9,
    "GitHub app": "ghs_" + "a1B2" * 9,
    "GitHub fine": "github_pat_" + "11ABC_d2" * 8,
    "GitLab": "glpat-" + "a1B2-" * 4,
    "Slack": "xoxb" + "-123456789012-abcdefABCDEF",
    "Google": "AIza" + "SyA1b2-_" * 4 + "xyz",
    "JWT": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{B64}",
    "PEM": PEM.format(""),
    "PEM RSA": PEM.format("RSA "),
    "PEM OpenSSH": PEM.format("OPENSSH "),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("around", ["{}", "key = '{}'\n", "({})", "a.md:3: {} and more", "url?k={}&v=2", '"{}",'])
def test_tokens_of_every_kind_are_masked_in_any_context(token, around):
    """The complete token is masked, and the text around it is unchanged."""
    assert redact(around.format(token)) == around.format(MASK)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcdefghij0123456789", "Authorization: Bearer {}"),
        ("curl -H 'authorization: bearer abc.def-ghi_jkl~mno+p/q=='", "curl -H 'authorization: bearer {}'"),
        ("BEARER  abcdefghij0123456789;", "BEARER  {};"),
        ("api_key=abcdef0123456789", "api_key={}"),
        ("API-KEY: abcdef0123456789", "API-KEY: {}"),
        ('"apiKey": "abcdef0123456789"', '"apiKey": "{}"'),
        ("MY_SERVICE_API_KEY='abcdef0123456789'", "MY_SERVICE_API_KEY='{}'"),
        ("client_secret_key = abcdef0123456789", "client_secret_key = {}"),
        ("secret: abcdef0123456789 # ours", "secret: {} # ours"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = {}"),
        ("access_token=abcdef0123456789&x=1", "access_token={}&x=1"),
        ("auth-token: abcdef0123456789", "auth-token: {}"),
        ("DB_PASSWORD=correct-horse-battery-9", "DB_PASSWORD={}"),
        ("password : 'abcdef0123456789'", "password : '{}'"),
    ],
)
def test_bearer_tokens_and_assignments_keep_their_name(text, masked):
    """The name of the secret stays, so a reader sees that a secret was there."""
    assert redact(text) == masked.format(MASK)


def test_a_truncated_private_key_is_masked_to_the_end():
    """A file truncated within a private key is masked from the key's first line to the end of the text."""
    cut = PEM.format("EC ").rpartition("\n")[0]
    assert redact(f"before\n{cut}") == f"before\n{MASK}"


def test_several_secrets_are_all_masked():
    """Several secrets in one text are all masked, and the text between them stays."""
    text = redact(" | ".join(TOKENS.values()))
    assert text == " | ".join([MASK] * len(TOKENS))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The password is asked for twice; keep your API key secret.",
        "def check_password(password: str, *, secret_key: bytes | None = None) -> bool:",
        'api_key = os.environ["ANTHROPIC_API_KEY"]',
        "api_key: config.settings.service.api_key",
        "password = getpass.getpass('Password: ')",
        "secret: ${{ secrets.DEPLOY_TOKEN }}",
        "access_token=<your-token-here-please>",
        "the bearer of bad news; Bearer token; bearer: none",
        "sk-learn, task-runner, sk-, risk-assessment-of-something-long-and-winding-in-the-mountains",
        "AKIA is a prefix; AKIAIOSFODNN7 is too short",
        "ghp_short, gho_, github_pat_, glpat-, xoxo-hugs",
        "eyJ is how base64 of a JSON object begins",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n-----END PUBLIC KEY-----",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "550e8400-e29b-41d4-a716-446655440000",
        "src/run/redaction.py:12: MASK = 1  # see docs/design.md:40",
        "naïve – ✓ 猫頭鷹 \x00\x1b[31m\r\n\t",
    ],
)
def test_prose_and_code_are_unchanged(text):
    """Text about secrets is unchanged."""
    assert redact(text) == text


PROSE = """
the owl eats mice password secret key: token = bearer api_key def return "quoted" 'x' 42 3.14 -- ## https://a.bc/d
-----BEGIN eyJ sk- ghp_ AKIA (x) {y} [z] é 猫
"""
WORDS = st.sampled_from([*PROSE.split(), "\n", "\t"])


@given(st.lists(WORDS).map(" ".join))
def test_text_without_the_shape_of_a_secret_is_unchanged(text):
    """Any combination of words too short to be keys is unchanged."""
    assert redact(text) == text


@given(st.text(st.characters(exclude_characters="-:=_." + "0123456789")))
def test_text_without_digits_and_separators_is_unchanged(text):
    """All shapes but a bearer token need a digit, dash, dot, colon or underscore; text without them is unchanged."""
    if "bearer" not in text.lower():
        assert redact(text) == text


PIECES = st.one_of(
    st.text(max_size=20),
    st.sampled_from([*TOKENS.values(), "Bearer ", "password=", "api_key: '", B64, "-----BEGIN PRIVATE KEY-----", MASK]),
)


@given(st.lists(PIECES, max_size=12).map(" ".join))
def test_redaction_is_idempotent_and_takes_any_text(text):
    """A second pass changes nothing, so the model, the store and the report see the same text."""
    once = redact(text)
    assert redact(once) == once


@given(st.sampled_from(sorted(TOKENS)), st.text(), st.text())
def test_a_token_is_masked_between_any_lines(kind, before, after):
    """A token is masked whatever text comes before and after it on other lines."""
    token = TOKENS[kind]
    assert token not in redact(f"{before}\n{token}\n{after}")


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("before", "unit"),
    [
        ("", "a"),
        ("password", " "),
        ("password=", " "),
        ("bearer", " "),
        ("", "bearer a"),
        ("", "secret_"),
        ("", "ghp_-"),
        ("", "eyJaaaaaaaaaa."),
        ("", "-----BEGIN A "),
        ("-----BEGIN PRIVATE KEY-----", "-----END "),
        ("", "eyJ-"),
        ("", "password="),
    ],
)
def test_a_hostile_megabyte_does_not_hang_redaction(before, unit):
    """A megabyte of repeated secret prefixes, as a tool may return, does not hang redaction."""
    code = (
        f"from run_specialist.safety.redact import redact\nredact({before!r} + {unit!r} * (1_000_000 // len({unit!r})))"
    )
    # Run in a separate process, because a runaway regular expression cannot be interrupted.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("token", [token for token in TOKENS.values() if not token.startswith("-----")])
@pytest.mark.parametrize("before", ["a", "Z", "0", "_", "é"])
def test_a_token_pattern_inside_a_word_is_not_masked(token, before):
    """A token pattern that starts in the middle of a word is not masked."""
    assert redact(before + token) == before + token
