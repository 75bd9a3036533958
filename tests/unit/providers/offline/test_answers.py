"""Answers of the offline provider: verbatim quotes with their line, or a statement that nothing was found."""

import re

import pytest

from tests.unit.providers.offline.code_project import LOOP, PROJECT


def quotes_hold(root, finished):
    """Assert that each quote is at the place named as its source, and in the answer."""
    for item in finished.outcome.evidence:
        path, _, line = item.source.rpartition(":")
        lines = (root / path).read_text().split("\n")
        rest = "\n".join(lines[int(line) - 1 :])
        assert item.quote in rest
        assert item.quote.split("\n")[0] in lines[int(line) - 1]
        assert f'> "{item.quote}" — {item.source}' in finished.outcome.answer


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("question", "fact", "source"),
    [
        ("Why did we get rid of the cache?", "stale entries broke logins", "notes/cache.md:7"),
        ("Which PostgreSQL version did we settle on, and why not a newer one?", "16 (not 17)", "database.md:5"),
        ("When did release 2.4 go out?", "2024-03-11", "notes/release.md:3"),
        ("How many connections does the pool hold?", "md:5 give different numbers.", "notes/pool.md:1 and notes/2024"),
        ("summarise the cache", "stale entries", "notes/cache.md"),
        ("Which release went out in March?", "2024-03-11", "notes/release.md:3"),
    ],
)
async def test_the_fact_is_quoted_with_its_line(ask, root, question, fact, source):
    """The answer and its evidence contain the fact verbatim, with path and line."""
    finished = await ask(question)
    assert fact in finished.outcome.answer
    assert source in finished.outcome.answer
    assert finished.outcome.evidence
    quotes_hold(root, finished)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What did we decide about running the importer on Zookeeper?", "Zookeeper"),
        ("who is on the pagerduty rotation?", "pagerduty"),
        ("Is `tool_choice` forced?", "tool_choice"),
    ],
)
async def test_a_word_that_is_in_no_note_is_reported_as_missing(ask, question, word):
    """If a word is in no note, the answer names it, quotes nothing and lists it as a gap."""
    finished = await ask(question)
    assert re.match(rf"The files hold nothing on .*{word}", finished.outcome.answer)
    assert finished.outcome.evidence == ()
    assert word in finished.outcome.gaps


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("question", ["???", "—", "How many?", "the of and"])
async def test_a_question_without_content_is_answered_as_such(ask, question):
    """For a question without searchable content the answer says so and the run ends after a few calls."""
    finished = await ask(question)
    assert re.search(r"nothing|not", finished.outcome.answer)
    assert len(finished.calls) <= 12


async def test_the_relevant_sentence_of_a_long_line_is_quoted(ask, root):
    """In a line of thousands of characters the relevant sentence is quoted, not the beginning of the line."""
    text = (
        "Nothing of note happened. " * 80 + "The frobnicator was retired because it overheated. " + "And so on. " * 80
    )
    finished = await ask("Why was the frobnicator retired?", notes={"notes/long.md": f"# Log\n\n{text}\n"})
    assert "The frobnicator was retired because it overheated." in finished.outcome.answer
    quotes_hold(root, finished)


async def test_a_wrapped_sentence_is_quoted_completely(ask, root):
    """A sentence wrapped over two lines is quoted completely, with the line where it begins."""
    note = "# Sync\n\nThe replicator stopped twice, because the\nclock of the second host was wrong.\n"
    finished = await ask("Why did the replicator stop?", notes={"notes/sync.md": note})
    assert "because the\nclock of the second host was wrong" in finished.outcome.answer
    quotes_hold(root, finished)


async def test_a_table_row_is_quoted_with_its_content(ask, root):
    """The row of a table is quoted, and not only its header, which has no answer."""
    table = "| Job | Retry limit |\n|---|---|\n| import | 3 |\n| export | 9 |\n"
    finished = await ask("What is the retry limit of the export job?", notes={"notes/jobs.md": f"# Jobs\n\n{table}"})
    assert "| export | 9 |" in finished.outcome.evidence[0].quote
    quotes_hold(root, finished)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    "tools", [("search",), ("grep",), ("grep", "read"), ("glob", "read"), ("search", "read", "grep")], ids=str
)
async def test_any_subset_of_the_file_tools_works(ask, root, tools):
    """The provider works with any subset of the file tools."""
    finished = await ask("Why was the cache removed?", tools=tools)
    assert "stale entries" in finished.outcome.answer
    assert {call.name for call in finished.calls} <= set(tools)
    quotes_hold(root, finished)


async def test_without_tools_the_answer_says_that_nothing_was_looked_up(ask):
    """With no tool but `respond` the provider answers immediately that nothing was looked up."""
    finished = await ask("Why was the cache removed?", tools=())
    assert finished.calls == []
    assert finished.outcome.answer == "Nothing could be looked up, so no file has a word in this answer."


def lines_hold(root, finished):
    """Assert that each quote consists of the lines at its source, and is in the answer, within the limits."""
    assert len(finished.outcome.answer) <= 1500
    assert len(finished.outcome.evidence) <= 8
    for item in finished.outcome.evidence:
        path, _, line = item.source.rpartition(":")
        lines = (root / path).read_text().split("\n")[int(line) - 1 :]
        assert item.quote.strip() in "\n".join(lines)
        assert item.quote.strip().split("\n")[0] in lines[0]
        assert item.quote in finished.outcome.answer
        assert len(item.quote) <= 400


async def test_how_payments_are_retried_quotes_the_loop(ask, root):
    """The loop is the first quote, in a fence, although README, changelog and a test speak of it in the same words."""
    finished = await ask("How are payments retried?", notes=PROJECT)
    first = finished.outcome.evidence[0]
    assert (first.source, first.quote.strip()) == ("shop/gateway.py:31", LOOP.strip())
    assert f"\n`shop/gateway.py:31`\n```py\n{LOOP}\n```\n" in finished.outcome.answer
    lines_hold(root, finished)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("question", "source", "text"),
    [
        ("How is the shipping computed?", "web/cart.js:17", "return RATES[country] * cart.weight;"),
        ("When do items in the cart expire?", "web/cart.js:8", "this.remove(item);"),
        ("Where are signatures verified?", "web/server.go:3", "return errBadSignature"),
        ("What happens when a hook is received?", "web/cart.js:24", "queue.push(request.body);"),
    ],
)
async def test_the_body_of_a_function_is_quoted_in_other_languages(ask, root, question, source, text):
    """Functions are found by the parts of their names, whatever the language."""
    finished = await ask(question, notes=PROJECT)
    assert finished.outcome.evidence[0].source == source
    assert text in finished.outcome.evidence[0].quote
    lines_hold(root, finished)


@pytest.mark.exhaustive
async def test_a_quote_combines_no_two_results(ask):
    """Each quote is in one result as a whole, or the loop could not verify it."""
    steps = "".join(f"    if step == {number}:\n        run_step({number})\n" for number in range(80))
    finished = await ask("How is a step of the plan run?", notes={"plan.py": f"def run_plan(step):\n{steps}"})
    shown = [" ".join(line.partition("\t")[2] for line in result.split("\n")) for result in finished.results]
    shown += [" ".join(line.split(": ", 1)[-1] for line in result.split("\n")) for result in finished.results]
    assert finished.outcome.evidence
    for item in finished.outcome.evidence:
        assert any(" ".join(item.quote.split()) in " ".join(result.split()) for result in shown)
