"""Agent files of other programs: their folders, keys, permissions and model names.

Sources: https://code.claude.com/docs/en/sub-agents, https://docs.github.com/en/copilot/reference/custom-agents-
configuration,
https://geminicli.com/docs/core/subagents, https://opencode.ai/docs/agents,
https://developers.openai.com/codex/subagents,
https://cursor.com/docs/subagents.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from run_specialist.specialist.front_matter import Field, FrontMatter
from run_specialist.specialist.positions import MappingNode, Node, ScalarNode
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.tool_names import EDIT, SHELL, WRITE, names_tool, shell_rules, split_names


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
    found = max((inside.rfind(f"/{folder}/"), -index) for folder, index in _folders(config_folder(), home_path("~")))
    return DIALECTS[-found[1]] if found[0] >= 0 else OWN


@cache
def _folders(config: Path, home: Path) -> list[tuple[str, int]]:
    """Return the folders of all dialects but the first, each with the number of its dialect."""
    users = [[os.path.normpath(_user_folder(one, config, home))[1:] for one in dialect.user] for dialect in DIALECTS]
    return [(one, n) for n in range(1, len(DIALECTS)) for one in (*DIALECTS[n].project, *users[n])]


def is_toml(path: Path) -> bool:
    """Return whether a file is read as TOML, by its name; all others are read as Markdown."""
    return path.name.lower().endswith(CODEX.ending)


def is_file_name(name: str) -> bool:
    """Return whether a text looks like the name or path of a specialist file, and not like a specialist's name."""
    return name.lower().endswith(ENDINGS)


def is_path(name: str) -> bool:
    """Return whether a text names a file, and not a specialist."""
    return "/" in name or is_file_name(name)


def user_folders() -> list[Path]:
    """Return the user's folders with agent files, nearest first; not absolute if there is no home folder."""
    config, home = config_folder(), home_path("~")
    return [_user_folder(folder, config, home) for dialect in DIALECTS for folder in dialect.user]


def _user_folder(folder: str, config: Path, home: Path) -> Path:
    return (config if folder.startswith("$/") else home) / folder[2:]


def home_path(path: str) -> Path:
    """Return a path with `~` replaced; it is not absolute if there is no home folder."""
    # Path.expanduser raises if there is no home folder; here a path that does not exist is sufficient.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def config_folder() -> Path:
    """Return the folder in which programs keep their configuration; not absolute if there is no home folder."""
    config = home_path(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative path would point into the current project, whose files must not be trusted like the user's own.
    return config if config.is_absolute() else home_path("~/.config")


_AGENTS = re.compile(r"(?:agent|task|runsubagent)\s*\((?P<names>.*)\)", re.IGNORECASE | re.DOTALL)
_CARDS = ("agent_card_url", "agent_card_json")


def take_foreign(front: FrontMatter, given: dict[str, Any], problems: Problems) -> frozenset[str]:
    """Add the values that follow from keys of other programs; report an agent that this program cannot run.

    A derived key gets the field of the key from which it was derived.
    Returns the keys that had an effect or were reported.
    """
    fields = front.fields
    kind, card = fields.get("kind"), next((fields[key] for key in _CARDS if key in fields), None)
    is_remote = kind and isinstance(kind.node, ScalarNode) and kind.node.text.strip().lower() == "remote"
    if where := kind if is_remote else card:
        text = "a remote agent, which works on another server, cannot be run here"
        problems.error(where.place, text, shown(where.key))

    def derive(key: str, value: object, source: str) -> None:
        given[key] = value
        fields[key] = fields[source]

    if "agents" not in fields and (names := agents_in(given.get("tools") or ())):
        derive("agents", names, "tools")
    if "disable_model_invocation" not in fields and _is(fields.get("infer"), "false"):
        derive("disable_model_invocation", True, "infer")
    if "memory" not in fields and names_tool(given.get("tools"), "memory"):
        derive("memory", "local", "tools")
    if "project_instructions" not in fields:
        if _is(fields.get("omit_claude_md"), "true"):
            derive("project_instructions", False, "omit_claude_md")
        elif dialect_of(problems.path).has_instructions:
            given["project_instructions"] = True
    is_applied = take_permission(front, given)
    return frozenset({"kind", "infer", "omit_claude_md", *_CARDS, *([KEY] if is_applied else [])})


def _is(field: Field | None, word: str) -> bool:
    return field is not None and isinstance(field.node, ScalarNode) and field.node.text.lower() == word


def agents_in(tools: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the specialists that entries such as `Agent(a, b)` and `Task(a)` allow."""
    found = (match for tool in tools if (match := _AGENTS.fullmatch(tool.strip())))
    names = (name for match in found for name in split_names(match["names"], lambda _: None))
    return tuple(dict.fromkeys(names))


# Apply the key `permission` of opencode: uses that it forbids, or would ask about, are not allowed here.
#
# Source: https://opencode.ai/docs/permissions. There the last rule that matches a command applies.

KEY = "permission"
_EVERYTHING = "*"
# Tools by their names in the key.
_TOOLS = {"bash": (SHELL,), "edit": (EDIT, WRITE), "webfetch": ("fetch",)}


def take_permission(front: FrontMatter, given: dict[str, Any]) -> bool:
    """Restrict the tools of a file by its permissions; return whether all of them could be applied."""
    field = front.fields.get(KEY)
    if field is None:
        return False
    named = _rules(field.node)
    disallowed = [*given.get("disallowed_tools", ())]
    for key, tools in _TOOLS.items():
        node = named.get(key, named.get(_EVERYTHING))
        if key == "bash" and isinstance(node, MappingNode):
            disallowed += _restrict_shell(node, given)
        elif node is not None and not _is_allowed(node):
            disallowed += tools
    if disallowed:
        given["disallowed_tools"] = tuple(disallowed)
        front.fields.setdefault("disallowed_tools", field)
    return isinstance(field.node, MappingNode) and named.keys() <= {*_TOOLS, _EVERYTHING}


def _restrict_shell(node: MappingNode, given: dict[str, Any]) -> list[str]:
    """Return what is not allowed; the allowed commands replace the shell in `tools`."""
    rules = _rules(node)
    everything = rules.get(_EVERYTHING)
    if everything is not None:
        # A later rule for everything replaces all rules before it.
        last = [*rules].index(_EVERYTHING)
        rules = dict([*rules.items()][last + 1 :])
    denied = [f"{SHELL}({pattern})" for pattern, one in rules.items() if not _is_allowed(one)]
    if everything is None or _is_allowed(everything) or "tools" not in given:
        return denied
    allowed = [f"{SHELL}({pattern})" for pattern, one in rules.items() if _is_allowed(one)]
    named = shell_rules(given["tools"])
    # Rules of both kinds would both have to hold.
    if not named or not allowed or any(rule is not None for _, rule in named):
        return [*denied, SHELL]
    given["tools"] = (*(name for name in given["tools"] if not shell_rules([name])), *allowed)
    return denied


def _rules(node: Node) -> dict[str, Node]:
    """Return the value of each key, a repeated key in its last place; a single value applies to everything."""
    if isinstance(node, ScalarNode):
        return {_EVERYTHING: node}
    found: dict[str, Node] = {}
    for key, value in node.pairs if isinstance(node, MappingNode) else ():
        if isinstance(key, ScalarNode):
            found.pop(key.text.strip(), None)
            found[key.text.strip()] = value
    return found


def _is_allowed(node: Node) -> bool:
    if isinstance(node, MappingNode):
        return all(_is_allowed(value) for _, value in node.pairs)
    return isinstance(node, ScalarNode) and node.text.strip().lower() == "allow"


_FAMILY = "opus|sonnet|haiku|fable|mythos"
_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)\s*$")
_ROUTER = re.compile(r"(?:openrouter|github-copilot|copilot|opencode|vercel)/(?=[^/]+)", re.IGNORECASE)
# Vendor prefixes in opencode and in routers, with their replacements.
_VENDORS = {"anthropic/": "", "openai/": "openai:", "ollama/": "ollama:", "lmstudio/": "lmstudio:"}
_CLAUDE = re.compile(
    rf"claude-(?:(?P<before>{_FAMILY})-)?(?P<major>\d{{1,2}})(?:-(?P<minor>\d{{1,2}}))?"
    rf"(?:-(?P<after>{_FAMILY}))?(?:-thinking)?"
)
_OF_CHAT = re.compile(r"(?:gpt|chatgpt|codex)-[a-z0-9.-]+|o[1-9](?:-[a-z0-9-]+)?")
_OF_OTHERS = re.compile(
    r"(?:gemini|gemma|grok|deepseek|mistral|magistral|devstral|codestral|qwen|llama|kimi|glm|minimax)(?:[-\d. ].*)?"
)
# First version whose ids have the family before the number.
_REORDERED_SINCE = 4


def served_name(model: str) -> str:
    """Return the name of a model in this program; a name that no other program uses stays unchanged.

    Display names such as `Claude Sonnet 4.5 (copilot)`, and prefixes of vendors such as `anthropic/`, are replaced.
    """
    bare = _IN_PARENTHESES.sub("", model.strip())
    if _has_own_endpoint():
        # An id has no blanks, so only a display name has.
        return _claude_id(bare) or model if " " in bare else model
    name = _ROUTER.sub("", bare)
    vendor = next((prefix for prefix in _VENDORS if name.lower().startswith(prefix)), "")
    if vendor:
        name = name[len(vendor) :]
        return f"{_VENDORS[vendor]}{name}" if _VENDORS[vendor] else _claude_id(name) or name
    if claude := _claude_id(name):
        return claude
    folded = "-".join(name.lower().split())
    return f"openai:{folded}" if _OF_CHAT.fullmatch(folded) else model


def unserved(model: str) -> str:
    """Return why no endpoint here can serve a model, in one clause; empty if one may.

    model: as `served_name` returns it.
    """
    if _has_own_endpoint():
        return ""
    # A vendor before a slash; names with this program's prefixes may have slashes, too.
    is_routed = re.match(r"[a-z][\w-]*/", model, re.IGNORECASE)
    if not _OF_OTHERS.fullmatch(model.strip().lower()) and not is_routed:
        return ""
    return (
        "the vendor's Messages API does not serve it; name another one, e.g. sonnet, openai:ID or ollama:NAME, or set "
        "ANTHROPIC_BASE_URL to a server that does"
    )


def _has_own_endpoint() -> bool:
    """Return whether requests go to a server that the user has set, which may serve any model under any name."""
    return bool(os.environ.get("ANTHROPIC_BASE_URL", "").strip())


def _claude_id(name: str) -> str | None:
    """Return the id of a Claude model from any spelling of family and version; None for other models."""
    folded = "-".join(name.lower().replace(".", "-").split())
    found = _CLAUDE.fullmatch(folded)
    if found is None or bool(found["before"]) == bool(found["after"]) or int(found["major"]) < _REORDERED_SINCE:
        return None
    major, minor = int(found["major"]), found["minor"]
    if minor is None and major == _REORDERED_SINCE:
        minor = "0"
    return f"claude-{found['before'] or found['after']}-{major}{f'-{minor}' if minor else ''}"
