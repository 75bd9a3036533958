"""Find what an eval is compared with: a commit, an earlier eval, a file, or the JSON of results."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess

from pydantic import TypeAdapter, ValidationError

from run_specialist.errors import RunNotFound, StoreMissing, UsageError, errors_as
from run_specialist.evals.plan import AS_IT_IS, CaseRun, EvalResult, Variant
from run_specialist.safety.git import GitMissing, ask_git
from run_specialist.specialist.checks import take_values
from run_specialist.specialist.front_matter import read
from run_specialist.specialist.positions import read_file
from run_specialist.specialist.problems import Problems, shown
from run_specialist.store.batch_reader import StoredBatches
from run_specialist.store.location import NONE, default_folder, place

LARGEST_RESULT = 256 * 1024 * 1024
"""Maximum size of a result in JSON [bytes]."""


@dataclass(frozen=True)
class Baseline:
    """The baseline of a comparison: a file to be run like the variants, or existing runs."""

    name: str
    path: Path | None = None
    variant: Variant | None = None
    """The variant whose runs exist already, with its earlier name."""
    runs: tuple[CaseRun, ...] = ()

    def called(self, others: Sequence[Variant]) -> str:
        """Return its name as a variant beside others."""
        return f"{self.name} (baseline)" if self.name in {one.name for one in others} else self.name

    def completed(self, result: EvalResult) -> EvalResult:
        """Return a result with the runs of the baseline added, if they exist already."""
        if self.variant is None:
            return result
        name = self.called(result.variants)
        variant = replace(self.variant, name=name, is_baseline=True)
        runs = tuple(replace(one, variant=name) for one in self.runs if one.case in result.cases)
        return replace(result, variants=(variant, *result.variants), runs=(*runs, *result.runs))


def read_result(path: Path) -> EvalResult:
    """Return the result in a file that `--json` wrote; raises UsageError with the place of the problem."""
    with errors_as(UsageError, str(path), ValueError):
        data = read_file(path, None, LARGEST_RESULT)
    try:
        return TypeAdapter(EvalResult).validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "1:1"
        text = f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        raise UsageError(f"{path}: is not a result of `specialists eval NAME --json`: {text}") from None


def earlier_eval(name: str, store: str | None) -> Baseline | None:
    """Return the stored eval with this id or id prefix; None if there is none.

    Raises UsageError if it has no result, or if the store cannot be read.
    """
    where = place(store).url
    if where == NONE or not re.match("eval-.", name):
        return None
    try:
        with StoredBatches(where) as batches:
            found = batches.find(name)
    except (StoreMissing, RunNotFound):
        return None
    result = found.frozen.get("eval", {}).get("result")
    if result is None:
        raise UsageError(f"{found.batch_id} has no result; repeat the command that began it")
    return _of_result(found.batch_id, TypeAdapter(EvalResult).validate_python(result))


def find_baseline(text: str, specialist: Path, store: str | None, keep: Path | None = None) -> Baseline:
    """Return the baseline that `--baseline` names.

    text: `REF`, `REF:PATH`, the id of an eval, or a path that ends in .md or .json; or one of them after its kind:
        `git:`, `eval:` or `file:`.
    keep: folder for copies of past files; None for the default one.
    Raises UsageError with the specialist's file as the place.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in {"git", "eval", "file"}:
        kind, name = "", text
    with errors_as(UsageError, f"{shown(str(specialist), None)}:1:1: baseline {shown(text) or repr(text)}", UsageError):
        return _found(kind, name, specialist, store, keep)


def _found(kind: str, name: str, specialist: Path, store: str | None, keep: Path | None) -> Baseline:
    is_path = name.lower().endswith((".md", ".json")) and (":" not in name or os.path.lexists(name))
    if kind == "file" or (not kind and is_path):
        path = Path(name)
        if path.suffix.lower() == ".json":
            return _of_result(path.name, read_result(path))
        if not is_path:
            raise UsageError("must end in .md, as specialists do, or in .json, as a result of --json")
        if not path.is_file():
            raise UsageError("no such file")
        return Baseline(name, path)
    if not name.strip():
        raise UsageError("the name of a commit, an eval or a file is missing")
    if kind != "git" and (found := earlier_eval(name, store)) is not None:
        return found
    if kind == "eval":
        raise UsageError("no eval with this id is stored; `specialists batches` lists them")
    return _of_commit(name, specialist, keep, "" if kind else "is neither a file, nor a stored eval, nor a commit: ")


def _of_result(name: str, result: EvalResult) -> Baseline:
    """Return the only variant besides a baseline, or the one of the unchanged file; raises UsageError."""
    found = [one for one in result.variants if not one.is_baseline] or [*result.variants]
    if len(found) > 1:
        found = [one for one in found if one.name == AS_IT_IS] or found
    if len(found) != 1:
        names = ", ".join(shown(one.name) for one in found) or "none"
        raise UsageError(f"must have one variant, or one that is named {AS_IT_IS!r}; there are {names}")
    runs = result.of(found[0].name)
    if not runs:
        raise UsageError("has no run that has ended")
    return Baseline(name, None, found[0], tuple(runs))


def _of_commit(name: str, specialist: Path, keep: Path | None, neither: str) -> Baseline:
    """Return the file at a commit, with the schema that it names; `neither` begins the error if there is none."""
    ref, _, path = name.partition(":")
    file = Path(os.path.realpath(specialist))
    try:
        where = ask_git(file.parent, "rev-parse", "--show-toplevel")
    except GitMissing as error:
        raise UsageError(f"{error}, so a commit cannot be a baseline") from None
    if where.returncode:
        raise UsageError(f"{neither}{file.parent} is not in a readable git work tree ({_reason(where)})")
    top = Path(os.fsdecode(where.stdout.removesuffix(b"\n")))
    # Without `--end-of-options`, `--help` and the like would be options.
    found = ask_git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    digest = found.stdout.decode("ascii", "replace").strip()
    if found.returncode or not digest:
        raise UsageError(f"{neither}no commit of {top} has this name; a shallow clone may have to fetch it first")
    inside = path or os.path.relpath(file, os.path.realpath(top)).replace(os.sep, "/")
    contents = {inside: _content(top, digest, inside)}
    if (schema := _schema(contents[inside], inside)) is not None:
        # A schema that is missing is reported with its line when the copy is loaded.
        with suppress(UsageError):
            contents[schema] = _content(top, digest, schema)
    folder = _copied(contents, keep or default_folder() / "baselines")
    return Baseline(digest[:10] if digest == ref else name, folder / inside)


def _reason(failed: CompletedProcess[bytes]) -> str:
    return failed.stderr.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ") or "git failed"


def _content(top: Path, digest: str, path: str) -> bytes:
    """Return the content of a file at a commit, by its path from the top of the work tree; raises UsageError."""
    found = ask_git(top, "cat-file", "blob", f"{digest}:{path}")
    if found.returncode:
        commit = f"{path} cannot be read from commit {digest[:10]} ({_reason(found)})"
        raise UsageError(f"{commit}; if it had another path, write git:REF:PATH")
    return found.stdout


def _schema(content: bytes, path: str) -> str | None:
    """Return the path of the schema that a file names, relative to the work tree; None if it is outside."""
    problems = Problems(Path(path))
    value = take_values(read(content, problems), problems).get("output_schema")
    if not isinstance(value, str) or os.path.isabs(value):  # noqa: PTH117 - a text
        return None
    inside = os.path.normpath(os.path.join(os.path.dirname(path), value))  # noqa: PTH118, PTH120 - same
    return None if inside.startswith("..") else inside.replace(os.sep, "/")


def _copied(contents: Mapping[str, bytes], keep: Path) -> Path:
    """Write files by path into a folder, which is the same for the same content, so that its runs can be resumed."""
    folder = keep / hashlib.sha256(repr([*contents.items()]).encode()).hexdigest()[:16]
    with errors_as(UsageError, f"the copy {folder} cannot be written", OSError):
        # The paths in the file must not lead out of the copy, as they must not lead out of a project.
        for name, content in {".git": b"", **contents}.items():
            path = folder / name
            if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
                continue
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            temporary.write_bytes(content)
            temporary.replace(path)
    return folder
