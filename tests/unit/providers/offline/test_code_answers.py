"""Offline answers about code: the function itself is quoted, before the prose that speaks of it."""

import pytest

from tests.unit.providers.offline.code_project import LOOP, PROJECT

pytestmark = pytest.mark.anyio


def lines_hold(root, finished):
    """Assert that each quote consists of the lines at its source, and is in the answer, within the limits."""
    assert len(finished.response.answer) <= 1500
    assert len(finished.response.evidence) <= 8
    for item in finished.response.evidence:
        path, _, line = item.source.rpartition(":")
        lines = (root / path).read_text().split("\n")[int(line) - 1 :]
        assert item.quote.strip() in "\n".join(lines)
        assert item.quote.strip().split("\n")[0] in lines[0]
        assert item.quote in finished.response.answer
        assert len(item.quote) <= 400


async def test_how_payments_are_retried_quotes_the_loop(ask, root):
    """The loop that retries is the first quote, although README, changelog and a test speak of it in the same words."""
    finished = await ask("How are payments retried?", notes=PROJECT)
    first = finished.response.evidence[0]
    assert (first.source, first.quote.strip()) == ("shop/gateway.py:31", LOOP.strip())
    lines_hold(root, finished)


@pytest.mark.exhaustive(one_in=3)
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
    assert finished.response.evidence[0].source == source
    assert text in finished.response.evidence[0].quote
    lines_hold(root, finished)


async def test_a_quote_of_code_is_shown_in_a_fence(ask):
    """Lines of code keep their breaks and indentation in the answer, below their source."""
    finished = await ask("How are payments retried?", notes=PROJECT)
    assert f"\n`shop/gateway.py:31`\n```py\n{LOOP}\n```\n" in finished.response.answer


async def test_a_fence_in_the_code_does_not_end_the_quote(ask):
    """The fence of a quote is longer than those in the code."""
    code = 'def mark_widgets(widgets):\n    for widget in widgets:\n        print("```", widget)\n'
    finished = await ask("How are widgets marked?", notes={"marks.py": code})
    assert f"````py\n{code.rstrip()}\n````" in finished.response.answer


async def test_why_is_answered_by_comments_and_prose(ask, root):
    """The reason is quoted before the statements: they only say how."""
    finished = await ask("Why are payments retried with the same key?", notes=PROJECT)
    assert "because the gateway would charge it twice" in finished.response.evidence[0].quote
    lines_hold(root, finished)


async def test_a_question_about_notes_is_answered_from_notes_beside_code(ask):
    """Code in the project does not hide the notes, which alone know the answer."""
    finished = await ask("Why did we get rid of the cache?", notes=PROJECT)
    assert "stale entries broke logins" in finished.response.evidence[0].quote


async def test_what_no_code_does_is_reported_as_missing(ask):
    """If no file mentions the subject, nothing is quoted."""
    finished = await ask("How are Kubernetes pods scaled?", notes=PROJECT)
    assert finished.response.evidence == []
    assert "Kubernetes" in finished.response.gaps


async def test_a_quote_combines_no_two_results(ask):
    """Each quote is in one result as a whole, or the loop could not verify it."""
    steps = "".join(f"    if step == {number}:\n        run_step({number})\n" for number in range(80))
    finished = await ask("How is a step of the plan run?", notes={"plan.py": f"def run_plan(step):\n{steps}"})
    shown = [" ".join(line.partition("\t")[2] for line in result.split("\n")) for result in finished.results]
    shown += [" ".join(line.split(": ", 1)[-1] for line in result.split("\n")) for result in finished.results]
    assert finished.response.evidence
    for item in finished.response.evidence:
        assert any(" ".join(item.quote.split()) in " ".join(result.split()) for result in shown)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("limit", range(1, 5))
async def test_a_small_limit_still_quotes_code(ask, root, limit):
    """With few calls the answer is made of what the first searches show."""
    finished = await ask("How are payments retried?", notes=PROJECT, limit=limit)
    assert any(item.source.startswith("shop/gateway.py") for item in finished.response.evidence)
    lines_hold(root, finished)


async def test_definitions_are_looked_up_by_their_names(ask):
    """One call finds the definitions whose names contain a word of the question, if there is code at all."""
    before = await ask("How is the cache removed?")
    assert "grep" not in [call.name for call in before.calls]
    finished = await ask("How are payments retried?", notes=PROJECT)
    looked_up = [call.arguments for call in finished.calls if call.name == "grep"]
    assert [(given["glob"], "retr" in given["pattern"]) for given in looked_up] == [("*.py", True)]
