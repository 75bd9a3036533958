"""Files that usually hold secrets, expected answers or notes are closed by name unless `paths` names them."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import ToolError
from run_specialist.tools.files import file_tools
from run_specialist.tools.secret_files import holds_cases, is_secret

SECRETS = [
    *(".env", ".env.local", ".env.production", ".env-prod", "prod.env", ".envrc", "deploy/.env", ".ENV"),
    *(".Env.Local", ".ssh/config", ".ssh/known_hosts", "home/.ssh/keys/work", ".aws/credentials", ".gnupg/x"),
    *(".azure/x.json", "id_rsa", "id_ed25519", "ID_RSA", "keys/id_ecdsa", "ssh_host_rsa_key", "a.ppk", "server.pem"),
    *("SERVER.PEM", "tls/server.key", "x.p12", "x.pfx", "x.jks", "x.keystore", "passwords.kdbx", ".npmrc", ".pypirc"),
    *(".netrc", "_netrc", ".git-credentials", ".pgpass", ".my.cnf", ".htpasswd", ".vault-token", ".kube/config"),
    *(".docker/config.json", ".config/gcloud/x.db", ".config/gh/hosts.yml", ".cargo/credentials.toml"),
    *("terraform.tfstate", "terraform.tfstate.backup", "terraform.tfvars", "prod.auto.tfvars", "credentials.json"),
    *("service-account.json", "service_account-prod.json", "client_secret_1.json", "secrets.yml"),
    *("chart/secrets.yaml", "secrets.toml", ".bash_history", ".env.", ".env ", ".env::$DATA", "id_rsa::$data"),
    *(".env~", "#.env#", ".#.env", ".env.swp", ".env.bak", ".env.~1~", ".flaskenv", ".flaskenv.old", ".dev.vars"),
    *("id_ed25519_work", "id_rsa-github", "id_rsa.work", "id_rsa.old", "id_rsa~", ".id_rsa.swp", "#id_rsa#"),
    *("id_rsa (copy)", "kubeconfig", "kubeconfig.yaml", "kubeconfig-prod", "admin.kubeconfig", ".kube/config.bak"),
    *(".docker/config.json~", ".vault_pass", ".vault_pass.txt", "vault-password", ".vault_password_file"),
    *("ansible_vault_pass", "server.key.bak", "server.pem~", "prod.env.old", ".netrc-old", ".npmrc.orig"),
    *("credentials.json.1", ".netrc.swo", "secrets.yml.2024-05-01", "terraform.tfvars~", "Copy of credentials.json"),
    *(".zsh_history", ".node_repl_history", "http.keytab", "rclone.conf", ".bash_history~", ".id_ed25519_work.un~"),
]
OPEN = [
    *(".env.example", ".env.sample", ".env.template", ".env.dist", ".env.production.example", "example.env"),
    *("id_card.md", "id_rsa.pub", "id_rsa.md", "keys/x.md", "server.crt", "ca.cer", "keyboard.md", "key"),
    *("secrets.md", "credentials.md", "environment.md", "env", "env.py", "config/settings.json", "pem.md"),
    *(".docker/Dockerfile", ".kube/x.md", ".config/x.toml", "auth.json", "service-account.yaml", "ssh/config"),
    *("id_rsa_work.pub", "id_ed25519-notes.md", "kubeconfig.md", "vault.md", "vault_passage.md", "history.md"),
    *("copy of x.md", "example.env.bak", "notes.md~", "#notes.md#", ".notes.md.swp", "keys.1", "chapter-2", "1", "~"),
    *("#", "terraform.tf", "variables.tfvars.example", ".gitignore", ".envoy.yaml", "monkey.md", "a.key.md"),
]


CASES = ["a.evals.yaml", "specialists/A.Evals.YML", "evals/evals.json", "skills/x/evals/EVALS.json"]
NO_CASES = ["evals.yaml", "docs/evals.md", "evals.json", "devals/evals.json", "evals/other.json", "a.evals.yaml.md"]
NOTES = [".run-specialist/memory/finder/MEMORY.md", ".run-specialist/memory-local/finder/topics/MEMORY.md"]
NO_NOTES = ["memory/x.md", ".run-specialist/other.md", "notes/.run-specialist/x/memory/a.md"]


def test_names_of_closed_files():
    """They are closed at any depth and in any case; notes, templates, certificates and public keys stay open."""
    assert [
        path for path in (*SECRETS, *CASES, *NOTES) if not is_secret(path) or not is_secret(f"deep/er/{path}")
    ] == []
    assert [path for path in (*OPEN, *NO_CASES, *NO_NOTES) if is_secret(path)] == []
    assert [path for path in (*CASES, *NO_CASES) if holds_cases(path)] == CASES


@given(st.text("-1~.# ()bako", max_size=255))
def test_a_name_of_any_length_is_judged_at_once(name):
    """A name that repeats endings of copies is judged without trying every way to divide it."""
    assert is_secret(f"{name}/.env")
    is_secret(name + "-1" * 100 + "x")


def test_no_tool_shows_a_secret(call, write):
    """No tool shows a secret file's content or lists its name."""
    write({".env": "needle", "sub/.ssh/config": "needle", "tls/server.key": "needle", "tls/x.md": "needle"})
    assert call("grep", pattern="needle") == "tls/x.md:1: needle"
    assert call("glob", pattern="**") == "tls/x.md"
    assert "1 best of 1" in call("search", query="needle")
    assert call("ls") == "sub/  0 entries\ntls/  1 entry"
    assert "hidden" in call("ls", path="sub")


@pytest.mark.parametrize(
    ("closed", "what"),
    [(CASES[0], "the expected answers of an eval"), *((path, "notes of specialists") for path in NOTES)],
)
def test_no_tool_shows_expected_answers_or_notes(call, write, closed, what):
    """No tool finds them, and reading them is refused with the reason and the remedy."""
    write(dict.fromkeys((closed, "x.md"), "needle"))
    assert call("grep", pattern="needle") == "x.md:1: needle"
    assert "1 best of 1" in call("search", query="needle")
    with pytest.raises(ToolError, match=f"is closed: it holds {what}; `paths` in"):
        call("read", path=closed)
    assert f"{closed}:1: needle" in call("grep", paths=(closed,), pattern="needle")
    assert call("grep", paths=(".",), pattern="needle") == "x.md:1: needle"


@pytest.mark.parametrize("path", [".ENV.local", "sub/.ssh/config", "sub/.ssh"])
def test_the_refusal_gives_the_reason_and_the_remedy(call, write, path):
    """Each tool refuses a secret file with a one-line error that gives the reason and how to open it."""
    write({".ENV.local": "needle", "sub/.ssh/config": "needle"})
    for tool, arguments in (("read", {}), ("ls", {}), ("grep", {"pattern": "x"})):
        with pytest.raises(ToolError, match=f"'{path}' is closed: .* secrets, and only `paths` .* opens them") as error:
            call(tool, path=path, **arguments)
        assert "\n" not in str(error.value)


def test_the_error_for_a_missing_file_suggests_no_secret_file(call, write):
    """The error for a missing file suggests only names of visible files."""
    write({".env.local": "needle"})
    with pytest.raises(ToolError, match=r"does not exist$"):
        call("read", path=".env.locale.md")


def test_a_link_to_a_secret_file_opens_nothing(call, write, root):
    """A link to a secret file or folder opens nothing; a link with a secret name to a plain note can be read."""
    write({".env": "needle", ".ssh/config": "needle", "x.md": "plain"})
    (root / "notes.md").symlink_to(".env")
    (root / "folder").symlink_to(".ssh")
    (root / "id_rsa").symlink_to("x.md")
    for path in ("notes.md", "folder/config", "folder"):
        with pytest.raises(ToolError, match="is closed"):
            call("read", path=path)
    assert "notes.md -> (leads to what you may not read)" in call("ls")
    assert "plain" in call("read", path="id_rsa")


@pytest.mark.parametrize(
    ("paths", "opened"),
    [
        ([".env"], [".env"]),
        ([".env*"], [".env", ".env.local", ".envoy"]),
        ([".env.*"], [".env.local"]),
        (["**/.env"], [".env", "sub/.env"]),
        (["**", ".env"], [".env", ".envoy", "x.md"]),
        ([".", "sub/.env"], [".envoy", "sub/.env", "x.md"]),
        ([".ssh/"], [".ssh/config", ".ssh/id_rsa"]),
        ([".ssh/*"], [".ssh/config", ".ssh/id_rsa"]),
        ([".", ".ssh/config"], [".envoy", ".ssh/config", "x.md"]),
        (["tls/*.pem"], ["tls/a.pem"]),
        (["**/*.pem"], ["tls/a.pem"]),
        (["*.pem"], []),
        (["tls"], []),
        (["tls/*"], []),
        (["**"], [".envoy", "x.md"]),
        (["*"], [".envoy", "x.md"]),
        (["."], [".envoy", "x.md"]),
        (["[.]*"], [".envoy"]),
        ([".e*"], [".envoy"]),
        (["**/config"], []),
        (["**/id_*"], []),
        (["sub/../.env"], [".env"]),
    ],
    ids=" ".join,
)
def test_paths_open_a_secret_file_only_by_its_name(call, write, paths, opened):
    """`paths` opens a secret file by its name or by a glob for such names.

    A folder, or a glob that merely matches the name, does not open it.
    """
    names = (".env", ".env.local", ".envoy", "x.md", "sub/.env", ".ssh/config", ".ssh/id_rsa", "tls/a.pem")
    write(dict.fromkeys(names, "needle"))
    found = [line.split(":")[0] for line in call("grep", paths=tuple(paths), pattern="needle").splitlines()]
    assert [line for line in found if line[0] != "["] == opened
    for name in names:
        if name in opened:
            assert "needle" in call("read", paths=tuple(paths), path=name)
        else:
            with pytest.raises(ToolError, match=r"is closed|not among the paths"):
                call("read", paths=tuple(paths), path=name)


def test_a_link_among_paths_opens_no_secret_file(call, write, root):
    """A link in `paths` does not open a secret file under another name.

    The project controls where a link leads; the specialist's file controls which secrets are opened.
    """
    write({".ssh/config": "needle", ".env": "needle", ".aws/credentials": "needle"})
    (root / "docs").symlink_to(".ssh")
    (root / "notes.md").symlink_to(".env")
    (root / "prod.env").symlink_to(".aws/credentials")
    for paths, path in (("docs", "docs/config"), ("notes.md", "notes.md"), ("prod.env", "prod.env")):
        with pytest.raises(ToolError, match="is closed"):
            call("read", paths=(paths,), path=path)


def test_an_ignored_file_stays_hidden_even_if_named_in_paths(call, write):
    """A name in `paths` does not open a file that .gitignore hides."""
    write({".gitignore": ".env\n", ".env": "needle"})
    with pytest.raises(ToolError, match=r"hidden by \.gitignore"):
        call("read", paths=(".env",), path=".env")


def test_a_root_with_a_secret_name_can_be_read(tmp_path: Path):
    """Files in a root with a secret name can be read, since the user chose it; a key in it must still be named."""
    root = tmp_path / ".ssh"
    root.mkdir()
    (root / "config").write_text("needle")
    (root / "id_rsa").write_text("needle")
    grep = {tool.name: tool for tool in file_tools(root)}["grep"]
    assert asyncio.run(grep.call({"pattern": "needle"})).text == "config:1: needle"
