"""Tokens, literals, keys and credentials are masked; tokens are assembled, so that scanners do not report this file."""

import base64
import json
import random
import re
import string
import subprocess
import sys
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.safety.credentials import MASK, lines_without_keys
from run_specialist.safety.redact import credentials, passwords, redact, redactor

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def token_letters(size: int, letters: str = LETTERS) -> str:
    """Return random characters, the same in every run, with a digit and both cases if the alphabet is alphanumeric."""
    drawn = "".join(random.Random(size).choices(letters, k=size - 3))  # noqa: S311 - not used for secrets
    return drawn + ("7Za" if letters == LETTERS else drawn[:3])


SERVICES = {
    "Docker": "dckr_" + "pat_" + token_letters(27),
    "Figma": "figd_" + token_letters(40),
    "Tailscale": "tskey-" + "auth-" + token_letters(17) + "-" + token_letters(32),
    "Supabase": "sbp_" + token_letters(40, HEX),
    "Airtable": "pat" + token_letters(14) + "." + token_letters(64, HEX),
    "Mailgun": "key-" + token_letters(32, HEX),
    "EasyPost": "EZAK" + token_letters(54),
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
PLACES = ["{}", "key = '{}'\n", "({})", "a.md:3: {} and more", "     3\t{}", "url?k={}&v=2", '"{}",', "{}\n{}", "é {}"]


def test_a_token_is_masked_in_every_context():
    """The complete token is masked, and the text around it is unchanged."""
    for name, token in SERVICES.items():
        for place in PLACES:
            assert redact(place.format(token, token)) == place.format(MASK, MASK), name


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


def test_a_token_of_any_known_service_is_masked():
    """Each beginning that a service gives its tokens is known, also of its other kinds of tokens."""
    for beginnings, length in OTHERS.items():
        for beginning in beginnings.split():
            assert redact(f"key = {beginning}{token_letters(length)};") == f"key = {MASK};"
    assert redact(f"ASIA{token_letters(16, string.ascii_uppercase)}") == MASK


@pytest.mark.parametrize("before", ["Z", "_", "é"])
def test_a_token_pattern_after_a_letter_is_not_masked(before):
    """A token pattern preceded by a letter is part of another word and is not masked."""
    for token in SERVICES.values():
        # The second half of a configuration token is a token by itself.
        if not token.startswith(("xoxe.", "hooks.", "discord.com")):
            assert redact(before + token) == before + token


WITH_A_VALUE = [
    # Environment files and shells
    *("DB_PASSWORD={}", "STRIPE_KEY={}", "export GITHUB_TOKEN={}", "SECRET_KEY_BASE={}"),
    *("DB_PASSWORD_PROD={}\nDEBUG=1", "API_TOKEN_2='{}'", 'export CLIENT_SECRET="{}" # ours'),
    *("docker run -e POSTGRES_PASSWORD={} postgres", "GH_TOKEN={} gh pr list", "$env:API_KEY = '{}'"),
    *(".env:3: DB_PASSWORD={}", "     3\tDB_PASSWORD={}"),
    # YAML, TOML, INI, properties
    *("password: {}", "db:\n  password: {} # ours\n  user: me", "- password: {}", "a/b.yml-12-   password: {}"),
    *("password: |\n  {}", "GITHUB_TOKEN: {}", "api_token: '{}'", 'password = "{}"', "db.password={}"),
    # JSON, also inside a string
    *('"password": "{}"', '"apiKey":"{}","a":1', '"password":\n    "{}"', r"{{\"clientSecret\": \"{}\"}}"),
    # XML, connection strings, URLs
    *("<password>{}</password>", "Server=a;User Id=me;Password={};Encrypt=true"),
    *("AccountName=a;AccountKey={};EndpointSuffix=b", "host=a user=me password={} dbname=b"),
    *("cache.a.bc:6380,ssl=True,password={};", "Url=a;Password={}|b"),
    *("https://a.bc/d?access_token={}&e=1", "jdbc:postgresql://a/b?user=me&password={}&ssl=true"),
    *("postgresql://me:{}@host/runs", "redis://:{}@host"),
    # Login files and command lines
    *("machine a.bc login me password {}", "machine a.bc\n  login me\n  password {}", "curl -u me:{} https://a.bc"),
    *("//registry.a.bc/:_authToken={}", "kubectl create secret generic a --from-literal=password={}"),
    # Program code
    *('password: str = "{}"', 'const password: string = "{}";', "self.client_secret = b'{}'"),
    *('os.environ["API_KEY"] = "{}"', "'password' => '{}',", 'password := "{}"', 'if password == "{}":'),
    *('login(user="me", password="{}")', "const apiKey = `{}`", 'password = """{}"""', 'password = "{}" + suffix'),
    "PASSWORD = \\\n    '{}'",
]


def test_the_value_is_masked_and_the_name_stays():
    """A plain word without a digit is masked; the name stays, so a reader sees that a secret was there."""
    for place in WITH_A_VALUE:
        assert redact(place.format("hunter")) == place.format(MASK)


VALUES = [
    ("API_KEY={}", "x"),
    ("password: {}", "p"),
    ('password = "{}"', "correct horse battery staple"),
    ("DB_PASSWORD={}", "a&b;c(d"),
    ("password: {}", "1234"),
    ("log in with password: {}, then", "hunter2"),
    ("password = {}", "hunter2"),
    ("mysql --password {} --host a", "hunter2"),
    ("TOKEN={}\nA=1", "abc\\\n  def"),
    ("password = '{}'", r"it\'s me"),
    ('password = "{}', "cut off in the midd1e"),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/" + "K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("Authorization: Basic {}", "bWU6aHVudGVyMg=="),
    ('"auth": "{}"', "bWU6aHVudGVyMg=="),
    ("https://a.bc/d?sv=1&sig={}&se=2", "abc%2Bdef123456789abc%3D"),
    ("Authorization: Bearer {}", "abcdefghij0123456789"),
    ("curl -H 'authorization: bearer {}'", "abc.def-ghi_jkl~mno+p/q=="),
    ("BEARER  {};", "abcdefghij0123456789"),
    ("API-KEY: {}", "abcdef0123456789"),
    ("client_secret_key = {}", "abcdef0123456789"),
    ("secret: {} # ours", "abcdef0123456789"),
    ("password : '{}'", "abcdef0123456789"),
]


def test_values_of_any_length_are_masked_completely():
    """One letter, several words, shell characters, numbers, escapes, a continued line and base64 are masked."""
    for place, value in VALUES:
        assert redact(place.format(value)) == place.format(MASK)


CODE_AND_PROSE = [
    *("The password is asked for twice: choose one that is long; the token: see below.", "the password: choose one"),
    *("Password: required. Token: optional.", "password = get_password()"),
    *("password = getpass.getpass('Password: ')", "token: str", "password: str | None = None", "  password: string;"),
    *("api_key: SecretStr", "passwd: HTTPPasswordMgr", 'API_KEY = os.environ["X"]', "TOKEN=$(cat file)"),
    *("TOKEN=$OTHER_TOKEN", "password: ${DB_PASSWORD}", "password: {{ .Values.password }}"),
    *('password = f"{user}-{number}"', 'user_pass = "%s:%s" % (user, word)', "token=<your-token>"),
    *('api_key = "your-api-key-here"', 'api_key="sk-..."', "token_count = 12", "TOKENS_PER_SECOND=15"),
    *("max_tokens: 4096", "total_tokens_limit=200000", "token: 4096"),
    *("password=password, token=self.token, api_key=key)", "f(TOKEN=token, API_KEY=key)", "  password: pw,"),
    *('if token == "(":', 'pad_token = "<pad>"; eos_token: "end"'),
    'sort_key = "created_at"; primary_key: id; "key": "value"',
    *('CACHE_KEY = "users"; PASSWORD = "password"; {"token": "token"}', '"password": "Enter your password"'),
    *('"api_key": "OPENAI_API_KEY"', "private_key: ~/.ssh/id_ed25519", 'credentials: "include"', "id-token: write"),
    *("secret: inherit", "secrets: 3.6-", "PWD=/home/me", "def login(user, password):\n    '''Log in.'''"),
    *("input[type=password]:focus { color: #fff }", "--color-token: #0af;", "| password | required |"),
    *("[password: reset](#password)", '<a accesskey="I" href="#">'),
    "integrity: sha512-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "digest = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "http://127.0.0.1:8080/a@b, docker run -u 1000:1000 image",
    *("basic understanding: basic authentication, bearer of bad news", "Basic aGVsbG8gd29ybGQh is base64 of words"),
    *('ask("Password: ", tries=3)', "password = words2[0]; password = hunter2(1)"),
    *("authorization = base64.decodebytes(authorization).decode()", "https://${USER}:${PASSWORD}@host", ""),
    "The password is asked for twice; keep your API key secret.",
    "def check_password(password: str, *, secret_key: bytes | None = None) -> bool:",
    *('api_key = os.environ["ANTHROPIC_API_KEY"]', "api_key: config.settings.service.api_key"),
    *("secret: ${{ secrets.DEPLOY_TOKEN }}", "the bearer of bad news; Bearer token; bearer: none"),
    "sk-learn, task-runner, sk-, risk-assessment-of-something-long-and-winding-in-the-mountains",
    *("AKIA is a prefix; AKIAIOSFODNN7 is too short", "ghp_short, gho_, github_pat_, glpat-, xoxo-hugs"),
    "eyJ is how base64 of a JSON object begins",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n-----END PUBLIC KEY-----",
    *("commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "550e8400-e29b-41d4-a716-446655440000"),
    *("src/run/redaction.py:12: MASK = 1  # see docs/design.md:40", "naïve – ✓ 猫頭鷹 \x00\x1b[31m\r\n\t"),
]


def test_expressions_types_and_placeholders_are_unchanged():
    """Text that only mentions a secret is left unchanged, byte for byte."""
    assert [text for text in CODE_AND_PROSE if redact(text) != text] == []


def test_lower_casing_does_not_shift_the_masked_range():
    """A letter that becomes two characters in lower case does not shift the masked range."""
    assert redact("İİİ password: 'hunter' İ") == f"İİİ password: '{MASK}' İ"


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
def test_long_hostile_texts_do_not_hang_redaction():
    """Thousands of secret prefixes in one text, also after a begun secret or key, do not hang redaction."""
    code = (
        "import sys, json\n"
        "from run_specialist.safety.redact import redact\n"
        "for unit in json.load(sys.stdin):\n"
        "    redact(''.join(before + unit * (10_000 // len(unit)) for before in sys.argv[1:]))"
    )
    # Run in a separate process, because a runaway regular expression cannot be interrupted.
    command = [sys.executable, "-c", code, "", "password='", "-----BEGIN PRIVATE KEY-----"]
    subprocess.run(command, input=json.dumps(UNITS), text=True, check=True, timeout=120)


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
WORDS = ["password", "secret", "key:", "token", "=", "bearer", "api_key", "def", "x", "42", "--", "-----BEGIN"]
WORDS += ["eyJ", "sk-", "ghp_", "AKIA", "é", "\n"]


@given(st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_words_too_short_to_be_secrets_are_unchanged(text):
    """Any combination of the names of secrets and of the beginnings of tokens is unchanged."""
    assert redact(text) == text


@given(st.text(), st.text())
def test_a_token_is_masked_between_any_lines(before, after):
    """A token is masked whatever text comes before and after it on other lines."""
    assert TOKEN not in redact(f"{before}\n{TOKEN}\n{after}")


BODY = base64.b64encode(random.Random(1).randbytes(48 * 12 + 20)).decode()  # noqa: S311 - not used for secrets
LINES = [BODY[at : at + 64] for at in range(0, len(BODY), 64)]
WIDE = [BODY[at : at + 70] for at in range(0, len(BODY), 70)]
KINDS = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]
KINDS += ["PGP PRIVATE KEY BLOCK"]


def key(kind: str = "PRIVATE KEY", lines: list[str] = LINES, end: str = "\n") -> str:
    """Return a private key in the format of RFC 7468."""
    return end.join([f"{DASHES}BEGIN {kind}{DASHES}", *lines, f"{DASHES}END {kind}{DASHES}"])


def shows(text: str) -> list[str]:
    """Return the pieces of the key that a text contains."""
    return [BODY[at : at + 12] for at in range(len(BODY) - 11) if BODY[at : at + 12] in text]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n"])
def test_a_complete_key_becomes_one_mask(kind, end):
    """A complete key becomes one mask, also when its lines are joined by escapes, as in JSON."""
    assert redact(f"a {key(kind, end=end)} b") == f"a {MASK} b"


@pytest.mark.parametrize("prefix", ["", "{:>6}\t", "keys/a.pem-{}- ", "    ", "# ", '"', "+"])
@pytest.mark.parametrize("lines", [LINES, WIDE])
@pytest.mark.parametrize(("first", "last"), [(0, None), (0, 6), (3, 8), (5, None)])
def test_any_part_of_a_truncated_key_is_masked(prefix, lines, first, last):
    """A key's beginning, middle or end alone is masked, also behind line prefixes that tools add."""
    whole = key("OPENSSH PRIVATE KEY", lines).split("\n")[first:last]
    text = "\n".join(f"{prefix.format(number)}{line}" for number, line in enumerate(["before", *whole, "after"], 1))
    hidden = redact(text)
    assert shows(hidden) == []
    assert "before" in hidden
    assert hidden.endswith("after")


def test_a_key_that_begins_in_the_line_of_its_label_is_masked():
    """A key that was put on one line, and cut before its end, is masked, also with other lines around it."""
    for blank in ("", " "):
        text = f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}{blank}{BODY[:500]}"
        assert redact(f"before\n{text}") == f"before\n{MASK}"
        assert redact(f"before\n{text}\nthe text after it") == f"before\n{MASK}\nthe text after it"


def test_lines_without_labels_are_masked_also_if_they_begin_with_a_plus():
    """Base64 may begin with the mark of a diff."""
    lines = [f"+{LINES[0][1:]}", f"+{LINES[1][1:]}", LINES[2], LINES[3]]
    for mark in ("", "+"):
        hidden = redact("\n".join(["before", *(f"{mark}{line}" for line in lines), "after"]))
        assert hidden.removesuffix("\nafter").replace("+", "") == "\n".join(["before", *[MASK] * 4])


def test_keys_with_headers_or_a_checksum_are_masked():
    """An old encrypted key with headers and a PGP block with a checksum are masked."""
    for lines in (["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES", "", *LINES], ["Version: 2", "", *LINES, "=aB3d"]):
        assert redact(f"a\n{key('RSA PRIVATE KEY', lines)}\nb") == f"a\n{MASK}\nb"
        cut = "\n".join(key("RSA PRIVATE KEY", lines).split("\n")[:6])
        assert shows(redact(f"a\n{cut}")) == []


@pytest.mark.parametrize(
    "text",
    [
        f"between `{DASHES}BEGIN PRIVATE KEY{DASHES}` and `{DASHES}END PRIVATE KEY{DASHES}` there is base64",
        f'MARK = "{DASHES}BEGIN PRIVATE KEY{DASHES}"\nfor line in file:\n    continue\n',
        f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n...\n{DASHES}END PRIVATE KEY{DASHES}",
        key("PUBLIC KEY"),
        key("CERTIFICATE"),
        "\n".join(key("CERTIFICATE").split("\n")[:5]),
        "\n".join(["a", *("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" for _ in range(4)), "b"]),
        "\n".join(["a", *(BODY[at : at + 76] for at in range(0, 456, 76)), "b"]),
        "\n".join(["a", "=" * 64, "-" * 64, "word" * 16, "word" * 16, "b"]),
    ],
)
def test_text_that_is_no_private_key_is_unchanged(text):
    """Text about keys, certificates, digests, mail attachments and table rules is unchanged."""
    assert redact(text) == text


def test_lines_after_a_masked_key_keep_their_numbers():
    """Each line between a key's first and last line is masked separately; the lines after it are unchanged."""
    lines = ["a", *key().split("\n"), "b", f'c = "{DASHES}BEGIN PRIVATE KEY{DASHES}"', "pass", "d"]
    hidden = list(lines_without_keys((line, len(line)) for line in lines))
    assert [line for line, _ in hidden] == ["a", lines[1], *[MASK] * len(LINES), lines[-5], *lines[-4:]]
    assert all(length == len(line) for line, length in hidden)


def test_putty_private_lines_are_masked():
    """The private lines of a PuTTY key, counted in the line before them, are masked."""
    count = len(LINES)
    lines = ["PuTTY-User-Key-File-3: ssh-rsa", "Public-Lines: 1", "AAAAB3NzaC1yc2E", f"Private-Lines: {count}", *LINES]
    lines += ["Private-MAC: 0a1b"]
    hidden = redact("\n".join(lines)).split("\n")
    assert hidden == [*lines[:4], *[MASK] * count, lines[-1]]


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


def test_every_encoding_of_a_credential_is_masked():
    """Every encoding of a credential is masked completely."""
    hide = redactor(["another-secret", SECRET, "another-secret-that-is-longer"])
    for name, form in FORMS.items():
        assert hide(f"a: {form}, b") == f"a: {MASK}, b", name
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
