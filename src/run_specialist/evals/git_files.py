"""Read files as they were at a commit, without touching the work tree."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import UsageError

TIMEOUT = 30.0
"""Timeout of git, because a network file system may never answer [s]."""
LARGEST = 32 * 1024 * 1024
"""Maximum size of a file [bytes]."""
_COLUMNS = 4
"""Mode, kind, object and size: what `git ls-tree --long` writes before the path."""

_INHERITED = (
    *("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("USERPROFILE", "SYSTEMROOT", "TEMP", "TMP"),
)
"""The variables that git gets, besides PATH: no keys, and nothing that names another repository.

The configuration of the user and of the system stays, because only there `safe.directory` counts.
"""
_ENVIRONMENT = {
    # The first is for git since 2.44; before, a missing object is fetched, for which no protocol is allowed then.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
_OVERRIDDEN = (
    "protocol.allow=never",
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.external=",
    "fetch.bundleURI=",
    "fetch.recurseSubmodules=false",
    "maintenance.auto=false",
    "gc.auto=0",
)
"""Settings that win over those of the repository, whose configuration is a file of the project."""


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
        found = listed.stdout.partition(b"\0")[0].partition(b"\t")[0].decode("ascii", "replace").split()
        if listed.returncode or len(found) != _COLUMNS:
            raise NoFile(f"{path} does not exist in commit {self.short}")
        mode, kind, blob, size = found
        if kind != "blob" or mode == "120000":
            raise NoFile(f"{path} is not a regular file in commit {self.short}")
        if not size.isdecimal():
            # For a missing object, git writes BAD; a partial clone has such objects.
            advice = "if you trust this repository, fetch it with git"
            raise NoFile(f"{path} of commit {self.short} is missing in this partial clone; {advice}")
        if int(size) > LARGEST:
            raise NoFile(f"{path} is larger than {LARGEST // 1024**2} MiB in commit {self.short}")
        content = _git(self.top, "cat-file", "blob", blob)
        if content.returncode:
            raise NoFile(f"{path} cannot be read from commit {self.short}: git cat-file failed")
        return content.stdout


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run git in a folder of a project that need not be trusted, the only place of this package that runs git.

    Its environment has no keys, and neither the project's configuration nor a missing object starts a program.
    Raises UsageError if git cannot be run, or does not answer in time.
    """
    # In a relative folder of PATH, such as `.`, a project could put its own git.
    path = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    program = shutil.which("git", path=path)
    if program is None:
        raise UsageError("git is not on PATH, so a commit cannot be a baseline")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    overridden = [word for setting in _OVERRIDDEN for word in ("-c", setting)]
    try:
        return subprocess.run(  # noqa: S603 - no shell
            [program, "--no-pager", *overridden, "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={"PATH": path, **inherited, **_ENVIRONMENT},
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"git did not answer within {TIMEOUT:g} s") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"git cannot be asked: {error}") from None
