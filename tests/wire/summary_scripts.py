"""Scripts and transcripts of runs that summarize."""

import math

from run_specialist.tools.base import Tool
from tests.wire.simulator.replies import calls, says
from tests.wire.specialists import DONE, batches, note, noting
from tests.wire.usage import used

NOTES = says("- owls eat mice (n.md:1)")
LONG = Tool("look", "Looks.", lambda query: f"{note(query)} {'x' * 19_000}")
"""A tool with results of nearly 5,000 tokens: the third one exceeds `summarize_at` in SMALL."""


SMALL = ("preset: finalize", "summarize_at: 12000")


def summarized(execution_id):
    """Return the placeholder for an archived output."""
    return f"SUMMARIZED executionId:'{execution_id}'"


def ids(request):
    """Return the ids of a reply's calls, in order."""
    return [block["id"] for block in request.content if block["type"] == "tool_use"]


def estimate(request, after):
    """Return the estimated tokens of the next request: the last usage plus a quarter of the characters since."""
    (usage,) = used([request])
    return usage.total_tokens + math.ceil(sum(map(len, after)) / 4)


def reading(target, offsets, *, noted=True):
    """Return a policy that looks up three things, reads an archived output, responds, and if `noted` summarizes."""
    script = iter([*batches(1, 1, 1), *offsets])

    def policy(request):
        step = next(script, None)
        if step is None:
            return DONE
        if isinstance(step, int):
            return calls("get_tool_response", {"execution_id": target(request), **({"offset": step} if step else {})})
        return step

    return noting(NOTES, policy) if noted else policy


def first_id(request):
    """Return the id of the first call in a request."""
    return request.messages[1]["content"][0]["id"]
