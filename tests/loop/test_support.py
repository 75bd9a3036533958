"""Sentences of an answer held against its evidence."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.cli.answer import print_rendered_answer
from run_specialist.cli.tables import summary
from run_specialist.loop.support import sentences, support_of
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Evidence, Outcome, Support, ToolCalls
from run_specialist.tools.delegate import outcome_text
from run_specialist.views.markdown import answer_html, with_doubts

NOTE = Evidence(
    "notes/2026-11-22/limits.md:12",
    "Since 22 November the pool has 1,500 connections, not three: `PoolSize` in src/pool_size.py, RFC 9110, Postgres.",
    verified=True,
)
OTHER = Evidence("owls.md:3", "Owls eat mice.", verified=True)


@pytest.mark.parametrize(
    ("sentence", "missing"),
    [
        ("The pool has 1500 connections [1].", ()),
        ("It had 3 on 2026-11-22, as `PoolSize` says [1].", ()),
        ("On November 22, 2026 it was set in pool_size.py (limits.md) [1].", ()),
        ("According to RFC 9110 the Postgres pool grew [1].", ()),
        ("The Zebra pool is what was asked about [1].", ()),
        ("The pool has 150 connections [1].", ("150",)),
        ("The pool of Redis has 25 [1].", ("Redis", "25")),
        ("It is `MaxPool` in src/max_pool.py [1].", ("MaxPool", "src/max_pool.py")),
        ("Owls eat mice, and [the pool](https://example.com/99) has 1,500 [2][1].", ()),
        ("The pool has 1,500 connections [2].", ("1,500",)),
        ("The pool has 1,500 connections [7].", ("1,500",)),
        ("The pool has 1,500 connections.", ()),
    ],
)
def test_g11_facts_are_looked_up_in_the_cited_lines(sentence, missing):
    """Numbers, dates, identifiers, files and names must occur in the cited lines, their source or the question."""
    (one,) = support_of(sentence, (NOTE, OTHER), "What about Zebra?")
    assert one.missing == missing
    assert one.sentence == sentence
    assert one.is_borne_out is (not missing)


def test_g11_a_sentence_without_facts_and_marks_is_not_judged():
    """Words that claim nothing that could be looked up are neither borne out nor doubtful; nor is anything offline."""
    assert support_of("In short, it grew. That is all.", (NOTE,), "") == ()
    assert support_of("It has 25 connections.", (Evidence("a:1", "x", verified=False),), "") == ()


def test_g11_the_sentences_of_a_markdown_answer():
    """Items, rows and paragraphs are split into sentences; headings, quotations and code are left out."""
    answer = (
        "# The limits of 2026\n\nThe pool has 25 [1]. It grew, e.g. in May, to\n30 (see `a.b`). [2] Why?\n\n"
        "- **Size.** It is 5\n- v1.2 has none\n\n> A quotation of 9.\n\n```\ncode 7.\n```\n"
        "| Pool | 4 |\n|---|---|\nThe end"
    )
    assert [*sentences(answer)] == [
        "The pool has 25 [1].",
        "It grew, e.g. in May, to\n30 (see `a.b`). [2]",
        "Why?",
        "**Size.**",
        "It is 5",
        "v1.2 has none",
        "Pool | 4 |",
        "The end",
    ]


@given(st.text(st.characters() | st.sampled_from("..!?[1] \n`*|#>-A9"), max_size=300))
def test_g11_every_sentence_is_a_part_of_the_answer_in_order(answer):
    """Whatever the answer, each sentence stands in it, one after the other, and nothing raises."""
    at = 0
    for sentence in sentences(answer):
        at = answer.index(sentence, at) + len(sentence)
    support_of(answer, (NOTE,), answer[:50])


# Where it is seen.

ANSWER = "The pool has 1,500 [1]. It had **25** in *May* [1].\n\n- Redis | Zebra [1]\n- `MaxPool` is new"
DOUBTFUL = ["It had **25** in *May* [1]. (not there: 25, May)", "`MaxPool` is new (not there: MaxPool)"]


def shown() -> Outcome:
    """Return an outcome with two sentences that its evidence bears out, and two others."""
    support = support_of(ANSWER, (NOTE,), "Redis? Zebra?")
    calls = ToolCalls(used=2, limit=9, failed=0, skipped=0)
    fields = {"evidence": (NOTE,), "gaps": (), "output": None, "limits": {}, "landing": None, "cost_usd": None}
    return Outcome(
        "r", "looker", "m", "answered", ANSWER, tool_calls=calls, usage=Usage(), duration_s=1.0, warnings=(),
        support=support, **fields,
    )  # fmt: skip


def test_g11_the_parent_reads_what_is_not_borne_out():
    """The text for a parent lists each such sentence with what it lacks; the summary counts the others."""
    outcome = shown()
    assert [*map(str, outcome.doubtful)] == [one.replace("**", "") for one in DOUBTFUL]
    assert "Not borne out by what was read:\n- It had 25" in outcome_text(outcome)
    assert "borne out: 2 of 4 sentences" in summary(outcome)
    assert "- not borne out by what was read: It had 25" in outcome._repr_markdown_()


def test_g11_pages_mark_what_is_not_borne_out():
    """In HTML such a sentence has a class of its own and a question mark; the list below says what it lacks."""
    html = answer_html(json.loads(json.dumps(shown().as_json())))
    assert '<span class="doubt">It had <strong>25</strong> in <em>May</em> [1].<b>?</b></span>' in html
    assert '<span class="doubt"><code>MaxPool</code> is new<b>?</b></span>' in html
    assert html.count("<li>") == 2
    assert "⸢" not in html


def test_g11_an_answer_with_the_signs_of_the_program_is_not_marked():
    """Signs that the answer has itself stay what they are, and mark nothing."""
    text = "The pool ⸢has⸣ 25 [1]."
    (one,) = support_of(text, (NOTE,), "")
    assert not one.is_borne_out
    assert with_doubts(text, [one]) == text
    assert "｢has｣" in answer_html({"text": text, "evidence": [], "support": [asdict(one)]})
    assert with_doubts("a 25. a 25.", [Support("a 25.", (), ("25",))] * 2) == "⸢a 25.⸣ ⸢a 25.⸣"


def test_g11_the_terminal_shows_a_question_mark(capsys):
    """On a terminal the sentence ends with `?`, the quotes have the numbers that the marks name, the rest is listed."""
    print_rendered_answer(shown(), alone=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "It had 25 in May [1]. ? • Redis | Zebra [1] • MaxPool is new ?" in text.replace("`", "")
    assert "[1] notes/2026-11-22/limits.md:12" in text
    assert "Not borne out by what was read" in text
