"""Choose the word for some files: `notes` if all of them are notes, otherwise `files`."""

import re
from collections.abc import Iterable

_NOTE = re.compile(r"(?i)\.(?:md|markdown|mdx|txt|rst|org|adoc|asciidoc)$")
_NOT_A_NOTE = re.compile(
    r"(?i)(?:^|/)(?:readme|changelog|changes|history|news|contributing|contributors|authors|licen[sc]e|copying|notice"
    r"|security|code[_-]of[_-]conduct|requirements)(?:[._][^/]*)?$"
)
_NO_PLACE_OF_NOTES = re.compile(r"(?i)(?:^|/)(?:docs?|documentation|manual|src|lib|tests?|examples?)/")


def place_word(paths: Iterable[str]) -> str:
    """Return `notes` or `files`, which are equally long; `files` if there is no path.

    paths: paths of files, relative to the root.
    """
    known = [*paths]
    return "notes" if known and all(map(_is_note, known)) else "files"


def _is_note(path: str) -> bool:
    return bool(_NOTE.search(path)) and not _NOT_A_NOTE.search(path) and not _NO_PLACE_OF_NOTES.search(path)
