"""The tool `bash`, and the commands that a file allows."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import SHELL, names_tool, shell_rules
from run_specialist.tools.base import Context, Output, Tool, few
from run_specialist.tools.edit import WorkingCopy, report_changes, to_the_end
from run_specialist.tools.file_checkpoint import FileCheckpoint, held, recovered
from run_specialist.tools.ignore import join_by_stars
from run_specialist.tools.sandbox import Sandbox, escape_path
from run_specialist.tools.shell.places import writable_places
from run_specialist.tools.shell.process import KeptOutput, run_command
from run_specialist.tools.threads import in_thread

LONGEST = 100_000
"""Maximum length of a command line [characters]."""

_DESCRIPTION = (
    "Run a command line with a shell, in a sandbox. It sees the files of the project that may be read, at their own "
    "paths, and the programs of this system; the working folder is the root, {root}. {changes} There is no network and "
    "no input. Each call begins anew: no variable, no folder and no process of an earlier one is left. The output, "
    "with that for errors, comes back with the exit code; a long one only with its beginning and end, so use head, "
    "tail or grep."
)
_OTHERS = "To find and read files use the other tools."
_NOTHING = "Nothing can be changed but /tmp, which is empty at first and gone after the call."
# Number of files or folders that a text names.
_NAMED = 10


def shell_tool(settings: Specialist, root: Path, copy: WorkingCopy | None = None) -> Tool:
    """Return the tool for one run.

    copy: informed that files may have changed.
    """
    made = _Shell(settings, root, copy)
    return Tool(SHELL, made.description, made.bash, ends_itself=bool(made.writable), numbered=True)


class _Shell:
    """Runs the commands of one run."""

    def __init__(self, settings: Specialist, root: Path, copy: WorkingCopy | None) -> None:
        self._sandbox = Sandbox(root, () if settings.paths is None else settings.paths)
        self._root = self._sandbox.root
        self._copy = copy
        self._one_at_a_time = asyncio.Lock()
        self._has_looked_back = False
        self._closed = [Path(os.path.realpath(settings.path))] if settings.path else []
        self._rules = CommandRules(settings.tools, settings.disallowed_tools)
        # The numbers of the lines are added.
        self._limit = 9 * settings.tool_result_limit // 10
        self.writable, _ = writable_places(self._root, settings.writable)
        places = few([one or "the whole root" for one in self.writable], _NAMED)
        changes = f"Only {places} can be changed, and /tmp, which is gone after the call." if places else _NOTHING
        others = _OTHERS if any(names_tool(settings.tools, name) for name in ("search", "grep", "read")) else ""
        parts = (_DESCRIPTION.format(root=self._root, changes=changes), others, str(self._rules))
        self.description = " ".join(filter(None, parts))

    async def bash(
        self,
        command: Annotated[str, Field(min_length=1, description="The command line, as for `bash -c`.")],
        context: Context,
    ) -> Output:
        """Run a command line; return its output with a note about its end."""
        if refusal := self._rules.refusal(command):
            raise ToolError(refusal)
        if len(command) > LONGEST:
            raise ToolError(f"a command line has at most {LONGEST:,} characters")
        if "\0" in command:
            raise ToolError("a command line cannot contain a NUL character")
        output = KeptOutput(4 * self._limit)
        undone: list[str] = []
        # The rest is for ending the command, so that its output is not lost.
        seconds = 0.95 * context.seconds
        if not self.writable:
            exit_code, stopped = await run_command(self._sandbox, (), command, output, seconds)
        else:
            # A file moved by one command could be hidden from the checks of another, or taken for a change of it.
            async with self._one_at_a_time, self._alone(seconds) as seconds:
                if not self._has_looked_back:
                    # The process of this resumed run may have been killed during its last command.
                    left = await in_thread(lambda: recovered(context.run_id))
                    if left is not None:
                        await report_changes(left, context.log)
                    self._has_looked_back = True
                closed = [*self._closed, *(self._copy.closed() if self._copy is not None else ())]
                checkpoint = await in_thread(
                    lambda: FileCheckpoint.take(self._root, self.writable, closed, context.run_id, context.call_id)
                )

                async def record() -> None:
                    try:
                        changes = await in_thread(checkpoint.compare)
                        undone.extend(changes.undone)
                        if await report_changes(changes, context.log):
                            await in_thread(checkpoint.discard)
                    finally:
                        if self._copy is not None:
                            self._copy.changes += 1

                try:
                    exit_code, stopped = await run_command(
                        self._sandbox, self.writable, command, output, seconds, checkpoint
                    )
                finally:
                    # A cancellation takes effect afterwards.
                    await to_the_end(record())
        note = f"[stopped: {stopped}]" if stopped else f"[exit code {exit_code}]"
        if undone:
            note += f"\n[undone, because nothing may be changed there: {few([*map(escape_path, undone)], _NAMED)}]"
        return Output(output.text(self._limit), note, is_error=bool(stopped))

    @asynccontextmanager
    async def _alone(self, seconds: float) -> AsyncIterator[float]:
        """Wait until no other run has a command in these folders; return a context with the time left [s]."""
        until = time.monotonic() + seconds
        while True:
            with held(self._root, self.writable) as is_free:
                if is_free:
                    yield until - time.monotonic()
                    return
            if time.monotonic() > until:
                raise ToolError("a command of another run is changing the same folders; try again later")
            await asyncio.sleep(0.02)


# The commands that a file allows, from entries such as `Bash(git log:*)` in `tools` and `disallowed_tools`.
#
# Sources: https://code.claude.com/docs/en/permissions, https://geminicli.com/docs/tools/shell.

_EVERYTHING = frozenset({"*", ":*", "**"})
# Names of the tool in programs whose rules without a star allow all commands with that beginning.
_OF_PREFIXES = frozenset({"run_shell_command", "shelltool"})
# Programs that run a command given as arguments.
_RUN_OTHERS = frozenset(
    """
    . bash builtin busybox chroot command dash doas env eval exec find ionice ksh nice nohup parallel perl python
    python3 ruby script setsid sh source stdbuf sudo su taskset time timeout trap unbuffer watch xargs zsh
    """.split()  # noqa: SIM905
)
_MOST_SHOWN = 300


class CommandRules:
    """The commands that a file allows."""

    def __init__(self, tools: Iterable[str] | None, disallowed: Iterable[str]) -> None:
        """Take the rules in the lists of a file; entries for other tools do not count."""
        named = shell_rules(tools or ())
        allows_all = not named or any(rule is None or rule in _EVERYTHING for _, rule in named)
        allowed = [pattern for name, rule in named for pattern in _patterns(rule or "", is_prefix=name in _OF_PREFIXES)]
        denied = [pattern for _, rule in shell_rules(disallowed) for pattern in _patterns(rule or "", is_prefix=True)]
        self.allowed = None if allows_all else tuple(dict.fromkeys(allowed))
        """Patterns, one of which each command must match; None = all commands."""
        self.denied = tuple(dict.fromkeys(denied))
        """Patterns that no command may match."""

    def refusal(self, line: str) -> str:
        """Return why a command line must not run, as a sentence; empty if it may."""
        if self.allowed is None and not self.denied:
            return ""
        try:
            refused = next((command for command in simple_commands(line) if not self._allows(command)), None)
        except UndecidedError as error:
            return f"it cannot be decided whether this is allowed: {error}; write it as simple commands. {self}"
        if refused is None:
            return ""
        return f"`{_cut(refused.replace(_INNER_BLANK, ' ').replace(UNKNOWN, '?'))}` is not allowed. {self}"

    def _allows(self, command: str) -> bool:
        if self.allowed is not None and not any(_matches(pattern, command) for pattern in self.allowed):
            return False
        program = command.partition(" ")[0].rpartition("/")[2]
        plain = " ".join([program, *command.split(" ")[1:]])
        # Such a program could run any command.
        return not self.denied or (
            program not in _RUN_OTHERS and not any(_matches(pattern, plain, maybe=True) for pattern in self.denied)
        )

    def __str__(self) -> str:
        """Return the allowed commands, as sentences for a model; empty if all are allowed."""
        allowed, denied = (", ".join(f"`{pattern}`" for pattern in some or ()) for some in (self.allowed, self.denied))
        only = "" if self.allowed is None else f"Only these commands may be run: {_cut(allowed or 'none')}."
        return " ".join(filter(None, [only, f"These must not be run: {_cut(denied)}." if denied else ""]))


def _patterns(rule: str, *, is_prefix: bool) -> Iterable[str]:
    """Yield the patterns of a rule; a comma separates several, none of which may then allow every command.

    is_prefix: whether a pattern without a star allows all commands that begin with it.
    """
    parts = [" ".join(part.split()) for part in rule.split(",")]
    for part in parts:
        if part.strip(":* ") == "" and (len(parts) > 1 or part not in _EVERYTHING):
            continue
        yield f"{part}:*" if is_prefix and "*" not in part else part


def _matches(pattern: str, command: str, *, maybe: bool = False) -> bool:
    """Return whether a command matches a pattern: `git log:*` and `git log *` need a word that ends after `log`.

    maybe: also if it could match once its unknown text is known.
    """
    known, unknown, _ = command.partition(UNKNOWN)
    prefix = re.sub(r"[: ]\*\Z", "", pattern)
    if prefix != pattern:
        found = not prefix or _is_like(prefix, command) or bool(known and _is_like(f"{prefix} *", known))
    else:
        # Unknown text could be the end of one command and the beginning of a dangerous part.
        found = not unknown and _is_like(pattern, command)
    literal = pattern.partition("*")[0].removesuffix(":").rstrip()
    return found or bool(maybe and unknown and (known.startswith(literal) or literal.startswith(known)))


def _is_like(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern in which a star matches any text."""
    return bool(re.fullmatch(join_by_stars([re.escape(part) for part in pattern.split("*")], "."), text, re.DOTALL))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


# Split a command line into its simple commands, as a POSIX shell would; reject what cannot be decided by parsing.
#
# The text of each command is compared with rules, so in doubt a command line is undecided: a variable as the name of a
# command, a function, a loop, a redirection into a file.

UNKNOWN = "\0"
"""Placeholder for text that is known only when the command runs, such as the value of a variable."""
# Placeholder for a blank inside a word.
_INNER_BLANK = "\1"

_EXPANSIONS = r"(?P<unknown>\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#]))|(?P<inner>\$\((?!\())|(?P<expansion>[$`].?)"
_TOKEN = re.compile(
    rf"""(?P<continued>\\\n)|(?P<escaped>\\.?)|'(?P<single>[^']*)'|(?P<string>")|(?P<unclosed>')|{_EXPANSIONS}"""
    r"|(?P<redirection>(?:[0-9]*>&[0-9]|(?:[0-9]*>>?|&>>?)[ \t]*/dev/null)(?![^\s;&|)]))|(?P<close>\))|(?P<group>[<>(])"
    r"|(?P<blank>[ \t]+)|(?P<separator>\n|;(?!;)|&&|\|\||\|&|\||&(?!>))|(?P<strange>[;&].?)|(?P<comment>#)"
    r"|(?P<glob>[*?\[{~])|(?P<plain>.)",
    re.DOTALL,
)
_IN_STRING = re.compile(
    rf"""(?P<continued>\\\n)|(?P<escaped>\\[$`"\\])|(?P<string>")|{_EXPANSIONS}|(?P<plain>.)""", re.DOTALL
)
# Why a line is undecided, by kind of token.
_UNDECIDED = {
    "unclosed": "a quote is not closed",
    "expansion": "`{}` is an expansion that is not understood",
    "redirection": "`>` is a redirection, a group or a function",
    "close": "`)` is a redirection, a group or a function",
    "group": "`{}` is a redirection, a group or a function",
    "strange": "`{}` is not understood",
    "comment": "it has a comment",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_RESERVED = frozenset(
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while { }".split()  # noqa: SIM905
)
_MOST_NESTED = 20


class UndecidedError(Exception):
    """Raised with the reason, as a clause, if the commands of a line cannot be determined."""


@dataclass(slots=True)
class _Command:
    """A simple command that is being read."""

    words: list[str] = field(default_factory=list)
    # The word that has begun, without its quotes.
    word: str | None = None
    # Whether any of the word is quoted.
    is_quoted: bool = False
    # Whether a double quote is open.
    is_string: bool = False

    def end_word(self) -> None:
        if self.word is None:
            return
        if not self.words:
            if not self.is_quoted and self.word in _RESERVED:
                raise UndecidedError(f"`{self.word}` is more than a simple command")
            if UNKNOWN in self.word:
                raise UndecidedError("the name of a command is known only when it runs")
            if re.match(r"[A-Za-z_]\w*\+?=", self.word):
                raise UndecidedError("it sets a variable")
        self.words.append(self.word)
        self.word, self.is_quoted = None, False


def simple_commands(line: str) -> Sequence[str]:
    """Return the simple commands of a command line, without quotes, including those in substitutions.

    Words are separated by one blank; see `UNKNOWN` and `_INNER_BLANK`.
    Raises UndecidedError.
    """
    if _CONTROL.search(line):
        raise UndecidedError("it has control characters")
    found: list[str] = []
    # A command, and those in the substitutions that are open in it.
    commands = [_Command()]
    place = 0
    while token := (_IN_STRING if commands[-1].is_string else _TOKEN).match(line, place):
        place, kind, command = token.end(), token.lastgroup or "", commands[-1]
        is_outside = command.word is None
        if kind in {"blank", "separator"} or (kind == "close" and len(commands) > 1):
            command.end_word()
            if kind != "blank" and command.words:
                found.append(" ".join(command.words))
                command.words = []
            if kind == "close":
                commands.pop()
                commands[-1].word = f"{commands[-1].word}{UNKNOWN}"
        elif kind == "continued" or (kind == "redirection" and is_outside):
            continue
        elif kind in _UNDECIDED and (kind != "comment" or is_outside):
            raise UndecidedError(_UNDECIDED[kind].format(token[0]))
        else:
            command.is_quoted |= kind in {"single", "escaped", "string"}
            text = UNKNOWN if kind in {"unknown", "glob"} else "" if kind in {"inner", "string"} else token[kind]
            text = text.removeprefix("\\") if kind == "escaped" else text
            inner = re.sub(r"\s", _INNER_BLANK, text)
            command.word = f"{command.word or ''}{inner}"
            command.is_string ^= kind == "string"
            if kind == "inner":
                commands.append(_Command())
                if len(commands) > _MOST_NESTED + 1:
                    raise UndecidedError("it is nested too deep")
    if any(command.is_string for command in commands):
        raise UndecidedError("a quote is not closed")
    if len(commands) > 1:
        raise UndecidedError("a parenthesis is not closed")
    commands[0].end_word()
    return [*found, *([" ".join(commands[0].words)] if commands[0].words else [])]
