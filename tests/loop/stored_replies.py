"""Scripted replies of runs that are stored and resumed."""

from tests.scripted_provider import calls

NO_LONGER = (
    "What is said above about a remaining or spent budget, about limits that are reached and about having to answer "
    "now no longer holds. Build on what was found above."
)
REFRESHED = (
    "The budget was refreshed: you now have 6 tool calls in all, of which 3 are used, so 3 tool calls remain. "
    f"{NO_LONGER}\nGo on with the question."
)
ANSWER = calls(("respond", {"answer": "It is known."}), first_id=90)


def looks(number, count=1):
    """Make a reply that looks something up; numbers differ within a run."""
    wanted = [("look", {"query": str(number + extra)}) for extra in range(count)]
    return calls(*wanted, first_id=number)


THREE = [looks(1), looks(2), looks(3)]


def everything(messages):
    """Return messages as they are sent."""
    return [message.encoded for message in messages]
