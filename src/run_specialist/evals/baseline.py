"""Find what an eval is compared with: a commit, an earlier eval, a file, or the JSON of results."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from run_specialist.batch.item import Done, Item
from run_specialist.errors import RunNotFound, StoreMissing, UsageError
from run_specialist.evals.cases import EvalSet
from run_specialist.evals.plan import AS_IT_IS, CaseRun, PlannedRun, Subject, Variant, read_result
from run_specialist.safety.git import GitMissing, ask_git
from run_specialist.specialist.checks import take_values
from run_specialist.specialist.front_matter import read
from run_specialist.specialist.problems import Problems, shown
from run_specialist.store.location import default_folder
from run_specialist.store.rows import outcome_of
from run_specialist.store.stored import ItemResult

PREFIX = "eval-"
"""Beginning of the ids of evals."""
_RUN_ID = re.compile(r"(.+)-(\d{1,9})(?:\.(\d{1,9}))?")
"""Pattern with key, repeat and generation, see `run_id`."""


@dataclass(frozen=True)
class EarlierEval:
    """A stored eval."""

    eval_id: str
    variants: tuple[Variant, ...]
    items: tuple[ItemResult, ...]

    def planned(self, cases: EvalSet, variant: str, today: Variant) -> Iterator[tuple[PlannedRun, Done]]:
        """Yield the ended runs of a variant, for the cases whose question has not changed.

        variant: its name in this eval.
        today: the variant to which the runs belong now.
        """
        by_name = {one.name: one for one in cases.cases}
        # No request is sent, so neither the file nor its settings are needed.
        subject, asked = Subject(today, cast("Any", None)), cast("Any", None)
        for item in self.items:
            given = item.input if isinstance(item.input, Mapping) else {}
            case, found = by_name.get(str(given.get("case"))), _RUN_ID.fullmatch(item.run_id)
            if case is None or found is None or given.get("variant") != variant or case.question != item.question:
                continue
            if item.outcome is not None:
                run = PlannedRun(item.number, case, subject, int(found[2]), asked, found[1], int(found[3] or 1))
                done = Done(
                    Item(item.number, item.input, item.question, item.run_id), item.run_id, outcome_of(item.outcome)
                )
                yield run, done


def earlier_eval(name: str, store: str | None) -> EarlierEval | None:
    """Return the stored eval with this id or id prefix; None if there is none.

    store: URL of the store; None for the default one.
    Raises UsageError if the prefix matches several evals, or if the store cannot be read.
    """
    from run_specialist.store.batch_reader import StoredBatches  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.location import NONE, place  # noqa: PLC0415 - as above

    where = place(store).url
    if where == NONE or not name.startswith(PREFIX) or name == PREFIX:
        return None
    try:
        with StoredBatches(where) as batches:
            found = batches.find(name)
            items = tuple(batches.items(found.batch_id))
    except StoreMissing:
        return None
    except RunNotFound as error:
        if "start with" in str(error):
            raise
        return None
    try:
        variants = tuple(
            Variant(one["name"], one["path"], one["digest"], one["settings"], bool(one.get("is_baseline")))
            for one in found.frozen["eval"]["variants"]
        )
    except (KeyError, TypeError):
        raise UsageError(f"{found.batch_id} was not stored as an eval") from None
    return EarlierEval(found.batch_id, variants, items)


KINDS = ("git", "eval", "file")
"""Prefixes that select the kind of a baseline, such as `git:` in `git:main`."""
_FILES = (".md", ".json")

Earlier = Callable[[str], EarlierEval | None]
"""Returns an earlier eval by its id; None if there is none."""


@dataclass(frozen=True)
class Baseline:
    """The baseline of a comparison: a file to be run like the variants, or existing runs."""

    name: str
    """Name as shown."""
    path: Path | None = None
    """The specialist's file; None if the runs exist already."""
    variant: Variant | None = None
    """The variant whose runs exist already, with its earlier name."""
    runs: tuple[CaseRun, ...] = ()
    """The runs of a result in JSON, with their checks."""
    earlier: EarlierEval | None = None
    """A stored eval whose runs are checked again."""


def find_baseline(text: str, specialist: Path, earlier: Earlier, keep: Path | None = None) -> Baseline:
    """Return the baseline that `--baseline` names.

    text: `REF`, `REF:PATH`, the id of an eval, or a path that ends in .md or .json; with one of `KINDS` and a colon
        before it, only that.
    specialist: file of the variants.
    keep: folder for copies of past files; None for the default one.
    Raises UsageError with the specialist's file as the place.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in KINDS:
        kind, name = "", text
    try:
        return _found(kind, name, specialist, earlier, keep)
    except UsageError as error:
        raise UsageError(f"{shown(str(specialist), None)}:1:1: baseline {shown(text) or repr(text)}: {error}") from None


def _found(kind: str, name: str, specialist: Path, earlier: Earlier, keep: Path | None) -> Baseline:
    if not name.strip():
        raise UsageError("the name of a commit, an eval or a file is missing")
    is_file = name.lower().endswith(_FILES) and (":" not in name or os.path.lexists(name))
    if kind == "file" or (not kind and is_file):
        return _of_file(Path(name))
    found = earlier(name) if kind in {"", "eval"} else None
    if kind == "eval" and found is None:
        raise UsageError("no eval with this id is stored; `specialists batches` lists them")
    if found is None:
        return _of_commit(name, specialist, keep, is_named=kind == "git")
    if not kind and _is_commit(name, specialist):
        raise UsageError(f"is an eval and a commit; write eval:{name} or git:{name}")
    chosen = _only(found.variants)
    return Baseline(found.eval_id, None, chosen, (), found)


def _of_file(path: Path) -> Baseline:
    if path.suffix.lower() not in _FILES:
        raise UsageError("must end in .md, as specialists do, or in .json, as a result of --json")
    if path.suffix.lower() != ".json":
        if not path.is_file():
            raise UsageError("no such file")
        return Baseline(str(path), path)
    result = read_result(path)
    chosen = _only(result.variants)
    runs = tuple(replace(one, variant=path.name) for one in result.of(chosen.name))
    if not runs:
        raise UsageError("has no run that has ended")
    return Baseline(path.name, None, chosen, runs)


def _of_commit(name: str, specialist: Path, keep: Path | None, *, is_named: bool) -> Baseline:
    """Return the file at a commit.

    name: a commit, optionally followed by a colon and the path of the file at that commit.
    is_named: whether the prefix says that it is a commit.
    """
    ref, _, path = name.partition(":")
    folder = Path(os.path.realpath(specialist)).parent
    try:
        commit = Commit.named(ref, folder)
    except NoCommit as error:
        neither = "" if is_named else "is neither a file, nor a stored eval, nor a commit: "
        raise UsageError(f"{neither}{error}") from None
    is_given = bool(path)
    if not is_given:
        inside = os.path.relpath(os.path.realpath(specialist), os.path.realpath(commit.top))
        path = inside.replace(os.sep, "/")
    try:
        copy = past_file(commit, path, keep)
    except NoFile as error:
        advice = "" if is_given else f"; if it had another path, write git:{ref}:PATH"
        raise UsageError(f"{error}{advice}") from None
    return Baseline(commit.short if commit.digest == ref else name, copy)


def _is_commit(name: str, specialist: Path) -> bool:
    try:
        Commit.named(name, Path(os.path.realpath(specialist)).parent)
    except UsageError:
        return False
    return True


def _only(variants: Sequence[Variant]) -> Variant:
    """Return the only variant besides a baseline, or the one of the unchanged file; raises UsageError."""
    found = [one for one in variants if not one.is_baseline] or [*variants]
    if len(found) > 1:
        found = [one for one in found if one.name == AS_IT_IS] or found
    if len(found) != 1:
        names = ", ".join(shown(one.name) for one in found) or "none"
        raise UsageError(f"must have one variant, or one that is named {AS_IT_IS!r}; there are {names}")
    return found[0]


LARGEST = 32 * 1024 * 1024
"""Maximum size of a file [bytes]."""
_COLUMNS = 4
"""Mode, kind, object and size: what `git ls-tree --long` writes before the path."""


class NoCommit(UsageError):
    """The repository has no such commit, or there is no repository."""


class NoFile(UsageError):
    """The commit has no such file."""


@dataclass(frozen=True)
class Commit:
    """A commit of the repository that contains a folder."""

    top: Path
    """The folder of the work tree."""
    digest: str
    """Full hash."""

    @property
    def short(self) -> str:
        """The first digits of the hash, as usually written."""
        return self.digest[:10]

    @classmethod
    def named(cls, ref: str, folder: Path) -> "Commit":
        """Return the commit of a branch, tag or hash; raises NoCommit, or UsageError if git fails."""
        try:
            where = ask_git(folder, "rev-parse", "--show-toplevel")
        except GitMissing as error:
            raise UsageError(f"{error}, so a commit cannot be a baseline") from None
        if where.returncode:
            reason = where.stderr.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ")
            raise NoCommit(f"{folder} is not in a readable git work tree ({reason or 'git failed'})")
        top = Path(os.fsdecode(where.stdout.removesuffix(b"\n")))
        # Without this, `--help` and the like would be options.
        found = ask_git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        digest = found.stdout.decode("ascii", "replace").strip()
        if found.returncode or not digest:
            raise NoCommit(f"no commit of {top} has this name; a shallow clone may have to fetch it first")
        return cls(top, digest)

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        path: relative to the top of the work tree, with `/`.
        Raises NoFile if there is no such regular file.
        """
        listed = ask_git(self.top, "ls-tree", "-z", "--long", self.digest, "--", path)
        found = listed.stdout.partition(b"\0")[0].partition(b"\t")[0].decode("ascii", "replace").split()
        if listed.returncode or len(found) != _COLUMNS:
            raise NoFile(f"{path} does not exist in commit {self.short}")
        mode, kind, blob, size = found
        if kind != "blob" or mode == "120000":
            raise NoFile(f"{path} is not a regular file in commit {self.short}")
        if not size.isdecimal():
            # For a missing object, git writes BAD; a partial clone has such objects.
            advice = "if you trust this repository, fetch it with git"
            raise NoFile(f"{path} of commit {self.short} is missing in this partial clone; {advice}")
        if int(size) > LARGEST:
            raise NoFile(f"{path} is larger than {LARGEST // 1024**2} MiB in commit {self.short}")
        content = ask_git(self.top, "cat-file", "blob", blob)
        if content.returncode:
            raise NoFile(f"{path} cannot be read from commit {self.short}: git cat-file failed")
        return content.stdout


FOLDER = "baselines"


def past_file(commit: Commit, path: str, keep: Path | None = None) -> Path:
    """Return the path of a copy of a specialist's file at a commit, and of the schema that it names, beside each other.

    path: relative to the top of the work tree, with `/`.
    keep: folder for all copies; None for one in the user's data directory.
    The same content always has the same path, so that stored runs of it can be resumed. Raises NoFile, or UsageError
    if the copy cannot be written.
    """
    contents = {path: commit.read(path)}
    schema = _schema(contents[path], path)
    if schema is not None:
        # A schema that is missing is reported with its line when the copy is loaded.
        with suppress(NoFile):
            contents[schema] = commit.read(schema)
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(b"%d %d " % (len(os.fsencode(name)), len(content)) + os.fsencode(name) + content)
    folder = (keep or default_folder() / FOLDER) / digest.hexdigest()[:16]
    try:
        # The paths in the file must not lead out of the copy, as they must not lead out of a project.
        for name, content in {".git": b"", **contents}.items():
            _write(folder / name, content)
    except OSError as error:
        raise UsageError(f"the copy {folder} cannot be written: {error.strerror or error}") from None
    return folder / path


def _schema(content: bytes, path: str) -> str | None:
    """Return the path of the schema that a file names, relative to the work tree; None if it is outside."""
    problems = Problems(Path(path))
    value = take_values(read(content, problems), problems).get("output_schema")
    if not isinstance(value, str) or os.path.isabs(value):  # noqa: PTH117 - a text
        return None
    inside = os.path.normpath(os.path.join(os.path.dirname(path), value))  # noqa: PTH118, PTH120 - same
    return None if inside.startswith("..") else inside.replace(os.sep, "/")


def _write(path: Path, content: bytes) -> None:
    with suppress(OSError):
        if path.read_bytes() == content and not path.is_symlink():
            return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
