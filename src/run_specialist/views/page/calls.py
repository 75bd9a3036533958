"""The turns of a run with their tool calls, and each result as the model received it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from run_specialist import prompts
from run_specialist.record.blocks import Block
from run_specialist.store.stored import StoredCall, StoredRun, StoredTurn
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.formats import MOST_CHARACTERS, brief, pretty
from run_specialist.views.page.quotes import parted
from run_specialist.views.page.shown_results import ShownResult, results

BRIEF = 160
"""Maximum length of the arguments in a call's heading [characters]."""

_UNFINISHED = prompts.STOPPED.partition(":")[0]


def turns(
    run: StoredRun,
    axis: Axis,
    marks: Sequence[Mapping[str, Any]],
    holders: Sequence[StoredCall | None],
    child_ids: Mapping[int, str],
) -> list[dict[str, Any]]:
    """Return the turns in order, each with the marks before it, the model's text, and its calls.

    holders: for each piece of evidence, the call whose result contains it.
    child_ids: ids of child runs by the number of the `delegate` call.
    """
    shown = results(run)
    quotes: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for number, (holder, one) in enumerate(zip(holders, (run.outcome or {}).get("evidence", ()), strict=False), 1):
        if holder is not None:
            quotes[holder.number].append((number, str(one["quote"])))
    executed: defaultdict[int, list[StoredCall]] = defaultdict(list)
    for call in run.calls:
        executed[call.turn].append(call)
    return [
        {
            "number": turn.number,
            "begin": axis(turn.at - turn.seconds),
            "seconds": turn.seconds,
            "choice": turn.choice,
            "landing": turn.landing,
            "stop": turn.stop,
            "reason": turn.reason,
            "text": turn.reply.text,
            "copied": turn.number <= (run.forked_at or 0),
            "before": [mark for mark in marks if mark["before"] == turn.number],
            "calls": [
                {**call, "child": child_ids.get(call["number"])}
                for call in _calls(turn, executed[turn.number], shown, quotes)
            ],
        }
        for turn in run.turns
    ]


def _calls(
    turn: StoredTurn,
    executed: Iterable[StoredCall],
    shown: Mapping[tuple[int, int], ShownResult],
    quotes: Mapping[int, Sequence[tuple[int, str]]],
) -> Iterator[dict[str, Any]]:
    """Yield the calls of a turn: the executed ones, and the others with the result that the model received."""
    unmatched = list(executed)
    blocks = [block for block in turn.blocks if block.get("type") == "tool_use"]
    for position, (block, call) in enumerate(zip(blocks, turn.calls, strict=True)):
        # Completed calls are stored in call order; interrupted ones are not stored.
        stored = next((one for one in unmatched if one.call == call), None)
        result = shown.get((turn.number, position))
        common = {"name": call.name, "call_id": call.id, **_arguments(block)}
        if stored is None:
            yield {"anchor": f"{turn.number}-{position + 1}", **common, **_not_run(call.name, result)}
        else:
            unmatched.remove(stored)
            yield {"anchor": str(stored.number), **common, **_run(stored, result, quotes.get(stored.number, ()))}


def _arguments(block: Block) -> dict[str, str]:
    arguments = block.get("input")
    return {"arguments": pretty(arguments), "brief": brief(arguments, BRIEF)}


def _run(call: StoredCall, shown: ShownResult | None, quotes: Sequence[tuple[int, str]]) -> dict[str, Any]:
    notes = [prompts.TRUNCATED, prompts.SAME_CALL, *call.note.split("\n")]
    content, added = (shown or ShownResult(call.text)).parted(call.text, notes)
    ending = next((line for line in reversed(added) if shown is None or line != shown.instruction), "")
    return {
        "number": call.number,
        "state": "failed" if call.is_error else "finished",
        "repeated": call.repeated,
        "seconds": call.seconds,
        "characters": len(call.text),
        "whole": len(call.whole),
        "note": call.note,
        "ending": ending,
        "added": added,
        **_result(content, quotes),
    }


def _not_run(name: str, shown: ShownResult | None) -> dict[str, Any]:
    if shown is None:
        state = "answer" if name == RESPOND else "unfinished"
    elif name == RESPOND:
        state = "not taken" if shown.is_error else "answer"
    else:
        state = "unfinished" if shown.content.startswith(_UNFINISHED) else "skipped"
    return {
        "number": None,
        "state": state,
        "repeated": False,
        "seconds": None,
        "characters": None,
        "whole": None,
        "note": "",
        "ending": "",
        "added": [shown.instruction] if shown and shown.instruction else [],
        **_result(shown.content if shown else "", ()),
    }


def _result(content: str, quotes: Sequence[tuple[int, str]]) -> dict[str, Any]:
    return {"result": parted(content[:MOST_CHARACTERS], quotes), "left_out": max(len(content) - MOST_CHARACTERS, 0)}
