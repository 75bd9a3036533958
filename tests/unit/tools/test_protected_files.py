"""Which names the file tools, the commands of `bash` and the sandbox of macOS refuse: one list for all of them."""

import re

import pytest

from run_specialist.tools.secret_files import PROTECTED_NAMES, is_protected_from_commands, reason_to_protect

PROTECTED = """
    .git git~1 .gitmodules .githooks .husky .hg .claude .github .gemini .opencode .codex .cursor .copilot .agents
    .run-specialist .kiro .roo .qwen .windsurf .windsurfrules .clinerules .cursorrules .mcp.json opencode.json
    opencode.jsonc AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md SKILL.md specialists
    pyproject.toml .vscode .idea .zed .devcontainer .devcontainer.json x.code-workspace x.agent.md x.chatmode.md .envrc
    .mise.toml .mise.local.toml mise.toml mise.local.toml .config/mise .config/mise.toml .tool-versions
""".split()  # noqa: SIM905 - easier to read
CREATED_BY_COMMANDS = [".gitignore", ".gitattributes"]
HIDDEN_FROM_COMMANDS = [".env", ".ssh", "key.pem", ".npmrc"]
OPEN = ["a.md", "agents", "specialist", "git", ".gitkeep", "opencode.yaml", "mise", "envrc", ".config", "zed", "hgrc"]


def refusals(name):
    """Return whether the file tools, commands, and the sandbox of macOS refuse to change a file or folder."""
    path = f"out/{name}"
    by_macos = re.search(f"/{PROTECTED_NAMES}(/|$)", f"/root/{path}")
    return bool(reason_to_protect(path)), is_protected_from_commands(path), by_macos is not None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (PROTECTED, (True, True, True)),
        (CREATED_BY_COMMANDS, (True, False, False)),
        (HIDDEN_FROM_COMMANDS, (True, False, False)),
        (OPEN, (False, False, False)),
    ],
)
def test_each_tool_refuses_its_names(names, expected):
    """All tools refuse the important names, and commands may create the rules of what git ignores."""
    assert {name: refusals(name) for name in names} == dict.fromkeys(names, expected)


def test_case_and_hidden_folders_do_not_matter_to_commands():
    """Some file systems ignore case; a hidden folder may hold what agents obey."""
    for name in PROTECTED:
        assert is_protected_from_commands(name.upper())
        assert is_protected_from_commands(name.lower())
    assert is_protected_from_commands(".ssh/AGENTS.md")
