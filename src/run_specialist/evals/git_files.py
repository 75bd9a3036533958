"""Read files as they were at a commit, without touching the work tree."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import UsageError

TIMEOUT = 30.0
"""Timeout of git, because a network file system may never answer [s]."""
LARGEST = 32 * 1024 * 1024
"""Maximum size of a file [bytes]."""

_REDIRECTIONS = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_INDEX_FILE", "GIT_PREFIX"}
)
"""Environment variables that git hooks set; they would redirect git to another repository."""
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}


class NoCommit(UsageError):
    """The repository has no such commit, or there is no repository."""


class NoFile(UsageError):
    """The commit has no such file."""


@dataclass(frozen=True)
class Commit:
    """A commit of the repository that contains a folder."""

    top: Path
    """The folder of the work tree."""
    digest: str
    """Full hash."""

    @property
    def short(self) -> str:
        """The first digits of the hash, as usually written."""
        return self.digest[:10]

    @classmethod
    def named(cls, ref: str, folder: Path) -> "Commit":
        """Return the commit of a branch, tag or hash; raises NoCommit, or UsageError if git fails."""
        where = _git(folder, "rev-parse", "--show-toplevel")
        if where.returncode:
            reason = where.stderr.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ")
            raise NoCommit(f"{folder} is not in a readable git work tree ({reason or 'git failed'})")
        top = Path(os.fsdecode(where.stdout.removesuffix(b"\n")))
        # Without this, `--help` and the like would be options.
        found = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        digest = found.stdout.decode("ascii", "replace").strip()
        if found.returncode or not digest:
            raise NoCommit(f"no commit of {top} has this name; a shallow clone may have to fetch it first")
        return cls(top, digest)

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        path: relative to the top of the work tree, with `/`.
        Raises NoFile if there is no such regular file.
        """
        listed = _git(self.top, "ls-tree", "-z", "--long", self.digest, "--", path)
        entry = listed.stdout.partition(b"\0")[0].partition(b"\t")[0].decode("ascii", "replace").split()
        if listed.returncode or not entry:
            raise NoFile(f"{path} does not exist in commit {self.short}")
        mode, kind, blob, size = entry
        if kind != "blob" or mode == "120000":
            raise NoFile(f"{path} is not a regular file in commit {self.short}")
        if int(size) > LARGEST:
            raise NoFile(f"{path} is larger than {LARGEST // 1024**2} MiB in commit {self.short}")
        content = _git(self.top, "cat-file", "blob", blob)
        if content.returncode:
            raise NoFile(f"{path} cannot be read from commit {self.short}: git cat-file failed")
        return content.stdout


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTIONS} | _ENVIRONMENT
    try:
        return subprocess.run(  # noqa: S603 - no shell
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - git of the user's PATH
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment,
            timeout=TIMEOUT,
        )
    except FileNotFoundError:
        raise UsageError("git is not on PATH, so a commit cannot be a baseline") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git did not answer within {TIMEOUT:g} s") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"git cannot be asked: {error}") from None
