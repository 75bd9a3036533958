"""Predefined models: functions of the request that return replies without end."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.wire.structured_outputs import written

from .replies import Reply, respond, says, tool_use
from .script import Policy, Recorded

Arguments = Callable[[int], Mapping[str, Any]]
"""Make a call's arguments from its number in the conversation, counted from 0."""


def numbered(call: int) -> Mapping[str, Any]:
    """Return arguments that differ from call to call."""
    return {"query": f"question {call}"}


def ordered_to_respond(request: Recorded) -> bool:
    """Tell whether the prompt's last line asks for `respond`, as the order of a landing does."""
    return "respond" in request.last_line


def always_tool(
    name: str,
    arguments: Arguments = numbered,
    *,
    calls_per_turn: int = 1,
    answer: str = "what was found",
    obeys: Callable[[Recorded], bool] = ordered_to_respond,
) -> Policy:
    """Play a model that calls a tool for ever, and obeys `tool_choice` and what `obeys` takes for an order."""

    def policy(request: Recorded) -> Reply:
        ended = _ordered_to_end(request, answer, obeys)
        return ended or _turn(request, _named(request) or name, arguments, calls_per_turn)

    return policy


def works_then_answers(name: str, *, calls: int, calls_per_turn: int = 1) -> Policy:
    """Play a model that makes this many calls and then responds by itself, or earlier when ordered to."""

    def policy(request: Recorded) -> Reply:
        ended = _ordered_to_end(request, "what was found", ordered_to_respond)
        if ended is not None:
            return ended
        named, left = _named(request), calls - request.calls_so_far
        if left <= 0 and named is None:
            return _answer(request, "what was found")
        return _turn(request, named or name, numbered, max(1, min(calls_per_turn, left)))

    return policy


def ignores_everything(name: str, *, calls_per_turn: int = 1) -> Policy:
    """Play a local server that calls a tool whatever the request says, `tool_choice` included."""

    def policy(request: Recorded) -> Reply:
        return _turn(request, name, numbered, calls_per_turn)

    return policy


def _ordered_to_end(request: Recorded, answer: str, obeys: Callable[[Recorded], bool]) -> Reply | None:
    choice = request.tool_choice or {"type": "auto"}
    if request.schema is not None:
        return says(json.dumps(written(request.schema, answer)))
    if choice["type"] == "none":
        return says(answer)
    if choice["type"] == "tool" and choice["name"] != "respond":
        return None
    if choice["type"] in ("tool", "any") or obeys(request):
        return _answer(request, answer)
    return None


def _named(request: Recorded) -> str | None:
    return (request.tool_choice or {}).get("name")


def _answer(request: Recorded, answer: str) -> Reply:
    return says(respond(answer)) if "respond" in request.tool_names else says(answer)


def _turn(request: Recorded, name: str, arguments: Arguments, count: int) -> Reply:
    first = request.calls_so_far
    return says(*(tool_use(name, arguments(first + extra)) for extra in range(count)))
