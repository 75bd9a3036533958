"""The tool `bash`, and the commands that a file allows."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import SHELL as NAME
from run_specialist.specialist.tool_names import names_tool, shell_rules
from run_specialist.tools.base import Context, Output, Tool
from run_specialist.tools.edit import WorkingCopy, report_changes, to_the_end
from run_specialist.tools.file_checkpoint import FileCheckpoint, held, recovered
from run_specialist.tools.sandbox import Sandbox, escape_path
from run_specialist.tools.shell.places import writable_places
from run_specialist.tools.shell.process import CommandExit, KeptOutput, OneCommand
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
_POLL = 0.02
_MARGIN = 0.05
"""Share of the timeout reserved for ending the command, so that its output is not lost."""


def shell_tool(settings: Specialist, root: Path, copy: WorkingCopy | None = None) -> Tool:
    """Return the tool for one run.

    copy: informed that files may have changed.
    """
    made = _Shell(settings, Path(os.path.realpath(root)), copy)
    return Tool(NAME, made.description, made.bash, ends_itself=bool(made.writable))


class _Shell:
    """Runs the commands of one run."""

    def __init__(self, settings: Specialist, root: Path, copy: WorkingCopy | None) -> None:
        self._root = root
        self._copy = copy
        self._one_at_a_time = asyncio.Lock()
        self._has_looked_back = False
        self._closed = [Path(os.path.realpath(settings.path))] if settings.path else []
        self._rules = CommandRules.of(settings.tools, settings.disallowed_tools)
        self._limit = settings.tool_result_limit
        self.writable, _ = writable_places(root, settings.writable)
        changes = _NOTHING
        if self.writable:
            changes = f"Only {_listed_roots(self.writable)} can be changed, and /tmp, which is gone after the call."
        others = _OTHERS if any(names_tool(settings.tools, name) for name in ("search", "grep", "read")) else ""
        parts = (_DESCRIPTION.format(root=root, changes=changes), others, str(self._rules))
        self.description = " ".join(part for part in parts if part)
        sandbox = Sandbox(root, () if settings.paths is None else settings.paths)
        self._runner = OneCommand(sandbox, self.writable)

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
        seconds = context.seconds * (1 - _MARGIN)
        if not self.writable:
            ended = await self._runner.run(command, output, seconds)
            return Output(output.text(self._limit), _note(ended), is_error=bool(ended.stopped))
        # A file moved by one command could be hidden from the checks of another, or taken for a change of it.
        async with self._one_at_a_time, self._alone(seconds) as seconds:
            if not self._has_looked_back:
                await self._recover(context)
            checkpoint = await in_thread(lambda: self._checkpoint(context))
            try:
                ended = await self._runner.run(command, output, seconds, checkpoint)
            finally:
                undone = await self._record_uncancelled(checkpoint, context)
        note = _note(ended)
        if undone:
            note += f"\n[undone, because nothing may be changed there: {_listed_roots([*map(escape_path, undone)])}]"
        return Output(output.text(self._limit), note, is_error=bool(ended.stopped))

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
            await asyncio.sleep(_POLL)

    async def _recover(self, context: Context) -> None:
        """Record what the last command changed before the process of this resumed run was killed."""
        left = await in_thread(lambda: recovered(context.run_id))
        if left is not None:
            await report_changes(left, context.log)
        self._has_looked_back = True

    def _checkpoint(self, context: Context) -> FileCheckpoint:
        closed = [*self._closed, *(self._copy.closed() if self._copy is not None else ())]
        return FileCheckpoint.take(self._root, self.writable, closed, context.run_id, context.call_id)

    async def _record_uncancelled(self, checkpoint: FileCheckpoint, context: Context) -> Sequence[str]:
        """Record what a command has changed, and return the places that were put back.

        A cancellation takes effect afterwards.
        """
        undone: list[str] = []

        async def record() -> None:
            changes = await in_thread(checkpoint.compare)
            undone.extend(changes.undone)
            if await report_changes(changes, context.log):
                await in_thread(checkpoint.discard)

        try:
            await to_the_end(record(), lambda: None)
        finally:
            if self._copy is not None:
                self._copy.changes += 1
        return undone


def _note(ended: CommandExit) -> str:
    return f"[stopped: {ended.stopped}]" if ended.stopped else f"[exit code {ended.exit_code}]"


def _listed_roots(names: Sequence[str]) -> str:
    shown = ", ".join(name or "the whole root" for name in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown  # noqa: PLR2004 - as above


# The commands that a file allows, from entries such as `Bash(git log:*)` in `tools` and `disallowed_tools`.
#
# Sources: https://code.claude.com/docs/en/permissions, https://geminicli.com/docs/tools/shell.

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


# Split a command line into its simple commands, as a POSIX shell would; reject what cannot be decided by parsing.
#
# The text of each command is compared with rules, so in doubt a command line is undecided: a variable as the name of a
# command, a function, a loop, a redirection into a file.

UNKNOWN = "\0"
"""Placeholder for text that is known only when the command runs, such as the value of a variable."""
INNER_BLANK = "\1"
"""Placeholder for a blank inside a word."""

_SEPARATORS = re.compile(r"\n|;(?!;)|&&|\|\||\|&|\||&(?!>)")
_REDIRECTION = re.compile(r"[0-9]*>&[0-9](?![^\s;&|)])|(?:[0-9]*>>?|&>>?)[ \t]*/dev/null(?![^\s;&|)])")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_RESERVED = frozenset(
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while { }".split()  # noqa: SIM905
)
_CONTINUED = "\\\n"
"""Line continuation, which a shell removes before it splits words."""
_MOST_NESTED = 20


class UndecidedError(Exception):
    """Raised with the reason, as a clause, if the commands of a line cannot be determined."""


@dataclass(slots=True)
class _Word:
    text: str = ""
    """Text without quotes, with `UNKNOWN` and `INNER_BLANK`."""
    is_quoted: bool = False
    """Whether any part of it is quoted, so that it is not a reserved word."""


@dataclass(slots=True)
class _CommandParser:
    source: str
    place: int = 0
    found: list[str] = field(default_factory=list)

    def commands(self, depth: int, *, is_inner: bool) -> None:
        """Read commands up to the end, or up to the parenthesis that closes a substitution."""
        if depth > _MOST_NESTED:
            raise UndecidedError("it is nested too deep")
        words: list[_Word] = []
        while self.place < len(self.source):
            if match := _REDIRECTION.match(self.source, self.place):
                self.place = match.end()
            elif match := _SEPARATORS.match(self.source, self.place):
                self.place = match.end()
                self._end(words)
            elif self.source[self.place] in " \t":
                self.place += 1
            elif self.source.startswith(_CONTINUED, self.place):
                self.place += len(_CONTINUED)
            elif is_inner and self.source[self.place] == ")":
                self.place += 1
                self._end(words)
                return
            else:
                words.append(self._word(depth))
        if is_inner:
            raise UndecidedError("a parenthesis is not closed")
        self._end(words)

    def _end(self, words: list[_Word]) -> None:
        if not words:
            return
        first = words[0]
        if not first.is_quoted and first.text in _RESERVED:
            raise UndecidedError(f"`{first.text}` is more than a simple command")
        if UNKNOWN in first.text:
            raise UndecidedError("the name of a command is known only when it runs")
        if re.match(r"[A-Za-z_]\w*\+?=", first.text):
            raise UndecidedError("it sets a variable")
        self.found.append(" ".join(word.text for word in words))
        words.clear()

    def _word(self, depth: int) -> _Word:
        word, start = _Word(), self.place
        while self.place < len(self.source):
            character = self.source[self.place]
            if self.source.startswith(_CONTINUED, self.place):
                self.place += len(_CONTINUED)
                continue
            if character in " \t\n;&|" or (character == ")" and depth):
                break
            _check_plain(character, is_first=self.place == start)
            if character in "'\"\\":
                word.is_quoted = True
                self._quoted(word, depth)
            elif character in "$`":
                word.text += self._expansion(depth)
            else:
                word.text += UNKNOWN if character in "*?[{~" else character
                self.place += 1
        if self.place == start:
            raise UndecidedError(f"`{self.source[start : start + 2]}` is not understood")
        return word

    def _quoted(self, word: _Word, depth: int) -> None:
        match self.source[self.place]:
            case "'":
                word.text += _inner(self._until("'"))
            case "\\":
                word.text += _inner(self._escaped())
            case _:
                self._double_quoted(word, depth)

    def _until(self, closing: str) -> str:
        end = self.source.find(closing, self.place + 1)
        if end < 0:
            raise UndecidedError("a quote is not closed")
        text, self.place = self.source[self.place + 1 : end], end + 1
        return text

    def _escaped(self) -> str:
        """Return the character after a backslash."""
        self.place += 2
        return self.source[self.place - 1 : self.place]

    def _double_quoted(self, word: _Word, depth: int) -> None:
        self.place += 1
        while self.place < len(self.source):
            character = self.source[self.place]
            if character == '"':
                self.place += 1
                return
            if self.source.startswith(_CONTINUED, self.place):
                self.place += len(_CONTINUED)
            elif character == "\\" and self.source[self.place + 1 : self.place + 2] in {"$", "`", '"', "\\"}:
                word.text += _inner(self._escaped())
            elif character in "$`":
                word.text += self._expansion(depth)
            else:
                word.text += _inner(character)
                self.place += 1
        raise UndecidedError("a quote is not closed")

    def _expansion(self, depth: int) -> str:
        if match := _VARIABLE.match(self.source, self.place):
            self.place = match.end()
            return UNKNOWN
        if self.source.startswith("$(", self.place) and not self.source.startswith("$((", self.place):
            self.place += 2
            self.commands(depth + 1, is_inner=True)
            return UNKNOWN
        raise UndecidedError(f"`{self.source[self.place : self.place + 2]}` is an expansion that is not understood")


def _check_plain(character: str, *, is_first: bool) -> None:
    """Raise UndecidedError for a character that ends a simple command in an unsupported way."""
    if character in "<>()":
        raise UndecidedError(f"`{character}` is a redirection, a group or a function")
    if character == "#" and is_first:
        raise UndecidedError("it has a comment")


def _inner(text: str) -> str:
    return re.sub(r"\s", INNER_BLANK, text)


def simple_commands(line: str) -> Iterator[str]:
    """Yield each simple command of a command line, without quotes, including those in substitutions.

    Words are separated by one blank; see `UNKNOWN` and `INNER_BLANK`.
    Raises UndecidedError.
    """
    if _CONTROL.search(line):
        raise UndecidedError("it has control characters")
    reader = _CommandParser(line)
    reader.commands(0, is_inner=False)
    yield from reader.found
