"""Scripted replies of traced runs."""

from run_specialist.providers.scripted import calls

LOOKS = calls(("look", {"query": "a"}))
ANSWER = calls(("respond", {"answer": "mice"}), first_id=99)
