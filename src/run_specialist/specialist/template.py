"""Create new specialist files."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import frontmatter

from run_specialist.errors import UsageError
from run_specialist.safe_files import safe_open
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.placeholders import DESCRIPTION, PROBLEM, PURPOSE
from run_specialist.specialist.problems import Problem, shown

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WORD = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 64

_PROMPT = """\
You are `{name}`, and another agent has put a question to you. {purpose}

## How you work

- Answer the question that you are given, and no other.
- Search first, and read only the lines around a hit; never open file after file.
- Your tool calls are limited: make lookups that do not depend on each other in one turn, and stop when you know enough.

## What counts

- Every statement rests on something that you have read: name it as `path:line` and quote it word for word.
- Where sources disagree, say so, and say which is newer.
- Say what you did not find. Never fill a gap with a guess.

## Your answer

1. The answer itself, in one or two sentences.
2. What it rests on, the most important first, each with its source.
3. What is still open."""


def check_new(folder: Path, name: str, *, overwrite: bool = False) -> Path:
    """Return the path of a new specialist's file; writes nothing.

    Raises UsageError for a name that some file systems or shells reject, and for an existing file.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        near = "-".join(_WORD.findall(name.lower()))[:_LONGEST_NAME].strip("-")
        raise UsageError(
            f"invalid name {shown(name)}: use lower-case letters, digits and single hyphens, at most {_LONGEST_NAME} "
            f"characters{f'; for example {near}' if near else ''}"
        )
    path = folder / f"{name}.md"
    if os.path.lexists(path) and not overwrite:
        raise _exists(path)
    return path


def strict_problems(name: str, given: Mapping[str, object]) -> list[Problem]:
    """Return the problems of a new file that a strict check finds, without those of its placeholders.

    given: as for `write_new`.
    """
    found = load_text(_text(name, given), Path(f"{name}.md")).strict().problems
    return [problem for problem in found if PROBLEM not in problem.text]


def write_new(
    folder: Path, name: str, given: Mapping[str, object], *, overwrite: bool = False, project: Path | None = None
) -> Path:
    """Write `folder`/`name`.md with a prompt template and return its path.

    given: Front matter in addition to the name, by canonical key; without a description, placeholders are written.
    project: Project that contains the folder; symlinks must not lead out of it. None to follow all symlinks.
    Raises UsageError for a name or value that fails a strict check, and for an existing file.
    """
    path = check_new(folder, name, overwrite=overwrite)
    if problems := strict_problems(name, given):
        raise UsageError("; ".join(f"{problem.key}: {problem.text}" for problem in problems))
    text = _text(name, given)
    try:
        top, relative = safe_open.locate(folder, project)
        (top / relative).mkdir(parents=True, exist_ok=True)
        with safe_open.create_file(path, project, overwrite=overwrite) as file:
            file.write(text.encode())
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise UsageError(f"{shown(str(path), None)} cannot be written: {error.strerror}") from None
    return path


def _exists(path: Path) -> UsageError:
    return UsageError(f"{shown(str(path), None)} already exists; use --force to overwrite it")


def _text(name: str, given: Mapping[str, object]) -> str:
    description = " ".join(str(given.get("description", DESCRIPTION)).split())
    purpose = f"What you are for: {description.rstrip('.')}." if "description" in given else f"\n\n{PURPOSE}"
    post = frontmatter.Post(_PROMPT.format(name=name, purpose=purpose).replace(" \n", "\n"))
    post.metadata = {"name": name, **given, "description": description}
    return frontmatter.dumps(post, sort_keys=False, width=10_000) + "\n"
