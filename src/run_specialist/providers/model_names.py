"""Find misspelt model names before a request is sent, without a list of all models, because there is none.

Only words known to this program can be misspelt: aliases, prefixes, and model families in a vendor's ids. Versions and
all other names are accepted unchanged: thoughts/shared/decisions/2026-11-23/misspelt-models.md.
"""

import os
import re
from collections.abc import Iterable, Sequence

from run_specialist.errors import UsageError
from run_specialist.providers.endpoint import CHAT
from run_specialist.providers.models import ALIASES, MAX_OUTPUT_TOKENS
from run_specialist.specialist.foreign_models import unserved

FAMILIES = tuple(MAX_OUTPUT_TOKENS)
"""Model families in the ids of the Messages API's vendor."""
CLAUDE = "claude"
CHAT_WORDS = ("gpt", "chatgpt", "mini", "nano", "turbo")
"""Words in the ids of the chat completions vendor that are checked for misspellings."""
PREFIXES = ("openai", "ollama", "lmstudio", "llamacpp", "vllm", "local")
"""Prefixes of models, without the colon."""
_BARE = (*ALIASES, "offline", "inherit")
_WORD = re.compile(r"[a-z]+")


def check_spelling(model: str, place: str = "") -> None:
    """Check a model name.

    place: where the name was given, as `file:line:column: key`; empty if it was not in a file.
    Raises UsageError with the probable name if it is misspelt.
    """
    meant = _meant(model.strip().lower())
    if meant:
        raise UsageError(f"{place and f'{place}: '}no model {model!r}: did you mean {' or '.join(meant)}?")


def check_served(model: str, place: str = "") -> None:
    """Raise UsageError if no endpoint of this environment can serve a model; contacts nothing.

    place: as for `check_spelling`.
    """
    if why := unserved(model):
        raise UsageError(f"{place and f'{place}: '}{model}: {why}")


def _meant(model: str) -> Sequence[str]:
    """Return the names that a misspelt one probably means; empty if it is not misspelt."""
    prefix, colon, name = model.partition(":")
    if colon:
        if prefix == "openai":
            return _meant_by_chat(name)
        return [f"{near}:{name}"] if (near := _near(prefix, PREFIXES)) else []
    if model.isalpha() and model.isascii():
        return [near] if (near := _near(model, _BARE)) else []
    return _meant_by_claude(model)


def _meant_by_claude(model: str) -> Sequence[str]:
    """Return the probable ids for a name whose family is misspelt, or whose part before the family is."""
    words = _WORD.findall(model)
    if not any(_is_or_near(word, [CLAUDE]) for word in words):
        return []
    family = next((word for word in words if word in FAMILIES), None)
    if family and CLAUDE in words:
        return []
    fixed = _WORD.sub(lambda found: _near(found[0], [CLAUDE, *FAMILIES]) or found[0], model)
    family = family or next((word for word in _WORD.findall(fixed) if word in FAMILIES), None)
    if family is None:
        return []
    newest = ALIASES.get(family)
    return [fixed] if newest in {None, fixed} else [fixed, f"{newest} ({family})"]


def _meant_by_chat(name: str) -> Sequence[str]:
    """Return the correct id for a vendor's id with a misspelt word; models of other servers are not checked."""
    if os.environ.get(CHAT.url, "").strip():
        return []
    fixed = _WORD.sub(lambda found: _near(found[0], CHAT_WORDS) or found[0], name)
    return [f"openai:{fixed}"] if fixed != name else []


def _is_or_near(word: str, known: Iterable[str]) -> bool:
    return word in known or _near(word, known) is not None


def _near(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that this one misspells; None if it is known, or no misspelling."""
    known = [*known]
    return None if word in known else next((one for one in known if _misspells(word, one)), None)


def _misspells(word: str, right: str) -> bool:
    """Return whether a word has one typing error, or the same letters in another order or number.

    The first letter must match: few people mistype it, and `table` is another word than `fable`.
    """
    if word[:1] != right[:1] or abs(len(word) - len(right)) > 1:
        return False
    if set(word) == set(right):
        return True
    short, long = sorted((word, right), key=len)
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    # One letter more, or one letter replaced.
    return short[start + (len(short) == len(long)) :] == long[start + 1 :]
