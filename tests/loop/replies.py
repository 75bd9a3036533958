"""Scripted replies and models of the tests of the loop; ids of calls must differ within a run."""

from run_specialist import prompts
from run_specialist.errors import ProviderError
from run_specialist.providers.choose import ModelChain
from tests.scripted_provider import ScriptedProvider, calls

GONE = ProviderError("the API answered 404: no such model", kind="model_missing")
READ = {"source": "1", "quote": "note on '1'"}
INVENTED = {"source": "x:1", "quote": "owls  read\nbooks"}
WITHOUT = prompts.without_quote([])


def looks(number, count=1):
    """Make a reply that looks up numbers, from the given one on."""
    return looks_for(*map(str, range(number, number + count)), first_id=number)


def looks_for(*words, first_id=1):
    """Make a reply that looks words up."""
    return calls(*(("look", {"query": word}) for word in words), first_id=first_id)


THREE = [looks(1), looks(2), looks(3)]


def asks(*whom, first_id=1):
    """Make a reply that asks specialists, each what it is to find."""
    return calls(*(("delegate", {"specialist": name, "query": f"What of {name}?"}) for name in whom), first_id=first_id)


def answers(text, first_id=90):
    """Make a reply that ends a run."""
    return calls(("respond", {"answer": text}), first_id=first_id)


ANSWER = answers("It is known.")


def responds(answer="yes", *quotes, first_id=50, **fields):
    """Make a reply that responds with some quotes."""
    return calls(("respond", {"answer": answer, "evidence": list(quotes), **fields}), first_id=first_id)


def beside(*quotes, first_id=20, answer="early"):
    """Make a reply that responds between two other calls."""
    respond = ("respond", {"answer": answer, "evidence": list(quotes)})
    return calls(("look", {"query": "a"}), respond, ("look", {"query": "b"}), first_id=first_id)


class Model(ScriptedProvider):
    """A scripted model with a name and a price of its own."""

    def __init__(self, name, script, price=1.0, **options):
        super().__init__(script, **options)
        self.model, self._price = name, price

    def cost(self, usage):
        """Return the price of so many cents a thousand tokens."""
        return self._price * usage.total_tokens / 100_000 if self.priced else None


def chained(*scripts, **options):
    """Return a chain of the models a, b, c, each twice as expensive as the one before."""
    first, *others = (
        Model(name, script, 2.0**number, **options)
        for number, (name, script) in enumerate(zip("abc", scripts, strict=False))
    )
    return ModelChain(first, others), [first, *others]
