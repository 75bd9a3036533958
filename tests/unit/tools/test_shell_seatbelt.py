"""The profile for macOS, as text: it cannot be run on other systems."""

import re
from pathlib import Path

import pytest

from run_specialist.tools.shell import system_sandbox
from run_specialist.tools.shell.places import CommandFiles

ROOT, OWN = Path("/Users/me/project"), Path("/private/var/folders/x/T/own")
FILES = CommandFiles(
    shown=[ROOT],
    writable=[ROOT / "out"],
    protected=[ROOT / "out/.claude"],
    emptied=[ROOT / "build"],
    closed=[ROOT / ".env", ROOT / ".git/.git-credentials"],
    git_settings=[ROOT / ".git/config"],
)


def decided(profile, action, path):
    """Return what the last rule that matches says about an action on a path."""
    answer = "deny"
    for line in profile.splitlines():
        verdict, _, rest = line.strip("()").partition(" ")
        actions = rest.split(" (")[0].split()
        if verdict not in {"allow", "deny"} or not any(action.startswith(one.rstrip("*")) for one in actions):
            continue
        places = re.findall(r'\((subpath|literal|regex) #?"((?:[^"\\]|\\.)*)"\)', line)
        holds = [_holds(kind, text, path) for kind, text in places]
        if not places or (all(holds) if "require-all" in line else any(holds)):
            answer = verdict
    return answer


def _holds(kind, text, path):
    if kind == "regex":
        return re.search(text, path) is not None
    plain = re.sub(r"\\(.)", r"\1", text)
    return path == plain or (kind == "subpath" and path.startswith(f"{plain}/"))


@pytest.mark.parametrize(
    ("path", "reads", "writes"),
    [
        ("/usr/bin/git", "allow", "deny"),
        ("/Users/me/.ssh/id_rsa", "deny", "deny"),
        ("/Users/me/project/a.md", "allow", "deny"),
        ("/Users/me/project/.env", "deny", "deny"),
        ("/Users/me/project/build/x", "deny", "deny"),
        ("/Users/me/project/.git/HEAD", "allow", "deny"),
        ("/Users/me/project/.git/config", "deny", "deny"),
        ("/Users/me/project/.git/.git-credentials", "deny", "deny"),
        ("/Users/me/project/out/x", "allow", "allow"),
        ("/Users/me/project/out/.claude/x", "allow", "deny"),
        ("/Users/me/project/out/new/.git/hooks/x", "allow", "deny"),
        ("/Users/me/project/out/CLAUDE.md", "allow", "deny"),
        ("/private/var/folders/x/T/own/x", "allow", "allow"),
        ("/private/var/folders/x/T/other", "deny", "deny"),
        ("/private/etc/master.passwd", "deny", "deny"),
    ],
)
def test_the_profile_allows_what_the_sandbox_of_linux_shows(path, reads, writes):
    """System folders and the root can be read, without what is hidden; only `writable` and an own folder be changed."""
    profile = system_sandbox.profile(ROOT, FILES, OWN)
    assert (decided(profile, "file-read-data", path), decided(profile, "file-write-data", path)) == (reads, writes)


def test_there_is_no_network_and_no_signal_to_others():
    """The profile denies what it does not allow, and names these."""
    profile = system_sandbox.profile(ROOT, FILES, OWN)
    assert profile.startswith("(version 1)\n(deny default)\n")
    assert profile.endswith("(deny network*)")
    assert "(allow signal (target same-sandbox))" in profile


def test_no_path_can_end_its_text():
    """A folder with a quotation mark adds no rule."""
    profile = system_sandbox.profile(ROOT, CommandFiles([Path('/x") (allow default) ("')]), OWN)
    assert '(subpath "/x\\") (allow default) (\\"")' in profile
