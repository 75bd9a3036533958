"""Quotes of code on a terminal: shown once."""

from run_specialist.views.markdown import without_quotes

LOOP = "for attempt in range(3):\n            try:\n                return 1"


def test_a_quote_of_code_in_the_answer_is_not_repeated():
    """A fence that evidence repeats is left out, in any length of fence; other code stays."""
    answer = f"The files say:\n\n`a.py:3`\n```py\n        {LOOP}\n```\n\nAnd:\n\n````py\nother()\n````"
    assert without_quotes(answer, [("a.py:3", LOOP)]) == "The files say:\n\nAnd:\n\n````py\nother()\n````"
    assert without_quotes(answer, [("b.py:3", LOOP)]) == answer
