"""The commands that a file allows, from entries such as `Bash(git log:*)` in `tools` and `disallowed_tools`.

Sources: https://code.claude.com/docs/en/permissions, https://geminicli.com/docs/tools/shell.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from run_specialist.specialist.tool_names import shell_rules
from run_specialist.tools.shell.command_line import INNER_BLANK, UNKNOWN, UndecidedError, simple_commands

_EVERYTHING = frozenset({"*", ":*", "**"})
_OF_PREFIXES = frozenset({"run_shell_command", "shelltool"})
"""Names of the tool in programs whose rules without a star allow all commands with that beginning."""
_RUN_OTHERS = frozenset(
    """
    . bash builtin busybox chroot command dash doas env eval exec find ionice ksh nice nohup parallel perl python
    python3 ruby script setsid sh source stdbuf sudo su taskset time timeout trap unbuffer watch xargs zsh
    """.split()  # noqa: SIM905
)
"""Programs that run a command given as arguments."""
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class CommandRules:
    """The commands that a file allows."""

    allowed: Sequence[str] | None
    """Patterns, one of which each command must match; None = all commands."""
    denied: Sequence[str] = ()
    """Patterns that no command may match."""

    @classmethod
    def of(cls, tools: Iterable[str] | None, disallowed: Iterable[str]) -> Self:
        """Return the rules in the lists of a file; entries for other tools do not count."""
        named = shell_rules(tools or ())
        allows_all = not named or any(rule is None or rule in _EVERYTHING for _, rule in named)
        allowed = [pattern for name, rule in named for pattern in _patterns(rule or "", is_prefix=name in _OF_PREFIXES)]
        denied = [pattern for _, rule in shell_rules(disallowed) for pattern in _patterns(rule or "", is_prefix=True)]
        return cls(None if allows_all else tuple(dict.fromkeys(allowed)), tuple(dict.fromkeys(denied)))

    def refusal(self, line: str) -> str:
        """Return why a command line must not run, as a sentence; empty if it may."""
        if self.allowed is None and not self.denied:
            return ""
        try:
            refused = next((command for command in simple_commands(line) if not self._allows(command)), None)
        except UndecidedError as error:
            return f"it cannot be decided whether this is allowed: {error}; write it as simple commands. {self}"
        return "" if refused is None else f"`{_shown(refused)}` is not allowed. {self}"

    def _allows(self, command: str) -> bool:
        if self.allowed is not None and not any(_matches(pattern, command) for pattern in self.allowed):
            return False
        if not self.denied:
            return True
        program = command.partition(" ")[0].rpartition("/")[2]
        plain = " ".join([program, *command.split(" ")[1:]])
        # Such a program could run any command.
        return program not in _RUN_OTHERS and not any(_may_match(pattern, plain) for pattern in self.denied)

    def __str__(self) -> str:
        """Return the allowed commands, as sentences for a model; empty if all are allowed."""
        sentences = []
        if self.allowed is not None:
            sentences.append(f"Only these commands may be run: {_listed(self.allowed)}.")
        if self.denied:
            sentences.append(f"These must not be run: {_listed(self.denied)}.")
        return " ".join(sentences)


def _patterns(rule: str, *, is_prefix: bool) -> Iterable[str]:
    """Yield the patterns of a rule; a comma separates several, none of which may then allow every command.

    is_prefix: whether a pattern without a star allows all commands that begin with it.
    """
    parts = [" ".join(part.split()) for part in rule.split(",")]
    for part in parts:
        if part.strip(":* ") == "" and (len(parts) > 1 or part not in _EVERYTHING):
            continue
        yield f"{part}:*" if is_prefix and "*" not in part else part


def _matches(pattern: str, command: str) -> bool:
    """Return whether a command matches a pattern: `git log:*` and `git log *` need a word that ends after `log`."""
    prefix = next((pattern.removesuffix(end) for end in (":*", " *") if pattern.endswith(end)), None)
    if prefix is None:
        # Unknown text could be the end of one command and the beginning of a dangerous part.
        return UNKNOWN not in command and _is_like(pattern, command)
    known = command.partition(UNKNOWN)[0]
    return not prefix or _is_like(prefix, command) or (_is_like(f"{prefix} *", known) if known else False)


def _may_match(pattern: str, command: str) -> bool:
    """Return whether a command matches a pattern, or could match it once its unknown text is known."""
    known, unknown, _ = command.partition(UNKNOWN)
    literal = pattern.partition("*")[0].removesuffix(":").rstrip()
    return _matches(pattern, command) or bool(unknown and (known.startswith(literal) or literal.startswith(known)))


def _is_like(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern in which a star matches any text; takes linear time."""
    first, *middle = pattern.split("*")
    if not middle:
        return text == first
    *middle, last = middle
    if not text.startswith(first) or not text[len(first) :].endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


def _listed(patterns: Sequence[str]) -> str:
    text = ", ".join(f"`{pattern}`" for pattern in patterns) or "none"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _shown(command: str) -> str:
    text = command.replace(INNER_BLANK, " ").replace(UNKNOWN, "?")
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
