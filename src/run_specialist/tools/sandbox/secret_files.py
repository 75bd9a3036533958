"""Names of files and folders that usually hold secrets; the file tools keep them closed unless `paths` names them.

Only names count, in any case, and never the content: `id_card.md`, `keys/`, `secrets.md` and `server.crt` stay open.
The list follows the defaults of coding agents and the names that scanners for leaked secrets look for.
"""

import re
from functools import lru_cache

_TEMPLATES = (".example", ".sample", ".template", ".dist", ".tpl")
"""A file of variables that ends like this has no values."""
_NAMES = frozenset(
    {
        # Variables of the environment; `_LIKE` has the others.
        ".env", ".envrc",
        # Keys, and what holds them.
        ".ssh", ".gnupg", ".password-store", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk",
        "id_ed25519_sk", ".vault-token", ".secrets",
        # Clouds and clusters.
        ".aws", ".azure", ".oci", ".boto", ".s3cfg", ".dockercfg", ".dockerconfigjson", ".terraformrc",
        # Package registries, hosts of code, other servers.
        ".npmrc", ".pypirc", ".netrc", "_netrc", ".git-credentials", ".smbcredentials", ".credentials.json",
        # Databases.
        ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd",
        # Applications.
        "credentials.json", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
        # Commands that were typed, with the passwords among them.
        ".bash_history", ".zsh_history", ".mysql_history", ".psql_history", ".python_history",
    }
)  # fmt: skip
_PLACES = frozenset(
    {
        ".docker/config.json", ".kube/config", ".config/gcloud", ".config/hub", "gh/hosts.yml", "rclone/rclone.conf",
        ".terraform.d/credentials.tfrc.json", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
        ".composer/auth.json", ".codex/auth.json", ".m2/settings.xml", "sops/age",
    }
)  # fmt: skip
"""Names that say little by themselves, each in its folder."""
_ENDINGS = (
    ".pem", ".key", ".p8", ".pk8", ".p12", ".pfx", ".pkcs12", ".ppk", ".jks", ".keystore", ".bks", ".kdb", ".kdbx",
    ".psafe3", ".keychain", ".keychain-db", ".env", ".tfstate", ".tfvars", ".tfvars.json", ".kubeconfig", ".ovpn",
)  # fmt: skip
_LIKE = re.compile(
    r"\.env[.-].*|ssh_host_.*_key|service[-_]?account.*\.json|client_secret.*\.json|.*\.tfstate\..*", re.DOTALL
)
_OPEN = frozenset({f"{word[1:]}.env" for word in _TEMPLATES})
"""`example.env` and the like, which are templates too."""
_WILDCARDS = str.maketrans("", "", "*?")


def is_secret(relative: str) -> bool:
    """Tell whether a file or folder usually holds secrets, by its name or that of a folder that it lies in.

    relative: as seen from the root, which counts as no secret whatever its own name is.
    """
    above, _, name = relative.rpartition("/")
    return _is_named_so(above.rpartition("/")[2], name) or _is_inside(above)


def names_secret(above: str, part: str) -> bool:
    """Tell whether a part of one of a specialist's `paths` means such a name and not only anything that it fits.

    above: the part before it.
    part: a name or a glob: `.env`, `.env*` and `*.pem` do, `*` and `id_*` do not.
    """
    return _is_named_so(above, part) or _is_named_so(above, part.translate(_WILDCARDS))


@lru_cache(maxsize=256)  # it is asked for each entry of a folder
def _is_inside(folder: str) -> bool:
    parts = folder.split("/")
    return any(_is_named_so(above, name) for above, name in zip(["", *parts], parts, strict=False))


def _is_named_so(above: str, name: str) -> bool:
    # Windows opens `.env` by the names `.env.`, `.env ` and `.env::$DATA` too.
    name = name.casefold().removesuffix("::$data").rstrip(". ")
    if name in _NAMES or name.endswith(_ENDINGS) or _LIKE.fullmatch(name):
        return not name.endswith(_TEMPLATES) and name not in _OPEN
    return f"{above.casefold()}/{name}" in _PLACES
