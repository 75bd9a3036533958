"""The outcome of a run, as JSON and as shown in a notebook."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Literal

from run_specialist.errors import ProviderErrorKind
from run_specialist.record.messages import Usage

OFFLINE = "offline"
"""Model id of runs that are answered without a language model."""
_LONGEST_SHOWN = 120
NO_MODEL = "no model judged: this ran offline, by ranked search and verbatim quotes"
"""Warning in the outcome of a run that is answered without a language model."""

Status = Literal["answered", "landed", "partial", "failed", "aborted"]
"""Answered before a limit; answered at a limit; salvaged or cut answer; no answer; interrupted."""

ErrorKind = Literal[ProviderErrorKind, "store_lost", "internal"]
"""The kind of failure that ended a run: of the model's endpoint, of the store, or a defect of this program."""

EvidencePolicy = Literal["off", "check", "require"]
"""Whether quotes are looked up in the results of the run, and whether an answer needs a quote that is found."""

OnLost = Literal["go_on", "abort"]
"""Behavior of a run if its store becomes unwritable: continue without being stored, or end before its next request."""

OfflinePolicy = Literal["answer", "refuse"]
"""Behavior of a specialist without a language model: answer by ranked search, or refuse."""


class Exit(IntEnum):
    """Exit codes of the commands."""

    OK = 0
    USAGE = 2
    PROVIDER = 3
    NO_ANSWER = 4
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quote that supports the answer."""

    source: str
    """Source of the quote, usually `path:line`."""
    quote: str
    verified: bool | None
    """True if the results of the run contain the quote, ignoring differences in white space; None if not looked up."""


def without_links(markdown: str) -> str:
    """Return Markdown with the text of each link in its place."""
    return re.sub(r"\[([^\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*\)", r"\1", markdown)


@dataclass(frozen=True, slots=True)
class Support:
    """A sentence of the answer, held against the evidence that it rests on."""

    sentence: str
    """The sentence as it is written in the answer."""
    evidence: tuple[int, ...]
    """Numbers of the verified pieces of evidence, from 1; empty if it has none."""
    missing: tuple[str, ...]
    """Facts of the sentence that occur neither there nor in the question."""

    @property
    def is_borne_out(self) -> bool:
        """Whether the sentence has evidence that lacks none of its facts."""
        return bool(self.evidence) and not self.missing

    def __str__(self) -> str:
        """Return the beginning of the sentence and what it lacks, on one line."""
        sentence = " ".join(without_links(self.sentence).replace("**", "").split())
        lacks = f"not there: {', '.join(self.missing)}" if self.missing else "no evidence"
        return f"{sentence if len(sentence) <= _LONGEST_SHOWN else f'{sentence[: _LONGEST_SHOWN - 2]} …'} ({lacks})"


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Numbers of tool calls in a run."""

    used: int
    limit: int | None
    failed: int
    """Failed calls, included in `used`."""
    skipped: int
    """Calls that were not run, not included in `used`."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The spending of one kind."""

    used: float | None
    """None if unknown, as for cost without a price."""
    limit: float | None


@dataclass(frozen=True, slots=True)
class LandingReport:
    """The landing of a run at a limit."""

    reason: str
    """The kind whose limit was reached."""
    how: str
    """The rung that produced the answer, or `salvage`."""
    requests: int
    """Number of answered requests in the landing."""
    usage: Usage
    """Usage of these requests."""
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class AskedModel:
    """A model that a run has used, and its spending."""

    model: str
    """The id in requests."""
    since_turn: int
    """Number of the first turn that was requested from it, from 1."""
    turns: int = 0
    """Number of its replies."""
    usage: Usage = field(default_factory=Usage)
    """Usage of its replies and summaries."""
    cost_usd: float | None = 0.0
    """None if its price is unknown."""
    failure: str | None = None
    """Why the run changed to another model, in one line; None if it did not."""


FileChangeKind = Literal["created", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a run has done to a file, from its beginning to its end."""

    path: str
    """The file, relative to the root; line breaks and bytes that are no UTF-8 are escaped."""
    change: FileChangeKind
    added: int | None
    """Lines added by all changes; None if they were not counted, as in a binary or very large file."""
    removed: int | None
    """Lines removed; None as above."""
    undoable: bool
    """Whether `specialists undo` can take it back."""

    def then(self, later: "FileChange") -> "FileChange | None":
        """Return this change and a later one of the same file as one; None if the file was created and removed."""
        kinds = (self.change, later.change)
        if kinds == ("created", "removed"):
            return None
        change = "created" if self.change == "created" else later.change
        change = "changed" if kinds == ("removed", "created") else change
        added = None if self.added is None or later.added is None else self.added + later.added
        removed = None if self.removed is None or later.removed is None else self.removed + later.removed
        return FileChange(self.path, change, added, removed, self.undoable and later.undoable)


def merged_changes(changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
    """Return changes with one for each file, in the order of the paths.

    changes: oldest first.
    """
    by_path: dict[str, FileChange] = {}
    for one in changes:
        before = by_path.pop(one.path, None)
        if (now := one if before is None else before.then(one)) is not None:
            by_path[one.path] = now
    return tuple(by_path[path] for path in sorted(by_path))


@dataclass(frozen=True, slots=True)
class Child:
    """Summary of a child run, which a specialist started by delegating to another one."""

    run_id: str
    specialist: str
    status: Status
    tool_calls: int
    """Tool calls of the child, and those that its children drew from its budget."""
    usage: Usage
    """Usage including that of its children."""
    cost_usd: float | None
    evidence: tuple[Evidence, ...] = ()
    """Its quotes; the verified ones count as verified for the parent, too."""
    children: tuple["Child", ...] = ()
    changes: tuple[FileChange, ...] = ()
    """What it and its child runs have done to files."""


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """The result of a run; `--json` prints its `as_json`."""

    run_id: str
    specialist: str
    model: str
    status: Status
    answer: str
    """The answer; a salvaged one if the run failed or was aborted, empty only if there are no results."""
    evidence: tuple[Evidence, ...]
    gaps: tuple[str, ...]
    output: Any
    tool_calls: ToolCalls
    limits: dict[str, Spent]
    landing: LandingReport | None
    usage: Usage
    """Usage of all requests, including those of children."""
    cost_usd: float | None
    """None if the price of any request is unknown."""
    duration_s: float
    warnings: tuple[str, ...]
    children: tuple[Child, ...] = ()
    """The child runs, each with its part of `usage` and `cost_usd`."""
    error: str | None = None
    """Why there is no complete answer, in one line."""
    exit_code: Exit = Exit.OK
    error_kind: ErrorKind | None = None
    """The kind of the failure that ended the run; None if none did, as when a limit or the model's reply ended it."""
    retry_after: float | None = None
    """The wait that the server requested with its last failure [s]; None if it requested none."""
    patch: str | None = None
    """The changes that a dry run and its child runs would have made, for `git apply`; None for other runs."""
    models: tuple[AskedModel, ...] = ()
    """The models that the run used, in order; the last one is `model`."""
    changes: tuple[FileChange, ...] = ()
    """What the run and its child runs have done to files, each file once; empty in a dry run, which has a `patch`."""
    question: str | None = None
    """What the specialist must know to go on, for the asker to reply to by resuming the run; None if nothing."""
    support: tuple[Support, ...] = ()
    """The sentences of the answer that state facts or name evidence; empty if there is no verified evidence."""

    @property
    def doubtful(self) -> tuple[Support, ...]:
        """The sentences that the evidence does not bear out."""
        return tuple(one for one in self.support if not one.is_borne_out)

    @property
    def is_offline(self) -> bool:
        """Whether the run was answered without a language model."""
        return self.model == OFFLINE

    def as_child(self) -> Child:
        """Return the summary that the parent run stores."""
        own = {name: getattr(self, name) for name in Child.__dataclass_fields__}
        return Child(**{**own, "tool_calls": self.tool_calls.used})

    def __str__(self) -> str:
        """Return the answer."""
        return self.answer or repr(self)

    def __repr__(self) -> str:
        answer = self.answer if len(self.answer) <= _SHOWN else f"{self.answer[: _SHOWN - 3]}..."
        return f"Outcome({self.run_id!r}, {self.specialist!r}, {self.status!r}, answer={answer!r})"

    def _repr_markdown_(self) -> str:
        """Return the answer, its quotes, its gaps and a line about the run, which notebooks render.

        Of a quote that the answer has itself, only the source follows.
        """
        marks = {True: "✓", False: "✗ not found in what was read:", None: "-"}
        asks = f"**{self.specialist} asks:** {self.question}" if self.question else ""
        parts, said = [asks, self.answer], _folded(self.answer)
        for one in self.evidence:
            quoted = "\n".join(f"> {line}".rstrip() for line in one.quote.splitlines())
            is_said = one.quote.strip() and _folded(one.quote) in said
            parts.append(f"{marks[one.verified]} `{one.source}`" + ("" if is_said else f"\n\n{quoted}"))
        if self.gaps:
            parts.append("\n".join(f"- not found: {gap}" for gap in self.gaps))
        if self.doubtful:
            parts.append("\n".join(f"- not borne out by what was read: {one}" for one in self.doubtful))
        notes = [f"{self.specialist}: {self.status}, {self.tool_calls.used} tool calls, {self.model}"]
        notes += [note for note in (self.error, *self.warnings) if note]
        parts.append("\n".join(f"- *{note}*" for note in notes))
        return harmless("\n\n".join(part for part in parts if part) + "\n")

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values, without the error and the exit code, which the command reports itself."""
        values = asdict(self)
        del values["error"], values["exit_code"]
        return values


# Length of the answer in `repr` [characters].
_SHOWN = 60
_QUOTE_SIGN = re.compile(r"^[ \t]*>+", re.MULTILINE)


def _folded(text: str) -> str:
    """Return a text on one line, without the signs of quotes in Markdown."""
    return " ".join(_QUOTE_SIGN.sub("", text).split())


_TAG_OR_IMAGE = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")


def harmless(markdown: str) -> str:
    """Return Markdown without HTML and images, which could leak content to another server.

    Text without either is returned unchanged. Otherwise each opening character is escaped, even in code.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only for notebooks

    blocks = MarkdownIt().parse(markdown)
    kinds = {token.type for block in blocks for token in (block, *(block.children or ()))}
    if not kinds & {"html_block", "html_inline", "image"}:
        return markdown
    return _TAG_OR_IMAGE.sub(r"\\\g<0>", markdown)
