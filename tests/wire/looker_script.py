"""The scripted replies of the specialist `looker`, and the tools of a listing."""

from tests.scripted_provider import calls

LOOKS = calls(("look", {"query": "owls"}))
FOUND = calls(
    ("respond", {"answer": "Mice.", "evidence": [{"source": "x", "quote": "note on 'owls', part 0"}]}), first_id=9
)
HOLDS = calls(("hold", {}))


def listed(result) -> dict:
    """Return the tools of a listing by name."""
    return {tool.name: tool for tool in result.tools}
