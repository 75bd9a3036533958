"""Read a folder of questions, and decide whether an answer is right.

The folder contains `questions.json`: `{"questions": [{"id", "question", "answerable", "facts": [{"fact",
"answer_regex"}], "cite_groups": [[FILE, ...], ...]}, ...]}`. Other keys are ignored.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Self

FILE = "questions.json"
_NOTE = re.compile(r"[\w./@:-]+\.md")
_SAYS_NOTHING = (
    # "I found no decision", "nothing is recorded"
    (
        r"\b(no|not|nothing|none|neither|never|doesn't|don't|didn't|silent)\b.{0,120}"
        r"\b(note|mention|record|evidence|found|find|decision|plan|describe|discuss|say|cover|contain|about)"
    ),
    # "the notes are silent"
    r"\b(note|record|archive|vault)s?\b.{0,80}\b(no|not|nothing|none|silent|don't|doesn't)\b",
)
_SILENT = re.compile("|".join(_SAYS_NOTHING), re.IGNORECASE | re.DOTALL)


class QuestionsUnreadable(Exception):
    """The questions cannot be read; the message is one line with the file and the reason."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a right answer contains."""

    name: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what a right answer contains."""

    id: str
    text: str
    answerable: bool
    """False if the notes say nothing about it, which a right answer states."""
    facts: tuple[Fact, ...]
    cite_groups: tuple[tuple[str, ...], ...]
    """Groups of paths of notes; a right answer names at least one file of each group."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Return a question from JSON values.

        Raises KeyError or re.error.
        """
        facts = tuple(Fact(fact["fact"], re.compile(fact["answer_regex"])) for fact in given["facts"])
        groups = tuple(tuple(group) for group in given["cite_groups"])
        return cls(given["id"], given["question"], given["answerable"], facts, groups)


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes that the questions are about."""

    names: frozenset[str]
    """File names without folders."""
    text: str
    """All notes, joined."""

    @classmethod
    def read(cls, root: Path) -> Self:
        """Read all notes below a folder."""
        files = sorted(root.rglob("*.md"))
        text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
        return cls(frozenset(file.name for file in files), text)

    def contain(self, quote: str) -> bool:
        """Return whether the notes contain a quote, ignoring differences in white space."""
        folded = " ".join(quote.split())
        return bool(folded) and folded in " ".join(self.text.split())


def read_questions(folder: Path) -> list[Question]:
    """Return the questions of a folder, in order.

    Raises QuestionsUnreadable.
    """
    file = folder / FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        questions = [Question.of(given) for given in document["questions"]]
    except OSError as error:
        raise QuestionsUnreadable(f"{file}: {error.strerror}") from error
    except KeyError as error:
        raise QuestionsUnreadable(f"{file}: a key is missing: {error}") from error
    except (ValueError, TypeError, re.error) as error:
        raise QuestionsUnreadable(f"{file}: {error}") from error
    if not questions:
        raise QuestionsUnreadable(f"{file}: no questions")
    return questions


def mistakes(question: Question, answer: str, notes: Notes) -> list[str]:
    """Return why an answer is not right, each reason in a few words; empty if it is right."""
    cited = {PurePosixPath(path).name for path in _NOTE.findall(answer)}
    invented = sorted(name for name in cited - notes.names if name not in notes.text)
    found = [f"cites files that do not exist: {', '.join(invented)}"] if invented else []
    if not question.answerable and not _SILENT.search(answer):
        found.append("does not say that the notes hold nothing")
    found += [f"fact missing: {fact.name}" for fact in question.facts if not fact.pattern.search(answer)]
    for group in question.cite_groups:
        names = _names(group)
        if not cited.intersection(names):
            found.append(f"no citation of {' or '.join(names)}")
    return found


def _names(paths: Iterable[str]) -> list[str]:
    return [PurePosixPath(path).name for path in paths]
