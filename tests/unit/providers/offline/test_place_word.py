"""The words of offline answers fit the files: only notes are called notes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.offline import place_word

CODE = {
    "src/pay.py": "def charge(card):\n    for attempt in range(3):  # payments are retried three times\n        pass\n"
}


@pytest.mark.parametrize(
    ("paths", "word"),
    [
        (["thoughts/2024-01-05_cache.md"], "notes"),
        (["notes/cache.md", "plan.txt", "notes/history-of-the-cache.md"], "notes"),
        (["notes/cache.md", "src/pay.py"], "files"),
        (["README.md"], "files"),
        (["packages/api/readme.de.rst"], "files"),
        (["CHANGELOG.md"], "files"),
        (["docs/usage.md"], "files"),
        (["LICENSE"], "files"),
        (["Makefile"], "files"),
        (["pay.go"], "files"),
        ([], "files"),
    ],
)
def test_only_notes_are_called_notes(paths, word):
    """Code, a README, documentation and mixed places are files."""
    assert place_word(paths) == word


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=20))
def test_code_is_never_called_notes(others, name):
    """One file of code among any others suffices, and both words have the same length."""
    assert place_word([*others, f"{name}.py"]) == "files"
    assert len(place_word(others)) == len("files")


@pytest.mark.anyio
@pytest.mark.parametrize("question", ["How are payments retried?", "Why are payments retried in January?"])
async def test_quotes_of_code_are_not_said_to_be_notes(ask, question):
    """An answer that quotes code says `files`, also if part of the question is mentioned nowhere."""
    answer = (await ask(question, notes=CODE)).response.answer
    assert "src/pay.py" in answer
    assert "notes" not in answer.partition("\n")[0]


@pytest.mark.anyio
async def test_quotes_of_notes_are_said_to_be_notes(ask):
    """An answer that quotes only notes keeps calling them notes."""
    assert (await ask("Why was the cache removed?")).response.answer.startswith("The notes say")
