"""Parse several models in one text: the first one, and its fallbacks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

KEY = "fallback_models"
WEIGHTS = "local:"
"""Prefix of a weights file, which comes last, because its path may contain commas."""
_COMMA = re.compile(r",(?![^()]*\))")


def split_models(text: str) -> tuple[str, ...]:
    """Return the models in a text such as `sonnet, openai:gpt-5`, each once; the text itself if there are none."""
    found = re.search(rf"(?:^|,)\s*{WEIGHTS}", text)
    head, weights = (text, "") if found is None else (text[: found.start()], text[found.start() :].lstrip(", "))
    names = (name.strip() for name in (*_COMMA.split(head), weights))
    return tuple(dict.fromkeys(name for name in names if name)) or (text,)


def model_settings(model: str | None, settings: Mapping[str, Any], by_file: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a call that names one model or several; they replace all models of the file.

    settings: the other settings of the call.
    by_file: the fallback models of the file.
    """
    if model is None:
        return {}
    first, *others = split_models(model)
    others += [name for name in settings.get(KEY, ()) if name != first]
    # The settings identify a batch, so they contain only what differs.
    return {"model": first, **({KEY: tuple(dict.fromkeys(others))} if others or by_file else {})}
