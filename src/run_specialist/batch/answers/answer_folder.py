"""The answers of a batch as Markdown files, for a specialist that combines them."""

import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from run_specialist.batch.done import Done
from run_specialist.batch.item import Input
from run_specialist.batch.items.input_values import as_text, fields_of
from run_specialist.record.outcome import Evidence, Outcome
from run_specialist.store.location import default_folder

INDEX = "index.md"
_OWN = re.compile(r"(?:index|[0-9]{5,}-[a-z0-9-]+)\.md")
_LONGEST_SLUG = 40
_LONGEST_TITLE = 80
_MARKS = {True: "found in what was read", False: "not found in what was read", None: "not looked up"}
_TASK = (
    "Bring the answers together into one: what they have in common, where they differ or contradict each other, and "
    "what none of them could answer. Name the items that support each statement."
)


def folder_for(batch_id: str, *, is_stored: bool) -> Path:
    """Return the folder for the answers of a batch, which need not exist.

    is_stored: False if runs are not stored; it is then a new temporary folder, which the caller deletes.
    """
    if is_stored:
        return default_folder() / "batches" / batch_id / "answers"
    return Path(tempfile.mkdtemp(prefix=f"answers-{batch_id}-"))


class AnswerFolder:
    """A folder with one Markdown file for each answer and an index of all of them."""

    def __init__(self, folder: Path) -> None:
        """Create the folder, readable by its owner only; files of an earlier call are deleted. Raises OSError.

        folder: the root for the specialist that reads the answers; it contains nothing else.
        """
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in folder.iterdir():
            if _OWN.fullmatch(old.name):
                old.unlink()
        self._lines: dict[int, str] = {}
        self._states: Counter[str] = Counter()

    def add(self, done: Done) -> Path:
        """Write the file of an item and return its path; raises OSError."""
        title = _title(done.input)
        name = f"{done.number:05d}-{_slug(done.input)}.md"
        text = "\n\n".join(part for part in _parts(done, title) if part)
        path = self.folder / name
        # A NUL would make it a binary file for the tools that search it.
        path.write_text(text.replace("\0", "\ufffd") + "\n", encoding="utf-8", errors="replace")
        self._lines[done.number] = f"- [{name}]({name}): {done.state}: {title}"
        self._states[done.state] += 1
        return path

    def finish(self, specialist: str, asked: str | None, task: str | None = None) -> str:
        """Write the index and return the question for the specialist that reads the folder; raises OSError.

        specialist: the name of the specialist that answered.
        asked: its question, as a template; None if each item was its own question.
        task: what to do with the answers; None to combine them into one.
        """
        total = len(self._lines)
        counts = ", ".join(f"{count} {state}" for state, count in self._states.most_common())
        about = f"The question about each item was:\n\n{_quoted(asked)}" if asked else "Each item was its own question."
        lines = "\n".join(self._lines[number] for number in sorted(self._lines))
        head = f"# {_plural(total, 'answer')} of the specialist {specialist}\n\n{counts or 'none'}\n\n{about}"
        (self.folder / INDEX).write_text(f"{head}\n\n{lines}\n", encoding="utf-8", errors="replace")
        return (
            f"The folder contains {_plural(total, 'answer')} of the specialist `{specialist}`, one file for each item "
            f"({counts or 'none'}). `{INDEX}` lists them; each file has the input, the answer and its quotes.\n\n"
            f"{about}\n\n{task or _TASK}"
        )


def _parts(done: Done, title: str) -> Iterator[str]:
    """Yield the parts of a file, in order; some are empty."""
    outcome = done.outcome
    yield f"# Item {done.number}: {title}"
    yield f"State: {done.state}" + (f"  \nRun: {done.run_id}" if done.run_id else "")
    yield f"## Input\n\n{_input_text(done.input)}"
    if outcome is not None:
        yield from _answer_parts(outcome)
    if done.error:
        yield f"## Error\n\n{done.error}"


def _answer_parts(outcome: Outcome) -> Iterator[str]:
    yield f"## Answer\n\n{outcome.answer.strip() or '(none)'}"
    if outcome.evidence:
        yield "## Quotes\n\n" + "\n\n".join(map(_quote, outcome.evidence))
    if outcome.gaps:
        yield "## Gaps\n\n" + "\n".join(f"- {' '.join(gap.split())}" for gap in outcome.gaps)


def _quote(one: Evidence) -> str:
    return f"{_quoted(one.quote)}\n>\n> {' '.join(one.source.split())} ({_MARKS[one.verified]})"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


def _input_text(given: Input) -> str:
    if isinstance(given, Mapping):
        return "\n".join(f"- {name}: {_indented(as_text(value))}" for name, value in given.items())
    return given.strip()


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _main_text(given: Input) -> str:
    """Return the text that identifies an item: its path, otherwise its first field."""
    fields = fields_of(given)
    return as_text(fields.get("path", next(iter(fields.values()), "")))


def _title(given: Input) -> str:
    text = " ".join(_main_text(given)[: 4 * _LONGEST_TITLE].split())
    return text if len(text) <= _LONGEST_TITLE else f"{text[: _LONGEST_TITLE - 1]}…"


def _slug(given: Input) -> str:
    plain = unicodedata.normalize("NFKD", _main_text(given)[: 4 * _LONGEST_SLUG]).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "item"


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
