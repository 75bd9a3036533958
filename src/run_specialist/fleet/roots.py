"""The folders of this host by the names that batches use for them, and whether a folder is that of a batch."""

import hashlib
import os
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.specialist.project import project_root

GIT_TIME = 10.0
"""Time limit of a git command; after it the repository has no id [s]."""
COMMIT, PLACE = "commit:", "place:"
"""Prefixes of ids: of the first commits of a repository, and of one folder of one host."""
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never")
# The configuration of a repository must not start programs, and git needs no key.
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class RootMissing(UsageError):
    """This worker does not have the root of a batch."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of this host."""

    path: Path
    ids: frozenset[str] = frozenset()
    """Ids of the repository and of the folder, as `root_ids` returns them."""
    is_named: bool = True
    """Whether the operator named it with `--root`; otherwise it is the project of the worker's folder."""


def roots_of(given: Sequence[str], start: Path) -> dict[str, Root]:
    """Return folders by name: those given as `NAME=PATH`, otherwise the project of a folder, under its own name.

    Raises UsageError for another form, a duplicate name, and a path that is not a folder.
    """
    if not given:
        project = project_root(start)
        return {root_name(project): Root(project, frozenset(root_ids(project)), is_named=False)}
    roots: dict[str, Root] = {}
    for one in given:
        name, sign, path = one.partition("=")
        if not name or not sign or not path:
            raise UsageError(f"--root: got {one!r}; use NAME=PATH")
        if name in roots:
            raise UsageError(f"--root: {name} is given twice")
        folder = Path(path).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"--root: {name}={path} is not a folder")
        roots[name] = Root(folder, frozenset(root_ids(folder)))
    return roots


def find_root(roots: Mapping[str, Root], name: str, ids: Collection[str], batch_id: str) -> Path:
    """Return the folder of this host for the root of a batch; raises RootMissing.

    A folder that the operator named is refused only if it is known to be another repository. The project of the
    worker's folder must have an id of the batch's root, because other projects have the same name.
    ids: those of the root where the batch was put into the queue.
    """
    root = roots.get(name)
    if root is None:
        known = ", ".join(sorted(roots)) or "none"
        raise RootMissing(
            f"batch {batch_id} needs the root {name}, and this worker has {known}; start it with --root {name}=PATH"
        )
    if not root.ids.isdisjoint(ids):
        return root.path
    if not root.is_named:
        raise RootMissing(
            f"batch {batch_id} needs the root {name}, and {root.path} is not known to be the same project; if it is, "
            f"start the worker with --root {name}={root.path}"
        )
    if _has_commit(root.ids) and _has_commit(ids):
        raise RootMissing(
            f"batch {batch_id} needs the root {name}, and {root.path} is another repository; "
            f"start the worker with the --root {name}=PATH of that repository"
        )
    return root.path


def root_name(root: Path) -> str:
    """Return the name by which other hosts know a root: that of its folder."""
    return root.resolve().name or "root"


def root_ids(root: Path) -> list[str]:
    """Return the ids of a root: of the first commits of its repository, if git knows them, and of the folder itself."""
    real = root.resolve()
    info = real.stat()
    ids = [_id(PLACE, socket.gethostname(), str(real), str(info.st_dev), str(info.st_ino))]
    # The oldest commits of a shallow clone are not those of the repository.
    if _git(real, "rev-parse", "--is-shallow-repository") == "false":
        commits = sorted(_git(real, "rev-list", "--max-parents=0", "HEAD").split())
        ids += [_id(COMMIT, *commits)] if commits else []
    return ids


def _has_commit(ids: Collection[str]) -> bool:
    return any(one.startswith(COMMIT) for one in ids)


def _id(prefix: str, *parts: str) -> str:
    return prefix + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command; empty if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            [*_GIT, *arguments],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name == "PATH"} | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=GIT_TIME,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.decode("ascii", "replace").strip()
