"""Scripted replies of traced runs."""

from tests.scripted_provider import calls

LOOKS = calls(("look", {"query": "a"}))
ANSWER = calls(("respond", {"answer": "mice"}), first_id=99)
