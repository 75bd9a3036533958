"""Credentials used by this process are masked by value, in every encoding that a text may contain."""

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import credentials, passwords, redactor

SECRET = 'zebra/card+igan "lämp" 100%'  # noqa: S105 - not a real credential
FORMS = {
    "plain": SECRET,
    "URL": quote(SECRET, safe=""),
    "path of a URL": quote(SECRET),
    "form": quote_plus(SECRET),
    "URL, small letters": re.sub("%..", lambda found: found[0].lower(), quote(SECRET, safe="")),
    "JSON": json.dumps(SECRET)[1:-1],
    "JSON, as it is": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "JSON in JSON": json.dumps(json.dumps(SECRET))[3:-3],
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 of a URL": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "base64 without its end": base64.b64encode(SECRET.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_encoding_of_a_credential_is_masked(form):
    """Every encoding of a credential is masked completely."""
    hide = redactor(["another-secret", SECRET, "another-secret-that-is-longer"])
    assert hide(f"a: {form}, b") == f"a: {MASK}, b"
    assert hide("an another-secret-that-is-longer end") == f"an {MASK} end"


@given(st.binary(max_size=7), st.binary(max_size=7))
def test_a_secret_inside_longer_base64_is_masked(before, after):
    """A secret inside longer base64 is masked at any offset; at most two letters per side remain."""
    encoded = base64.b64encode(before + b"zebra-cardigan-lamp" + after).decode()
    hidden = redactor(["zebra-cardigan-lamp"])(encoded)
    assert MASK in hidden
    assert len(hidden) - len(MASK) <= (len(before) + len(after)) * 4 / 3 + 8


@given(st.text(min_size=8), st.text())
def test_any_secret_is_masked_in_any_text(secret, text):
    """Any secret is masked in any text, including lone surrogates and control characters."""
    hidden = redactor([secret])(f"{text}\n{secret}\n{text}")
    assert secret in MASK or secret not in hidden.replace(MASK, "\0")


def test_short_values_are_not_masked_and_long_lines_alone():
    """Otherwise `true` would be masked everywhere; and a result may show only one line of a secret."""
    assert redactor(["true", "1234567", ""])("true 1234567") == "true 1234567"
    assert redactor(["BEGIN\nabcdefghijabcdefghij\nEND of it"])("x abcdefghijabcdefghij y") == f"x {MASK} y"


def test_variables_are_secret_by_name_or_by_a_password_in_a_url(tmp_path):
    """Variables are secret by name or by a password in a URL; file paths, addresses and other values are not."""
    file = tmp_path / "a.key"
    file.touch()
    environment = {
        "ANTHROPIC_API_KEY": " one ",
        "openai_api_key": "two",
        "SPECIALIST_MCP_TOKEN": "three",
        "PGPASSWORD": "four",
        "MYSQL_PWD": "five",
        "AWS_SECRET_ACCESS_KEY": "/six",
        "DB_PASS": "seven",
        "API_TOKEN_2": "eight",
        "HTTPS_PROXY": "http://me:ni%20ne@proxy:3128",
        "SPECIALIST_STORE": "postgresql://me:ten@host/runs",
        "DEPLOY_PASSWORD": "nine and a half",
        "PWD": "/home",
        "OLDPWD": "/",
        "SSH_KEY": str(file),
        "TOKEN_KEY": "https://host/keys",
        "SSH_AUTH_SOCK": "/run/agent",
        "KEYBOARD": "us",
        "DEPLOY_PUBLIC_KEY": "ssh-rsa AAAA",
        "TOKENIZERS_PARALLELISM": "false",
        "PATH": "/bin",
    }
    named = ["one", "two", "three", "four", "five", "/six", "seven", "eight", "nine and a half"]
    assert credentials(environment) == (*named, "ni%20ne", "ni ne", "ten", "ten")
    assert passwords("sqlite:///runs.db") == ()
