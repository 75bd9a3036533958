"""Generate a folder of notes of any size, reproducible by its seed."""

import random
from itertools import accumulate
from pathlib import Path

NOTE_SIZE = 8_000
"""Approximate size of a note [bytes]."""
WORDS = 20_000
SENTENCES = 20_000
FOLDERS = 100
SEAL = "quartzite"
"""Word in a few notes, including the first and the last; finding all of them proves that all notes were read."""
SEALED = 8
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeo"]


def write(folder: Path, count: int, seed: int = 1) -> list[str]:
    """Write `count` notes and return words contained in some of them, from rare to common.

    count: At least `SEALED`.
    """
    chance = random.Random(seed)  # noqa: S311 - not security-relevant
    words = sorted({"".join(chance.choices(_SYLLABLES, k=chance.randint(2, 5))) for _ in range(WORDS)})
    chance.shuffle(words)
    # Zipf's law: the nth word is n times rarer than the first.
    weights = list(accumulate(1 / (rank + 5) for rank in range(len(words))))
    sentences = [
        " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(6, 18))).capitalize() + "."
        for _ in range(SENTENCES)
    ]
    sealed = {0, count - 1, *chance.sample(range(1, count - 1), SEALED - 2)}
    for number in range(count):
        place = folder / f"{number % FOLDERS:02}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"note-{number:05}.md").write_text(
            _note(chance, words, sentences) + (f"\nThe {SEAL} is here.\n" if number in sealed else ""), encoding="utf-8"
        )
    return [" ".join(words[at : at + 2]) for at in range(len(words) // 2, 0, -len(words) // 24)]


def _note(chance: random.Random, words: list[str], sentences: list[str]) -> str:
    parts = [f"# {' '.join(chance.sample(words, 4))}\n"]
    size = 0
    while size < NOTE_SIZE:
        paragraph = " ".join(chance.choices(sentences, k=5))
        heading = f"\n## {' '.join(chance.sample(words, 3))}\n" if chance.random() < 0.2 else ""  # noqa: PLR2004
        parts.append(f"{heading}\n{paragraph}\n")
        size += len(parts[-1])
    return "".join(parts)
