"""Parse the transcript of a run into the lines, word counts and files seen so far."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from run_specialist.prompts import ASKS
from run_specialist.providers.offline.question import Term
from run_specialist.providers.offline.similarity import literal, roots
from run_specialist.record.blocks import Block, text_of
from run_specialist.record.messages import CompletedCall, Message, ToolCall

_FOUND = re.compile(r"(.+?):(\d+): (.*)")
_READ = re.compile(r" *(\d+)\t(.*)")
_CLIPPED = re.compile(r"^… | …(?: \[clipped: .*\])?$")
_COUNTS = re.compile(r"\[(?:passages|files) per word: (.*)\]")
_ABSENT = re.compile(r"\[in no file: (.*)\]")
_LONGEST = 4000
"""Maximum length of a stored line [characters]."""


@dataclass
class Findings:
    """The lines, word counts and files seen so far."""

    question: str
    calls: Sequence[CompletedCall]
    must_answer: bool
    """True if the newest message ends with the order to answer: further calls would not be executed."""
    recent: int
    """Number of calls since the last user message, so that a resumed run starts at 0."""
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """By path and line number: the line, or the parts seen of a long line; verbatim."""
    read: dict[str, set[int]] = field(default_factory=dict)
    """By path: numbers of the lines seen with their context."""
    origins: dict[str, dict[int, int]] = field(default_factory=dict)
    """By path and line number: a number shared by the lines that one result showed in a row.

    A quote is looked up in one result, so it must not combine lines of two.
    """
    counts: dict[str, int] = field(default_factory=dict)
    """Number of passages that contain a word, by lowercase word; 0 if no file contains it."""
    fruitless: set[str] = field(default_factory=set)
    """Patterns of `grep` calls without a match."""
    files: list[str] = field(default_factory=list)
    """Paths from the results of `glob` and `ls`."""
    _rows: int = 0
    _last: tuple[str, int] = ("", 0)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Findings":
        """Parse a transcript with any content; never raises."""
        texts = [text_of(message.blocks) if message.role == "user" else "" for message in messages]
        from_user = [at for at, text in enumerate(texts) if text] or [0]
        calls = tuple(_calls(messages))
        recent = len(tuple(_calls(messages[from_user[-1] :])))
        must_answer = bool(messages and messages[-1].landing_instruction)
        gathered = cls(_newest_question([text for text in texts if text]), calls, must_answer, recent)
        for completed in calls:
            if not completed.is_error:
                gathered._learn(completed)
        return gathered

    @property
    def called(self) -> frozenset[str]:
        """The keys of all calls so far."""
        return frozenset(completed.call.key for completed in self.calls)

    def absent(self, term: Term) -> bool:
        """Return whether a search has shown that a term occurs in no file."""
        if self.counts.get(term.text.casefold()) != 0 and literal(term.text) not in self.fruitless:
            return False
        seen = (text for lines in self.lines.values() for texts in lines.values() for text in texts)
        return not any(form <= roots(text) for text in seen for form in term.forms)

    def _learn(self, completed: CompletedCall) -> None:
        self._last = "", 0
        arguments = completed.call.arguments or {}
        path = str(arguments.get("path", ""))
        if completed.call.name == "grep" and not any(map(_FOUND.fullmatch, completed.result.split("\n"))):
            self.fruitless.add(str(arguments.get("pattern", "")))
        for line in completed.result.split("\n"):
            match completed.call.name:
                case "search" | "grep":
                    self._learn_found(line)
                case "read" if found := _READ.fullmatch(line):
                    self._keep(path, int(found[1]), found[2])
                    self._place(path, int(found[1]), is_read=True)
                    self.read.setdefault(path, set()).add(int(found[1]))
                case "glob" if line and not line.startswith("["):
                    self.files.append(line)
                case "ls" if line and not line.startswith("["):
                    name = line.split("  ")[0]
                    self.files.append(name if path in ("", ".") else f"{path.rstrip('/')}/{name}")
                case _:
                    pass

    def _learn_found(self, line: str) -> None:
        if found := _FOUND.fullmatch(line):
            self._keep(found[1], int(found[2]), found[3])
            self._place(found[1], int(found[2]), is_read=False)
        elif counted := _COUNTS.fullmatch(line):
            for item in counted[1].split(", "):
                word, _, count = item.rpartition(" ")
                if count.isdigit():
                    self.counts[word.casefold()] = int(count)
        elif absent := _ABSENT.fullmatch(line):
            self.counts.update((word.casefold(), 0) for word in absent[1].split(", ") if word != "…")

    def _place(self, path: str, number: int, *, is_read: bool) -> None:
        if self._last != (path, number - 1):
            self._rows += 1
        self._last = path, number
        known = self.origins.setdefault(path, {})
        # What was read is longer than what a search shows.
        if is_read or number not in known:
            known[number] = self._rows

    def _keep(self, path: str, number: int, text: str) -> None:
        text = _CLIPPED.sub("", text)[:_LONGEST]
        known = self.lines.setdefault(path, {}).setdefault(number, [])
        if not any(text in part for part in known):
            known[:] = [*(part for part in known if part not in text), text]


def _newest_question(texts: Sequence[str]) -> str:
    """Return the newest question: the one added on resume, otherwise the first."""
    added = [text.partition(ASKS)[2] for text in texts if ASKS in text]
    return [*texts[:1], *added][-1] if texts else ""


def _calls(messages: Sequence[Message]) -> Iterator[CompletedCall]:
    calls: dict[str, ToolCall] = {}
    for message in messages:
        for block in message.blocks:
            if block.get("type") == "tool_use":
                arguments = block.get("input")
                name, id_ = str(block.get("name", "")), str(block.get("id", ""))
                calls[id_] = ToolCall(id_, name, arguments if isinstance(arguments, Mapping) else None)
            elif block.get("type") == "tool_result":
                call = calls.get(str(block.get("tool_use_id", "")))
                if call is not None:
                    yield CompletedCall(call, _result_text(block), bool(block.get("is_error")))


def _result_text(block: Block) -> str:
    text = text_of(block.get("content"))
    # A result that also reports the limits is a JSON object with the output in one field.
    if text.startswith("{"):
        try:
            fields = json.loads(text)
        except ValueError:
            return text
        if isinstance(fields, dict) and isinstance(fields.get("output"), str):
            return str(fields["output"])
    return text
