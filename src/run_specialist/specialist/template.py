"""Create new specialist files."""

import re
from collections.abc import Mapping
from pathlib import Path

import frontmatter

from run_specialist import safe_open
from run_specialist.errors import UsageError
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.problems import shown

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64

_PROMPT = """\
You are `{name}`, and another agent has put a question to you. What you are for: {description}

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


def write_new(
    folder: Path, name: str, given: Mapping[str, object], *, overwrite: bool = False, project: Path | None = None
) -> Path:
    """Write `folder`/`name`.md with a prompt template and return its path.

    given: Front matter in addition to the name, by canonical key.
    project: Project that contains the folder; symlinks must not lead out of it. None to follow all symlinks.
    Raises UsageError for a name or value that fails a strict check, and for an existing file.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"invalid name {shown(name)}: use lower-case letters, digits and single hyphens, at most {_LONGEST_NAME} "
            "characters"
        )
    path = folder / f"{name}.md"
    text = _text(name, given)
    if problems := load_text(text, path).strict().problems:
        raise UsageError("; ".join(f"{problem.key}: {problem.text}" for problem in problems))
    try:
        top, relative = safe_open.locate(folder, project)
        (top / relative).mkdir(parents=True, exist_ok=True)
        with safe_open.create_file(path, project, overwrite=overwrite) as file:
            file.write(text.encode())
    except FileExistsError:
        raise UsageError(f"{shown(str(path), None)} already exists; use --force to overwrite it") from None
    except OSError as error:
        raise UsageError(f"{shown(str(path), None)} cannot be written: {error.strerror}") from None
    return path


def _text(name: str, given: Mapping[str, object]) -> str:
    description = " ".join(str(given.get("description", "")).split())
    prompt = _PROMPT.format(name=name, description=description.rstrip(".") + ".")
    post = frontmatter.Post(prompt)
    post.metadata = {"name": name, **given, "description": description}
    return frontmatter.dumps(post, sort_keys=False, width=10_000) + "\n"
