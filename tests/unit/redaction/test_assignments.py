"""A literal assigned to a secret's name is masked, however short, in every supported syntax."""

import pytest

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact

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


@pytest.mark.parametrize("place", WITH_A_VALUE)
def test_the_value_is_masked_and_the_name_stays(place):
    """A plain word without a digit is masked; the name stays, so a reader sees that a secret was there."""
    assert redact(place.format("hunter")) == place.format(MASK)


@pytest.mark.parametrize(
    ("place", "value"),
    [
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
    ],
)
def test_values_of_any_length_are_masked_completely(place, value):
    """One letter, several words, shell characters, numbers, escapes, a continued line and base64 are masked."""
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


@pytest.mark.parametrize("text", CODE_AND_PROSE)
def test_expressions_types_and_placeholders_are_unchanged(text):
    """Text that only mentions a secret is left unchanged, byte for byte."""
    assert redact(text) == text


def test_lower_casing_does_not_shift_the_masked_range():
    """A letter that becomes two characters in lower case does not shift the masked range."""
    assert redact("İİİ password: 'hunter' İ") == f"İİİ password: '{MASK}' İ"
