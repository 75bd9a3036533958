"""Replies that answer with and without quotes, for the tests of founded answers."""

from run_specialist import prompts
from tests.scripted_provider import calls

READ = {"source": "1", "quote": "note on '1'"}
INVENTED = {"source": "x:1", "quote": "owls  read\nbooks"}
WITHOUT = prompts.without_quote([])


def responds(answer="yes", *quotes, first_id=50, **fields):
    """Make a turn that responds with some quotes."""
    return calls(("respond", {"answer": answer, "evidence": list(quotes), **fields}), first_id=first_id)


def beside(*quotes, first_id=20, answer="early"):
    """Make a turn that responds between two other calls."""
    respond = ("respond", {"answer": answer, "evidence": list(quotes)})
    return calls(("look", {"query": "a"}), respond, ("look", {"query": "b"}), first_id=first_id)
