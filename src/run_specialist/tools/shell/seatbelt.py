"""The sandbox on macOS: the profile of `sandbox-exec`, and whether it is available.

Later rules of a profile override earlier ones. There are no namespaces: a command sees the process ids of others, but
may signal only processes in its sandbox. A process that leaves its process group is ended only by its limits.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from run_specialist.tools.sandbox.protected_files import PROTECTED_NAMES
from run_specialist.tools.shell.git_folder import GitFolder
from run_specialist.tools.shell.shown_files import ShownFiles

PROGRAM = "/usr/bin/sandbox-exec"

_READABLE = (
    "/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer/CommandLineTools", "/opt/homebrew",
    "/private/etc/localtime", "/private/etc/shells", "/private/var/db/timezone", "/private/var/db/dyld",
    "/private/var/select",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/fd")
_SERVICES = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center")


def why_unusable() -> str:
    """Return why there is no sandbox on this system; empty if there is one."""
    if os.access(PROGRAM, os.X_OK):
        return ""
    return f"it runs commands only in a sandbox, for which {PROGRAM} is missing"


def command(root: Path, files: ShownFiles, git: GitFolder | None, own: Path, words: Sequence[str]) -> list[str]:
    """Return the command that runs another one in the sandbox.

    own: folder of the command itself, used as its home and its folder of temporary files.
    """
    return [PROGRAM, "-p", profile(root, files, git, own), *words]


def profile(root: Path, files: ShownFiles, git: GitFolder | None, own: Path) -> str:
    """Return the profile for one command; paths are real paths."""
    return "\n".join(_rules(root, files, git, own))


def _rules(root: Path, files: ShownFiles, git: GitFolder | None, own: Path) -> Iterator[str]:
    yield "(version 1)"
    yield "(deny default)"
    yield "(allow process-fork)"
    yield "(allow process-exec)"
    yield "(allow signal (target same-sandbox))"
    yield "(allow process-info* (target same-sandbox))"
    yield "(allow sysctl-read)"
    # The names of all folders above a file are needed to open it.
    yield '(allow file-read-metadata (literal "/") (subpath "/private") (subpath "/Users") (subpath "/Volumes"))'
    yield from (f"(allow mach-lookup (global-name {_quoted(name)}))" for name in _SERVICES)
    yield from (f"(allow file-read* (subpath {_quoted(path)}))" for path in _READABLE)
    yield from (f"(allow file-read* file-write-data (subpath {_quoted(path)}))" for path in _DEVICES)
    yield from (f"(allow file-read* (subpath {_quoted(_joined(root, start))}))" for start in files.starts)
    if git:
        yield from (f"(allow file-read* (subpath {_quoted(str(path))}))" for path in git.places)
    yield f"(allow file-read* file-write* (subpath {_quoted(str(own))}))"
    yield from (f"(allow file-read* file-write* (subpath {_quoted(_joined(root, one))}))" for one in files.writable)
    yield from (f"(deny file-write* (subpath {_quoted(_joined(root, one))}))" for one in files.protected)
    # Renaming a folder unlinks it.
    yield from (f"(deny file-write-unlink (literal {_quoted(_joined(root, one))}))" for one in files.pinned)
    yield f'(deny file-write* (require-all (subpath {_quoted(str(root))}) (regex #"/{PROTECTED_NAMES}(/|$)")))'
    for one in (*files.hidden_folders, *files.hidden_files):
        yield f"(deny file-read-data file-write* (subpath {_quoted(_joined(root, one))}))"
    for path in (*git.configs, *git.hidden, *git.emptied) if git else ():
        yield f"(deny file-read-data file-write* (subpath {_quoted(str(path))}))"
    yield "(deny network*)"


def _joined(root: Path, relative: str) -> str:
    return str(root / relative)


def _quoted(text: str) -> str:
    """Return a string literal of the profile language that no character of the path can end."""
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
