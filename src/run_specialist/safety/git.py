"""Run git in a folder of a project that need not be trusted: the only place of this package that runs git."""

import os
import shutil
import subprocess
from pathlib import Path

from run_specialist.errors import UsageError

TIMEOUT = 30.0
"""Timeout of git, because a network file system may never answer [s]."""
# The variables that git gets, besides PATH: no keys, and nothing that names another repository.
#
# The configuration of the user and of the system stays, because only there `safe.directory` counts.
_INHERITED = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
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
# Settings that win over those of the repository, whose configuration is a file of the project.
_OVERRIDDEN = f"""
    protocol.allow=never core.hooksPath={os.devnull} core.fsmonitor=false core.askPass= core.sshCommand=false
    core.alternateRefsCommand=false credential.helper= diff.external= fetch.bundleURI= fetch.recurseSubmodules=false
    maintenance.auto=false gc.auto=0
""".split()


class GitMissing(UsageError):
    """There is no git on PATH."""


def ask_git(folder: Path, *arguments: str, seconds: float = TIMEOUT) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder and return its output, whatever its exit code.

    Its environment has no keys, and neither the project's configuration nor a missing object starts a program.
    seconds: time limit.
    Raises GitMissing, or another UsageError if git cannot be run or does not answer in time.
    """
    # In a relative folder of PATH, such as `.`, a project could put its own git.
    path = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    program = shutil.which("git", path=path)
    if program is None:
        raise GitMissing("git is not on PATH")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    overridden = [word for setting in _OVERRIDDEN for word in ("-c", setting)]
    try:
        return subprocess.run(  # noqa: S603 - no shell
            [program, "--no-pager", *overridden, "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={"PATH": path, **inherited, **_ENVIRONMENT},
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"git did not answer within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"git cannot be asked: {error}") from None
