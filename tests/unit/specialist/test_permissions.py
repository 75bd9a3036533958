"""The key `permission` of opencode: uses that it does not explicitly allow are not allowed here."""

import pytest

from run_specialist.spawning.extra_tools import SHELL_OFFER
from run_specialist.specialist.loader import load
from run_specialist.tools.shell.tool import CommandRules


@pytest.fixture
def loaded(tmp_path):
    """Return a function that writes a specialist with these lines and loads it."""

    def write(*lines):
        file = tmp_path / "finder.md"
        file.write_text("\n".join(["---", "name: finder", "description: Finds.", *lines, "---", "You find.", ""]))
        return load(file)

    return write


@pytest.mark.parametrize(
    ("permission", "allowed", "refused"),
    [
        ("permission: {bash: allow}", "ls", None),
        ("permission: {bash: {'*': ask, 'git log *': allow}}", "git log -3", "ls"),
        ("permission: {bash: {'git *': allow, 'git push *': deny}}", "git log", "git push"),
        ("permission: {bash: {'git *': allow, '*': allow, 'rm *': ask}}", "ls", "rm x"),
        ("permission: {bash: {'rm *': deny, '*': allow}}", "rm x", None),
        ("permission: {edit: deny, webfetch: ask}", "ls", None),
        ("permission: {'*': deny, bash: allow}", "ls", None),
    ],
)
def test_allowed_commands_stay_and_others_do_not(loaded, permission, allowed, refused):
    """The last rule that matches holds; one for everything replaces those before it."""
    file = loaded("tools: {bash: true, read: true}", permission)
    settings = file.specialist
    rules = CommandRules(settings.tools, settings.disallowed_tools)
    assert SHELL_OFFER.is_wanted(settings)
    assert rules.refusal(allowed) == ""
    assert refused is None or rules.refusal(refused)
    assert "permission" not in {problem.key for problem in file.problems}


@pytest.mark.parametrize(
    "permission",
    [
        "permission: {bash: deny}",
        "permission: {bash: ask}",
        "permission: ask",
        "permission: {'*': ask}",
        "permission: {bash: {'*': ask}}",
        "permission: {bash: [x]}",
        "permission: {bash: {'git *': allow, '*': deny}}",
    ],
)
def test_what_would_be_asked_or_denied_is_not_offered(loaded, permission):
    """Nobody can be asked here."""
    assert not SHELL_OFFER.is_wanted(loaded("tools: [bash, read]", permission).specialist)


def test_rules_of_both_kinds_allow_nothing(loaded):
    """Both would have to hold, which is not decided."""
    file = loaded("tools: ['Bash(git:*)']", "permission: {bash: {'*': deny, 'git log': allow}}")
    assert not SHELL_OFFER.is_wanted(file.specialist)


def test_other_permissions_are_still_reported(loaded):
    """A warning says that they have no effect."""
    problems = loaded("tools: [bash]", "permission: {external_directory: deny, bash: allow}").problems
    assert any(problem.key == "permission" and "no effect" in problem.text for problem in problems)
