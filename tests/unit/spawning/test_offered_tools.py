"""Who gets `fetch`: files that name it, and of those in a project the ones that the user trusts."""

import sys

import pytest

from run_specialist.spawning import server_tools as subject
from run_specialist.spawning.extra_tools import offered_tools
from run_specialist.spawning.trust import RunContext, Trust, origins_of_stored
from run_specialist.specialist.loader import load
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.tools.shell import system_sandbox
from tests.projects import project


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Return a function that writes a specialist and returns the tools that it gets."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with project(tmp_path / "project") as made:

        def write(*lines, trust=False, by_program=False, resumed=None):
            file = load(made.specialist(*lines))
            settings = file.specialist if resumed is None else file.specialist.model_copy(update=resumed)
            trusting = Trust(given=trust, folder=tmp_path / "trusted")
            origins = origins_of_stored(settings, file) if resumed is not None else None
            origins = ValueOrigins() if by_program else origins
            return offered_tools(RunContext(file, settings, made.root, trusting, origins))

        yield write


@pytest.mark.parametrize("name", ["fetch", "WebFetch", "web/fetch", "WebFetch(domain:example.com)"])
def test_a_trusted_file_that_names_it_gets_it(given, name):
    """Under each of its names, with `--trust`, and from then on without."""
    assert [tool.name for tool in given(f"tools: [search, '{name}']", trust=True).offered] == ["fetch"]
    assert [tool.name for tool in given(f"tools: [search, '{name}']").offered] == ["fetch"]


def test_without_trust_the_run_has_one_tool_less(given):
    """For an untrusted file of a project, the message says what it would do, and how to allow it."""
    found = given("tools: search, fetch", "allowed_domains: example.com, example.org")
    assert found.offered == ()
    assert found.withheld["fetch"] == "it would fetch pages of example.com, example.org; allow it once, with --trust"
    (warning,) = found.warnings
    assert ":4:1: tools: `fetch` is not offered: it would fetch pages of" in warning


def test_other_domains_must_be_trusted_again(given):
    """Trust holds for the file as it was."""
    assert given("tools: fetch", "allowed_domains: example.com", trust=True).offered
    assert not given("tools: fetch", "allowed_domains: example.org").offered


@pytest.mark.parametrize(
    "lines",
    [("tools: search",), ("tools: '*'",), ("tools: '*fetch'",), (), ("tools: fetch", "disallowed_tools: WebFetch")],
)
def test_who_does_not_name_it_does_not_get_it(given, lines):
    """A list without it, a pattern, no list at all, and a list that disallows it: no tool, and no warning."""
    found = given(*lines, trust=True)
    assert (found.offered, found.withheld, found.warnings) == ((), {}, ())


def test_without_its_packages_it_is_not_offered(given, monkeypatch):
    """The reason names the extra and how to add it."""
    monkeypatch.setattr(subject, "find_spec", lambda _name: None)
    found = given("tools: fetch", trust=True)
    assert found.offered == ()
    assert found.withheld["fetch"].startswith("it needs the extra `web`; ")


def test_stored_settings_of_others_are_not_trusted(given):
    """A specialist of the program needs no trust; stored settings that name it, although the file does not, do."""
    assert given("tools: fetch", by_program=True).offered
    assert not given("tools: search", resumed={"tools": ("fetch",)}).offered


@pytest.fixture
def sandboxed(monkeypatch):
    """Let there be a sandbox, whatever this machine has."""
    monkeypatch.setattr(system_sandbox, "why_no_sandbox", lambda: "")


@pytest.mark.parametrize(
    "name", ["bash", "Bash", "run_shell_command", "execute/runInTerminal", "terminal", "Bash(git log:*)"]
)
def test_a_trusted_file_that_names_it_gets_the_shell(given, sandboxed, name):
    """Under its names in other programs, and with rules for its commands; without trust there is none."""
    assert given(f"tools: [read, '{name}']").offered == ()
    assert [tool.name for tool in given(f"tools: [read, '{name}']", trust=True).offered] == ["bash"]


def test_the_description_says_what_commands_may_do(given, sandboxed, tmp_path):
    """Where they run, what they may change, and which ones."""
    (tmp_path / "project" / "out").mkdir(parents=True)
    (alone,) = given("tools: Bash(git log:*)", trust=True).offered
    root = f"the working folder is the root, {tmp_path / 'project'}. Nothing can be changed but /tmp"
    assert root in alone.description
    assert alone.description.endswith("Only these commands may be run: `git log:*`.")
    (beside,) = given("tools: bash, read", "writable: out", trust=True).offered
    assert "Only out can be changed, and /tmp" in beside.description


def test_the_demand_says_what_commands_may_do(given, sandboxed, tmp_path):
    """Which ones, and what they may change; another folder must be allowed again."""
    (tmp_path / "project" / "out").mkdir(parents=True)
    lines = "tools: [read, 'Bash(git log:*)', fetch]", "disallowed_tools: Bash(git push:*)"
    assert given(*lines, "writable: out").withheld["bash"] == (
        "it would run commands in a sandbox, which may change out (Only these commands may be run: `git log:*`. These "
        "must not be run: `git push:*`; this is advisory); allow it once, with --trust"
    )
    assert given(*lines, trust=True).offered
    assert given(*lines).offered
    assert not given(*lines, "writable: out").offered
    assert given(*lines, by_program=True).offered
    assert not given("tools: read", resumed={"tools": ("bash",)}).offered


@pytest.mark.parametrize(
    "lines",
    [
        ("tools: read",),
        ("tools: '*'",),
        ("tools: 'b*'",),
        (),
        ("tools: bash", "disallowed_tools: Bash"),
        ("tools: {bash: false}",),
    ],
)
def test_who_does_not_name_it_gets_no_shell(given, sandboxed, lines):
    """No list, a pattern, a list that disallows it, a switch that is off: no tool and no warning."""
    found = given(*lines, trust=True)
    assert (found.offered, found.withheld, found.warnings) == ((), {}, ())


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["tools: Bash()"], "its rule allows no command"),
        (
            ["tools: bash", "writable: [out, missing]"],
            "writable: out: it cannot be opened: No such file or directory; missing",
        ),
    ],
)
def test_a_shell_that_could_do_nothing_is_not_offered(given, sandboxed, lines, reason):
    """A rule without a command, and folders that cannot be opened for writing."""
    found = given(*lines, trust=True)
    assert found.withheld["bash"].startswith(reason)
    assert "`bash` is not offered" in found.warnings[0]


def test_commands_never_see_the_home_folder(given, sandboxed, monkeypatch, tmp_path):
    """With the home folder in the root, the tool is not offered."""
    monkeypatch.setenv("HOME", str(tmp_path / "project" / "home"))
    assert "commands would see your home folder" in given("tools: bash", trust=True).withheld["bash"]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (None, "bwrap must be installed (package bubblewrap)"),
        ("/bin/false", "bwrap cannot make one here: exit code 1; the system must allow user namespaces"),
        ("/missing/bwrap", "bwrap cannot make one here: [Errno 2]"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other sandboxes")
def test_without_a_sandbox_there_is_no_shell(given, monkeypatch, program, reason):
    """The warning says why, and what to install or allow; it is tried once."""
    monkeypatch.setattr(system_sandbox, "program", lambda: program)
    system_sandbox._bwrap.cache_clear()
    try:
        found = given("tools: [read, bash]", trust=True)
    finally:
        system_sandbox._bwrap.cache_clear()
    assert found.offered == ()
    assert reason in found.withheld["bash"]


def test_other_systems_have_no_shell(given, monkeypatch):
    """Where there is no sandbox, no command is run."""
    monkeypatch.setattr(sys, "platform", "win32")
    found = given("tools: bash", trust=True)
    assert (found.offered, "there is none for this system" in found.withheld["bash"]) == ((), True)
