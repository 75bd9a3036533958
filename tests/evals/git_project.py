"""Repositories for the tests of baselines."""

import os
import shutil
import subprocess
import sys

import pytest

NEEDS_GIT = pytest.mark.skipif(not shutil.which("git") or sys.platform == "win32", reason="git reads the baseline")
_OWN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_WHO = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder, *arguments):
    """Call git in a folder and return what it prints."""
    done = subprocess.run(
        ["git", "-C", str(folder), *_WHO, *arguments],  # noqa: S607 - git of the user's PATH
        capture_output=True,
        check=True,
        env=os.environ | _OWN,
    )
    return done.stdout.decode().strip()


def commit(folder, **files):
    """Write files, commit all of the folder, and return the hash.

    files: contents by path, with `__` for `/` and `_DOT_` for a point.
    """
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a commit")
    return git(folder, "rev-parse", "HEAD")
