"""Find what variants are compared with: a commit, an earlier eval, another file, or a result as JSON."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.git_files import Commit, NoCommit, NoFile
from run_specialist.evals.past_file import past_file
from run_specialist.evals.result_file import read_result
from run_specialist.evals.results import AS_IT_IS, CaseRun, EvalResult, Variant
from run_specialist.specialist.problems import shown

KINDS = ("git", "eval", "file")
"""Prefixes, such as in `git:main`, for a name that could be several of them."""
_FILES = (".md", ".json")

Earlier = Callable[[str], EvalResult | None]
"""Returns an earlier eval by its id; None if there is none."""


@dataclass(frozen=True)
class Baseline:
    """What variants are compared with."""

    name: str
    """As the variant is shown."""
    path: Path | None = None
    """The specialist's file whose runs are made; None if the runs are there already."""
    variant: Variant | None = None
    runs: tuple[CaseRun, ...] = ()
    """Of an earlier result, with the name of the baseline as their variant."""


def find_baseline(text: str, specialist: Path, earlier: Earlier, keep: Path | None = None) -> Baseline:
    """Return the baseline that `--baseline` names.

    text: `REF`, `REF:PATH`, the id of an eval, or a path that ends in .md or .json; `git:`, `eval:` or `file:` before
        it excludes the other meanings.
    specialist: file of the variants.
    keep: folder of copies of past files; None for the usual one.
    Raises UsageError with the specialist's file as the place.
    """
    kind, is_prefixed, name = text.partition(":")
    if not is_prefixed or kind not in KINDS:
        kind, name = "", text
    try:
        return _found(kind, name, specialist, earlier, keep)
    except UsageError as error:
        raise UsageError(f"{shown(str(specialist), None)}:1:1: baseline {shown(text)}: {error}") from None


def _found(kind: str, name: str, specialist: Path, earlier: Earlier, keep: Path | None) -> Baseline:
    if not name.strip():
        raise UsageError("the name of a commit, an eval or a file is missing")
    is_file = name.lower().endswith(_FILES) and (":" not in name or os.path.lexists(name))
    if kind == "file" or (not kind and is_file):
        return _of_file(Path(name))
    result = earlier(name) if kind in {"", "eval"} else None
    if kind == "eval" and result is None:
        raise UsageError("no eval with this id is stored")
    ref, _, path = name.partition(":")
    try:
        commit = Commit.named(ref, Path(os.path.realpath(specialist)).parent) if kind in {"", "git"} else None
    except NoCommit as error:
        if kind == "git":
            raise UsageError(f"{error}{_advice(error)}") from None
        if result is None:
            raise UsageError(
                f"is neither an eval that is stored, nor a file, nor a commit: {error}{_advice(error)}"
            ) from None
        commit = None
    except UsageError:
        if result is None:
            raise
        commit = None
    if result is not None and commit is not None:
        raise UsageError(f"is an eval and a commit; write eval:{name} or git:{name}")
    if result is not None:
        return _of_result(result, name)
    assert commit is not None  # noqa: S101 - one of both was found
    return _of_commit(commit, ref, path, specialist, keep)


def _advice(error: UsageError) -> str:
    return "; in a shallow clone, fetch it first" if "has this name" in str(error) else ""


def _of_file(path: Path) -> Baseline:
    if path.suffix.lower() == ".json":
        return _of_result(read_result(path), path.name)
    if not path.is_file():
        raise UsageError("no such file")
    return Baseline(str(path), path)


def _of_commit(commit: Commit, ref: str, path: str, specialist: Path, keep: Path | None) -> Baseline:
    """Return the file at a commit.

    path: another path than today's, from the top of the work tree; empty for today's.
    """
    if not path:
        inside = os.path.relpath(os.path.realpath(specialist), os.path.realpath(commit.top))
        if inside.startswith(".."):
            raise UsageError(f"the file is not in the work tree {commit.top}")
        path = inside.replace(os.sep, "/")
    try:
        copy = past_file(commit, path, keep)
    except NoFile as error:
        raise UsageError(f"{error}; if it had another path, write git:{ref}:PATH") from None
    return Baseline(commit.short if commit.digest == ref else ref, copy)


def _of_result(result: EvalResult, name: str) -> Baseline:
    """Return a variant of a result: its only one besides its own baseline, or that of the file as it was."""
    variants = [one for one in result.variants if not one.is_baseline] or [*result.variants]
    if len(variants) > 1:
        variants = [one for one in variants if one.name == AS_IT_IS] or variants
    if len(variants) != 1:
        found = ", ".join(shown(one.name) for one in variants) or "none"
        raise UsageError(f"needs one variant, or one named {AS_IT_IS!r}; there are {found}")
    (chosen,) = variants
    runs = tuple(replace(one, variant=name) for one in result.of(chosen.name))
    if not runs:
        raise UsageError("has no run that has ended")
    return Baseline(name, None, replace(chosen, name=name, is_baseline=True), runs)
