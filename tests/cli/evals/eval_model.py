"""A simulated model for the tests of `eval`: it searches once, answers with a quote, and judges by one word."""

import json
from collections.abc import Callable
from typing import Any

from typer.testing import Result

from tests.cli.map.map_model import item_of
from tests.wire.simulator.replies import Reply, calls, respond, says
from tests.wire.simulator.script import Answer, Recorded

QUOTES = {"owls": "Owls eat mice at night.", "toads": "Toads sleep in winter."}


def looks(request: Recorded) -> Answer:
    """Search once, then answer with the line of the note about the item; accept an answer that contains `mice`."""
    if is_judge(request):
        return verdict("mice" in str(request.messages[0]["content"]).partition("<rubric>")[0])
    item = item_of(request)
    if request.calls_so_far < 1:
        return calls("search", {"query": item})
    return quoting(item)


def quoting(item: str) -> Reply:
    """Return the answer about an item, with its quote."""
    return says(respond(QUOTES[item], evidence=[{"source": f"notes/{item}.md:3", "quote": QUOTES[item]}]))


def is_judge(request: Recorded) -> bool:
    """Return whether a request is that of a judge."""
    return "<rubric>" in str(request.messages[0]["content"])


def verdict(passes: bool) -> Reply:
    """Return the reply of a judge."""
    return says(respond({"reason": "it names mice" if passes else "no mice", "verdict": "pass" if passes else "fail"}))


def policy(special: Callable[[Recorded], Answer | None]) -> Callable[[Recorded], Answer]:
    """Return a model with different answers to some requests."""
    return lambda request: special(request) or looks(request)


def runs_of(result: Result) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return the runs of `--json` by case, variant and repeat."""
    return {(run["case"], run["variant"], run["repeat"]): run for run in json.loads(result.stdout)["runs"]}
