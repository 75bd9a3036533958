"""Files that the file tools hide from models, and files that no tool may change.

Only names count, case-insensitively, never the content: `id_card.md`, `keys/`, `secrets.md` and `server.crt` stay
readable. The list follows the defaults of coding agents and the names that secret scanners look for.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from run_specialist.specialist.dialects import DIALECTS, config_folder, user_folders
from run_specialist.specialist.skills import SKILL

# Extensions of template files, which contain no secret values.
_TEMPLATE_EXTENSIONS = (".example", ".sample", ".template", ".dist", ".tpl")
_SECRET_NAMES = frozenset(
    {
        # Environment files; `_LIKE` matches the others.
        ".env", ".envrc", ".flaskenv", ".dev.vars",
        # Keys and key stores.
        ".ssh", ".gnupg", ".password-store", ".vault-token", ".secrets",
        # Clouds and clusters.
        ".aws", ".azure", ".oci", ".boto", ".s3cfg", ".dockercfg", ".dockerconfigjson", ".terraformrc",
        "terraform.rc", ".databrickscfg", ".passwd-s3fs", "rclone.conf", "local.settings.json",
        # Package registries, code hosts, other servers.
        ".npmrc", ".pypirc", ".netrc", "_netrc", ".git-credentials", ".smbcredentials", ".credentials.json",
        # Databases.
        ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd",
        # Applications.
        "credentials.json", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
    }
)  # fmt: skip
# Names that are secret only in a certain folder.
_SECRET_PATHS = frozenset(
    {
        ".docker/config.json", ".kube/config", ".config/gcloud", ".config/hub", "gh/hosts.yml", "rclone/rclone.conf",
        ".terraform.d/credentials.tfrc.json", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
        ".composer/auth.json", ".codex/auth.json", ".m2/settings.xml", "sops/age",
    }
)  # fmt: skip
_SECRET_EXTENSIONS = (
    ".pem", ".key", ".p8", ".pk8", ".p12", ".pfx", ".pkcs12", ".ppk", ".jks", ".keystore", ".bks", ".kdb", ".kdbx",
    ".psafe3", ".keychain", ".keychain-db", ".env", ".tfstate", ".tfvars", ".tfvars.json", ".kubeconfig", ".ovpn",
    ".keytab",
)  # fmt: skip
_SECRET_PATTERN = re.compile(
    r"\.env[.-].*|ssh_host_.*_key|service[-_]?account.*\.json|client_secret.*\.json|.*\.tfstate\..*"
    # SSH keys such as `id_ed25519_work` and `id_rsa.work`, but neither public ones nor notes.
    r"|id_(rsa|dsa|ecdsa|ed25519|xmss)([-_@ ][^.]*)?"
    r"(\.(?!(pub|md|markdown|txt|rst|adoc|html?|py|js|ts|go|rs|rb|java|c|h|sh)$)[^.]*)?"
    r"|kubeconfig([-_.].*)?(?<!\.md)(?<!\.rst)|[-_.\w]*\.kubeconfig\.ya?ml"
    r"|\.?(ansible[-_])?vault[-_]?pass(word|wd|phrase)?([-_]?file)?(\.txt)?"
    # Command histories, which may contain passwords.
    r"|[._]\w+_history|fish_history",
    re.DOTALL,
)
# Copies that editors, tools and people leave: `.env~`, `#.env#`, `.id_rsa.swp`, `server.key.bak`, `.netrc-old`.
_COPY = re.compile(
    r"(copy of |\.?#)?(?P<name>.*?)"
    r"(#|~|\.(bak|backup|bkp|old|orig|save|saved|copy|prev|previous|rej|tmp|temp|swpx?|sw[a-o]|un|kate-swp)"
    r"|[-_ ](bak|backup|old|orig|copy)| \(copy\)| ?\(\d+\)|\.~\d+~|[-_.]\d+)*",
    re.DOTALL,
)
# Template names with the extension `.env`, e.g. `example.env`.
_TEMPLATE_NAMES = frozenset({f"{word[1:]}.env" for word in _TEMPLATE_EXTENSIONS})
_CASE_EXTENSIONS = (".evals.yaml", ".evals.yml")
# Folders with the notes of specialists, which are not sources.
_NOTES = frozenset({".run-specialist/memory", ".run-specialist/memory-local"})
_CLOSED_PATHS = _SECRET_PATHS | _NOTES
_WILDCARDS = str.maketrans("", "", "*?")


def is_secret(relative: str) -> bool:
    """Return whether a file or folder usually holds secrets, eval cases or notes, by its name or by a folder above it.

    relative: path relative to the root; the name of the root itself does not count.
    """
    above, _, name = relative.rpartition("/")
    return _is_secret_name(above.rpartition("/")[2], name) or _is_in_secret_folder(above)


def holds_cases(relative: str) -> bool:
    """Return whether a file has the cases of an eval, which contain the answers that are expected."""
    name = relative.casefold()
    return name.endswith(_CASE_EXTENSIONS) or f"/{name}".endswith("/evals/evals.json")


def holds_notes(relative: str) -> bool:
    """Return whether a file or folder has notes of specialists."""
    parts = relative.casefold().split("/")
    return any(f"{above}/{name}" in _NOTES for above, name in pairwise(parts))


def names_secret(above: str, part: str) -> bool:
    """Return whether a component of a specialist's `paths` names a secret file, and does not merely match it.

    above: the component before it.
    part: a name or a glob; `.env`, `.env*` and `*.pem` do, `*` and `id_*` do not.
    """
    return _is_secret_name(above, part) or _is_secret_name(above, part.translate(_WILDCARDS))


@lru_cache(maxsize=256)  # called for each entry of a folder
def _is_in_secret_folder(folder: str) -> bool:
    parts = folder.split("/")
    return any(_is_secret_name(above, name) for above, name in zip(["", *parts], parts, strict=False))


def _is_secret_name(above: str, name: str) -> bool:
    # Windows also opens `.env` as `.env.`, `.env ` and `.env::$DATA`.
    name = name.casefold().removesuffix("::$data").rstrip(". ")
    match = _COPY.fullmatch(name)
    copied = match["name"] if match else name
    # Vim puts a dot before the name.
    for one in dict.fromkeys((name, copied, copied.removeprefix("."))):
        if one in _SECRET_NAMES or one.endswith(_SECRET_EXTENSIONS) or _SECRET_PATTERN.fullmatch(one):
            if not one.endswith(_TEMPLATE_EXTENSIONS) and one not in _TEMPLATE_NAMES:
                return True
        elif (path := f"{above.casefold()}/{one}") in _CLOSED_PATHS or holds_cases(path):
            return True
    return False


# Files that no tool may change, whatever `writable` says: they decide what programs and agents may do later.
#
# Those are the files of git, secrets, agent files, instructions and settings of this program and others, and the rules
# of what the file tools can see.

# Files, and folders with all that is in them.
_NAMES = (
    # Agents and skills of all programs; at any depth, because any folder can become the root of a project.
    *dict.fromkeys(folder.split("/")[0] for dialect in DIALECTS for folder in dialect.project),
    ".agents", ".copilot", ".run-specialist", ".kiro", ".roo", ".qwen", ".windsurf", ".continue", ".amazonq", ".junie",
    # Instructions and settings of agents.
    "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", SKILL, ".mcp.json",
    "opencode.json", "opencode.jsonc", ".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".roomodes",
    ".goosehints", ".aider.conf.yml", "pyproject.toml",
    # Hooks and settings of version control, and tasks that editors run.
    ".gitmodules", ".githooks", ".husky", ".hg", ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json",
    # Commands of shells that enter a folder.
    ".envrc", ".mise", ".mise.toml", ".mise.local.toml", "mise.toml", "mise.local.toml", ".tool-versions",
)  # fmt: skip
# Names that are protected only in a certain folder.
_PATHS = (".config/mise", ".config/mise.toml", ".config/mise.local.toml", "mise/config.toml", "mise/config.local.toml")
_ENDINGS = (".agent.md", ".chatmode.md", ".code-workspace")
# Test runners and package managers write these into the folders that they make; they cannot show more than commands see
# of a writable folder anyway.
_CREATED_BY_COMMANDS = frozenset({".gitignore", ".gitattributes"})
_FOLDED = frozenset(name.casefold() for name in _NAMES)
_GIT = re.compile(r"\.git|git~[0-9]+")
_DATA = "run-specialist"

PROTECTED_NAMES = "({}|git~[0-9]+|[^/]*({}))".format(
    "|".join(map(re.escape, (".git", *_NAMES, *_PATHS))), "|".join(map(re.escape, _ENDINGS))
)
"""Regular expression for the names that the sandbox of macOS refuses to change."""


def reason_to_protect(relative: str) -> str:
    """Return why a file must not be changed, as a clause; empty if it may be.

    relative: path relative to the root, with `/`.
    """
    parts = [_plain(part) for part in relative.split("/")]
    if any(_GIT.fullmatch(part) for part in parts):
        return "it belongs to git"
    if is_secret(relative) or is_secret("/".join(parts)):
        return "such files hold secrets"
    found = next((name for at in range(len(parts)) if (name := _protected_name(parts[: at + 1]))), "")
    if not found and parts[-1] in _CREATED_BY_COMMANDS:
        found = parts[-1]
    return f"{found} decides what agents and programs may do" if found else ""


def is_protected_from_commands(relative: str) -> bool:
    """Return whether a command must not change a file or folder, by its own name; folders above it do not count.

    relative: path relative to the root, with `/`. Secrets do not count: they are hidden instead.
    """
    parts = [_plain(part) for part in relative.rsplit("/", 2)[-2:]]
    return bool(_GIT.fullmatch(parts[-1]) or _protected_name(parts))


def _protected_name(parts: Sequence[str]) -> str:
    """Return the end of a path if it is protected by name; empty if it is not.

    parts: the components, as `_plain` returns them.
    """
    name, path = parts[-1], "/".join(parts[-2:])
    if name in _FOLDED or name.endswith(_ENDINGS):
        return name
    return path if path in _PATHS else ""


def own_folders(more: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the real paths of the folders and files with agents, settings, permissions and runs of the user.

    more: further ones.
    """
    import platformdirs  # noqa: PLC0415 - takes 20 ms, needed only for files that change something

    data = platformdirs.user_data_path(_DATA, appauthor=False)
    folders = (config_folder() / _DATA, data, *user_folders(), *more)
    return tuple(Path(os.path.realpath(path)) for path in folders if path.is_absolute())


def _plain(name: str) -> str:
    """Return a name as the least particular file systems see it."""
    # Some ignore case, invisible characters, and dots and blanks at the end; Windows opens a stream after a colon.
    kept = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return kept.casefold().partition(":")[0].rstrip(". ")
