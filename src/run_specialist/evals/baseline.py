"""Find the baseline of a comparison: a commit, an earlier eval, another file, or a result as JSON."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.earlier import EarlierEval
from run_specialist.evals.eval_results import AS_IT_IS, CaseRun, Variant
from run_specialist.evals.git_files import Commit, NoCommit, NoFile
from run_specialist.evals.past_file import past_file
from run_specialist.evals.result_file import read_result
from run_specialist.specialist.problems import shown

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
