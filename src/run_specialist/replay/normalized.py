"""Replace credentials, local paths and run ids by placeholders for a cassette."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from run_specialist.redaction import credentials, redactor

ROOT, HOME = "$ROOT", "$HOME"
"""Placeholders for the folder of the file tools and for the user's home folder."""


def normalizer(root: Path, ids: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """Return a function that replaces credentials, paths and ids in all texts of JSON values.

    root: the folder of the file tools.
    ids: the placeholder for each run id.
    """
    hide = redactor(credentials(os.environ))
    places = {str(root): ROOT, os.path.realpath(root): ROOT, str(Path.home()): HOME}
    # The longest first: the folder is usually below the home.
    texts = sorted({**places, **(ids or {})}.items(), key=lambda one: -len(one[0]))
    replaced = [(text, other) for text, other in texts if len(text) > 1]

    def text(value: str) -> str:
        for one, other in replaced:
            value = value.replace(one, other)
        return hide(value)

    return lambda value: _mapped(value, text)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(one, change) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_mapped(one, change) for one in value]
    return value
