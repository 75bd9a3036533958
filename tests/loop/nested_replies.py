"""Scripted replies of specialists that call each other."""

from tests.scripted_provider import calls


def asks(*whom: str, first_id: int = 1):
    """Make a reply that asks specialists, each what it is to find."""
    return calls(*(("delegate", {"specialist": name, "query": f"What of {name}?"}) for name in whom), first_id=first_id)


def looks(*words: str, first_id: int = 1):
    """Make a reply that looks things up."""
    return calls(*(("look", {"query": word}) for word in words), first_id=first_id)


def answers(text: str):
    """Make a reply that ends a run."""
    return calls(("respond", {"answer": text}), first_id=90)
