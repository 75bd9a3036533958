"""Quotes of code on a terminal: shown once, with the indentation of their block."""

import pytest

from run_specialist.cli.answer import _dedented
from run_specialist.views.markdown import without_quotes

LOOP = "for attempt in range(3):\n            try:\n                return 1"


@pytest.mark.parametrize(
    ("quote", "shown"),
    [
        (LOOP, "for attempt in range(3):\n    try:\n        return 1"),
        ("first = 1\n    second = 2", "first = 1\nsecond = 2"),
        ("if (a) {\n      b()\n\n  }", "if (a) {\n    b()\n\n}"),
        ("for a in b:\n        try:\n            c()\n    raise d", "for a in b:\n    try:\n        c()\nraise d"),
        ("def a():\n    b()\n    c()", "def a():\n    b()\n    c()"),
        ("if a\n    b()\n  end", "if a\n  b()\nend"),
        ("one line", "one line"),
        ("a\n\n    b\n  c", "a\n\n  b\nc"),
    ],
)
def test_the_block_has_its_indentation(quote, shown):
    """The lines after the first one lose what the first one lost; relative indentation stays."""
    assert _dedented(quote) == shown


def test_a_quote_of_code_in_the_answer_is_not_repeated():
    """A fence that evidence repeats is left out, in any length of fence; other code stays."""
    answer = f"The files say:\n\n`a.py:3`\n```py\n        {LOOP}\n```\n\nAnd:\n\n````py\nother()\n````"
    assert without_quotes(answer, [("a.py:3", LOOP)]) == "The files say:\n\nAnd:\n\n````py\nother()\n````"
    assert without_quotes(answer, [("b.py:3", LOOP)]) == answer
