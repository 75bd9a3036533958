"""Lone surrogates in JSON messages."""

import json

import pytest

from run_specialist.tools.mcp import replace_lone_surrogates


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'"plain"', "plain"),
        (rb'"\u4e2d\u00e9\n"', "\u4e2d\u00e9\n"),
        (rb'"\ud83d\uDE00"', "\U0001f600"),
        (rb'"cut \ud83d"', "cut \ufffd"),
        (rb'"\uDE00 cut"', "\ufffd cut"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\ud83d\u0041"', "\ufffdA"),
        (rb'"\\ud83d"', r"\ud83d"),
        (rb'"\\\ud83d"', "\\\ufffd"),
    ],
)
def test_only_lone_surrogates_are_replaced(line, text):
    """Lone surrogates are replaced; pairs, other escapes and escaped backslashes stay unchanged."""
    assert json.loads(replace_lone_surrogates(line)) == text
