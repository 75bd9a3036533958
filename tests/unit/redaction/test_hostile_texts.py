"""Redaction of adversarial text takes linear time, and a second pass changes nothing."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact

DASHES = "-" * 5
UNITS = [
    *("a", "sk-", "sk-ant-", "ghp_-", "SG.a", "hvs.", "s.", "eyJ-", "eyJaaaaaaaaaa.", "ya29.", "pypi-Ag", "~", "8Q~"),
    *(".aaaaaa.", ".aaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaa", ":AA", "12:AA", "/services/T", "hooks.slack.com/services/"),
    *(f"{DASHES}BEGIN PRIVATE KEY{DASHES}", f"{DASHES}END PRIVATE KEY{DASHES}", f"{DASHES}END PRIVATE KEY{DASHES}\n"),
    *(f"{DASHES}BEGIN PRIVATE KEY{DASHES}\nabcdefghijkl\n", f"{DASHES}BEGIN A ", "a" * 64 + "\n", "aB3" * 21 + "d\n"),
    *("-", "----", "BEGIN ", "Private-Lines: 9\n", "Private-Lines: 9\na\n", "\n", "\r\n", "\\n", "\\", "\t", "1\t"),
    *("://", "://a:", "://a:b", "://a:b@", "@", "curl ", "curl -u a:", "bearer ", "basic ", "basic abcdefgh", "sig="),
    *("authorization: ", 'authorization="', "authorization: bearer ", '"auth":', "&sig=", "password", "password "),
    *("password=", "password='", 'password="', "password: ", "password=\\\n", 'password="\\', "password: a["),
    *("password: a = ", "password>", "<password>", "<password>a</", "_", "_pass", "token", "token:", "key", "a_key="),
    *("A_KEY=", "api_key=a", "secret_", "secret: |\n", "secret:\n  '", "--", "--a", "--token ", "--token a"),
    *("machine a login b ", "machine a login b password ", "login", "netrc:1: password ", "a:1: ", "a-1- ", "é", "İ"),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", ["", "password='", "-----BEGIN PRIVATE KEY-----"])
def test_long_hostile_texts_do_not_hang_redaction(before):
    """Thousands of secret prefixes in one text do not hang redaction."""
    code = (
        "import sys, json\n"
        "from run_specialist.safety.redact import redact\n"
        "for unit in json.load(sys.stdin): redact(sys.argv[1] + unit * (100_000 // len(unit)))"
    )

    # Run in a separate process, because a runaway regular expression cannot be interrupted.
    subprocess.run([sys.executable, "-c", code, before], input=json.dumps(UNITS), text=True, check=True, timeout=120)


@given(
    st.lists(st.one_of(st.sampled_from([*UNITS, MASK, "hunter2", " "]), st.text(max_size=6)), max_size=14).map("".join)
)
def test_a_second_pass_changes_nothing(text):
    """Redaction accepts any text and is idempotent, so model, store and report see the same text."""
    once = redact(text)
    assert redact(once) == once


@given(st.text(st.characters(exclude_characters="=:>-_")))
def test_a_text_without_secret_patterns_is_unchanged(text):
    """Text without assignment characters or token prefixes is unchanged."""
    if not any(word in text.lower() for word in ("bearer", "basic", "sk")):
        assert redact(text) == text


TOKEN = "ghp_" + "a1B2" * 9
WORDS = ["password", "secret", "key:", "token", "=", "bearer", "api_key", "def", '"x"', "42", "--", "-----BEGIN"]
WORDS += ["eyJ", "sk-", "ghp_", "AKIA", "é", "\n"]


@given(st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_words_too_short_to_be_secrets_are_unchanged(text):
    """Any combination of the names of secrets and of the beginnings of tokens is unchanged."""
    assert redact(text) == text


@given(st.text(), st.text())
def test_a_token_is_masked_between_any_lines(before, after):
    """A token is masked whatever text comes before and after it on other lines."""
    assert TOKEN not in redact(f"{before}\n{TOKEN}\n{after}")
