"""The programs whose agent files are supported: their folders, and their file names.

Sources: https://code.claude.com/docs/en/sub-agents, https://docs.github.com/en/copilot/reference/custom-agents-
configuration,
https://geminicli.com/docs/core/subagents, https://opencode.ai/docs/agents,
https://developers.openai.com/codex/subagents,
https://cursor.com/docs/subagents.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from run_specialist.specialist.home import config_folder, home_path


@dataclass(frozen=True, slots=True)
class Dialect:
    """The agent files of one program."""

    name: str
    """Name as `list` shows it."""
    project: tuple[str, ...]
    """Folders of a project with such files, nearest first."""
    user: tuple[str, ...]
    """The user's own folders with such files; `$` is the folder for configuration of programs."""
    ending: str = ".md"
    nested: bool = True
    """Whether subfolders are searched too."""
    left_out: tuple[str, ...] = ()
    """Prefixes of file names that are not agents, in lower case."""
    has_instructions: bool = False
    """Whether the program gives the instructions of the project to each of these agents."""

    def takes(self, file_name: str) -> bool:
        """Return whether a file of such a folder is an agent file, by its name."""
        folded = file_name.lower()
        return folded.endswith(self.ending) and not folded.startswith(self.left_out)


OWN = Dialect("run-specialist", ("specialists",), ("$/run-specialist/specialists",))
CODEX = Dialect("codex", (".codex/agents",), ("~/.codex/agents",), ending=".toml", has_instructions=True)
DIALECTS = (
    OWN,
    Dialect("claude", (".claude/agents",), ("~/.claude/agents",), has_instructions=True),
    Dialect(
        "copilot",
        (".github/agents",),
        ("~/.copilot/agents",),
        nested=False,
        left_out=("readme.md",),
        has_instructions=True,
    ),
    Dialect("gemini", (".gemini/agents",), ("~/.gemini/agents",), nested=False, left_out=("_",)),
    Dialect(
        "opencode",
        (".opencode/agents", ".opencode/agent"),
        ("$/opencode/agents", "$/opencode/agent"),
        has_instructions=True,
    ),
    CODEX,
    Dialect("cursor", (".cursor/agents",), ("~/.cursor/agents",)),
)
"""All dialects by precedence: of two files with the same name in a project, the one of the first dialect is used."""
ENDINGS = tuple(dict.fromkeys(dialect.ending for dialect in DIALECTS))


def dialect_of(path: Path) -> Dialect:
    """Return the dialect of a file, or of the files in a folder, by the folders that it is in."""
    if is_toml(path):
        return CODEX
    absolute = os.path.abspath(path)  # noqa: PTH100, resolve() would leave the folder through a symlink
    inside = f"{absolute.replace(os.sep, '/')}/"
    found = max(
        (inside.rfind(f"/{folder}/"), -index)
        for index, dialect in enumerate(DIALECTS[1:], start=1)
        for folder in (*dialect.project, *(os.path.normpath(_user_folder(one))[1:] for one in dialect.user))
    )
    return DIALECTS[-found[1]] if found[0] >= 0 else OWN


def is_toml(path: Path) -> bool:
    """Return whether a file is read as TOML, by its name; all others are read as Markdown."""
    return path.name.lower().endswith(CODEX.ending)


def is_file_name(name: str) -> bool:
    """Return whether a text looks like the name or path of a specialist file, and not like a specialist's name."""
    return name.lower().endswith(ENDINGS)


def user_folders() -> list[Path]:
    """Return the user's folders with agent files, nearest first; not absolute if there is no home folder."""
    return [_user_folder(folder) for dialect in DIALECTS for folder in dialect.user]


def _user_folder(folder: str) -> Path:
    return config_folder() / folder[2:] if folder.startswith("$/") else home_path(folder)
