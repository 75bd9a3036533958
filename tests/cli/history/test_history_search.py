"""`specialists runs --search`: by words of questions and answers, on both databases."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from run_specialist.record.journal import Ended
from run_specialist.store.location import place
from run_specialist.store.writer import Writer
from tests.cli.history.commands import here, keep, on_terminal, run_of
from tests.cli.specialists_command import call
from tests.unit.store.finished_runs import write

LONG = "Where do owls nest? " * 200


def answered(run_id, question, answer, at, **frozen):
    """Return the records of a run with an answer."""
    records = run_of(run_id, at, question=question, frozen={**here(), **frozen})
    return [
        replace(one, outcome=replace(one.outcome, answer=answer)) if isinstance(one, Ended) else one for one in records
    ]


@pytest.fixture
def found(store, store_url):
    """Store runs, and return a function that searches them."""
    with closing(Writer(place(store_url))) as writer:
        write(
            writer,
            a=answered("a", "Why do OWLS hunt?", "At night, 100 % of Straße mice.", 1.0),
            b=answered("b", "Who eats mice_and_rats?", "Die Bären \\ und \0 \udcff Füchse.", 2.0),
            c=answered("c", LONG + "Under the roof?", "Nowhere. " * 400 + "Finally", 3.0),
            d=answered("d", "First?", "No.", 4.0, questions=["And the BADGERS?"]),
        )

    def search(words, *flags):
        told = json.loads(call("runs", "--search", words, "--json", "--store", store_url, *flags).stdout)
        return [run["run_id"] for run in told["runs"]]

    return search


def test_all_words_are_found_in_questions_and_answers(found):
    """Each word is in the question or in the answer, in any case and order, also at the end of long texts."""
    assert found("owls") == ["c", "a"]
    assert found("MICE hunt night") == ["a"]
    assert found("roof finally") == ["c"]
    assert found("badgers no") == ["d"]
    assert found("owls badgers") == []
    assert found("owls", "--limit", "1") == ["c"]
    assert found("owls", "--status", "failed") == []


def test_no_character_has_a_special_meaning(found):
    """Percent, underscore, backslash, quotes and characters that a database cannot hold stand for themselves."""
    assert found("%") == ["a"]
    assert found("o%ls") == []
    assert found("mice_") == ["b"]
    assert found("_") == ["b"]
    assert found("\\") == ["b"]
    assert found("\0") == found("\udcff") == ["b"]
    assert found("'") == found('"; drop') == []


def test_a_search_without_words_is_refused(store):
    """Empty words are refused instead of matching everything; a search that finds nothing says so."""
    keep(a=run_of("a"))
    refused = call("runs", "--search", "  ")
    assert (refused.exit_code, "no words to search for" in refused.stderr) == (2, True)
    assert "no matching runs of" in call("runs", "--search", "zebra").stderr
    selected = call("runs", "--delete", "--search", "zebra", "--yes")
    assert (selected.exit_code, "0 runs deleted" in selected.stderr) == (0, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("columns", [80, 200])
def test_matches_are_highlighted_on_a_terminal(store, columns):
    """The matches are highlighted in the question, in a column or below; nothing is with NO_COLOR."""
    keep(a=run_of("a", question="Why do owls hunt?"))
    shown, _ = on_terminal("runs", "--search", "OWLS why", columns=columns)
    assert shown.count("\x1b[1;33m") + shown.count("\x1b[33m\x1b[1m") == 2
    assert "\x1b" not in on_terminal("runs", "--search", "owls", columns=columns, NO_COLOR="1")[0].split("owls")[0]
