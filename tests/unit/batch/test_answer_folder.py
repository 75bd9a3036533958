"""Answers as files for a specialist that brings them together."""

import stat

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.answer_file import AnswerFolder
from run_specialist.record.outcome import Evidence
from tests.unit.batch.item_sources import INPUTS, done


def test_each_answer_is_a_file(tmp_path):
    """With its input, state, answer, quotes and gaps."""
    quotes = (Evidence("a.md:3", "one\ntwo", verified=True), Evidence("b.md:1", "x", None))
    folder = AnswerFolder(tmp_path / "answers")
    path = folder.add(done(3, {"path": "docs/How it Works.md", "n": 2}, evidence=quotes, gaps=("the\ndate",)))
    assert path.name == "00003-docs-how-it-works-md.md"
    assert path.read_text() == (
        "# Item 3: docs/How it Works.md\n\nState: landed  \nRun: b1-3\n\n"
        "## Input\n\n- path: docs/How it Works.md\n- n: 2\n\n## Answer\n\nSo.\n\n"
        "## Quotes\n\n> one\n> two\n>\n> a.md:3 (found in what was read)\n\n> x\n>\n> b.md:1 (not looked up)\n\n"
        "## Gaps\n\n- the date\n"
    )


def test_the_index_and_the_question(tmp_path):
    """All answers by number, the counts, and the question that was asked."""
    folder = AnswerFolder(tmp_path)
    for number in (2, 1):
        folder.add(done(number, f"Text {number}", status="answered"))
    folder.add(done(3, "Text 3", status="failed"))
    question = folder.finish("owls", "What does {item} say?\nWhy?")
    index = (tmp_path / "index.md").read_text()
    assert index == (
        "# 3 answers of the specialist owls\n\n2 answered, 1 failed\n\n"
        "The question about each item was:\n\n> What does {item} say?\n> Why?\n\n"
        "- [00001-text-1.md](00001-text-1.md): answered: Text 1\n"
        "- [00002-text-2.md](00002-text-2.md): answered: Text 2\n"
        "- [00003-text-3.md](00003-text-3.md): failed: Text 3\n"
    )
    assert "3 answers of the specialist `owls`" in question
    assert "2 answered, 1 failed" in question
    assert "> What does {item} say?" in question
    assert "Bring the answers together into one" in question
    assert "Each item was its own question.\n\nBring" in folder.finish("owls", None)


def test_files_of_an_earlier_call_are_replaced(tmp_path):
    """Other files are not touched, and other users cannot read the folder."""
    AnswerFolder(tmp_path / "answers").add(done(1, "old"))
    (tmp_path / "answers" / "mine.md").touch()
    AnswerFolder(tmp_path / "answers").add(done(1, "new"))
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == ["00001-new.md", "mine.md"]
    assert stat.S_IMODE((tmp_path / "answers").stat().st_mode) == 0o700


@given(INPUTS, st.text(max_size=30))
def test_any_input_and_answer(tmp_path_factory, given_input, answer):
    """The name is plain, and the file is text."""
    folder = AnswerFolder(tmp_path_factory.mktemp("answers"))
    path = folder.add(done(12345678, given_input, answer=answer))
    folder.finish("owls", "?")
    assert path.name.isascii()
    assert path.name.startswith("12345678-")
    assert len(path.name) <= 60
    assert path.parent == folder.folder
    assert b"\0" not in path.read_bytes()
    assert (folder.folder / "index.md").read_text().count("\n- [") == 1
