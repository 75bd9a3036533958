"""Write a cassette file: JSON with one line per message, call and tool; the same run always gives the same bytes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from run_specialist.record.messages import Message, Usage
from run_specialist.record.outcome import Child
from run_specialist.replay.cassette import Body, Cassette, Line, RecordedCall, UnansweredRequest
from run_specialist.replay.cassette_format import FORMAT, ONE_MODEL, VERSION_KEY
from run_specialist.replay.normalized import normalizer
from run_specialist.specialist.fields import Specialist

_NOT_KEPT = ("name", "description", "prompt", "path", "mcp_servers")
"""Settings that are stored elsewhere in the cassette, or are irrelevant for a replay."""


def fit_for_file(cassette: Cassette, root: Path) -> Cassette:
    """Return a cassette without credentials, local paths and run ids.

    root: the folder of the file tools of the run.
    """
    ids = {cassette.source: "RUN", **{one.run_id: f"CHILD-{number}" for number, one in enumerate(_below(cassette), 1)}}
    clean = normalizer(root, ids)
    setup = cassette.setup
    kept = {key: value for key, value in setup.settings.items() if key not in _NOT_KEPT}
    return replace(
        cassette,
        setup=replace(
            setup,
            question=clean(setup.question),
            settings=clean(kept),
            overridden=[key for key in setup.overridden if key in kept],
            system=clean(setup.system),
            tools=clean(setup.tools),
        ),
        lines=[_clean(line, clean) for line in cassette.lines],
        calls=[
            replace(one, arguments=clean(one.arguments), output=clean(one.output), note=clean(one.note))
            for one in cassette.calls
        ],
        outcome=clean(cassette.outcome),
        children=[_clean_child(one, clean) for one in cassette.children],
        is_file=True,
    )


def cassette_text(cassette: Cassette, bodies: Sequence[Body] = ()) -> str:
    """Return the text of a cassette file.

    cassette: as `fit_for_file` returns it.
    bodies: bodies of its answered requests, in order; empty if there are none.
    """
    setup, left = cassette.setup, iter(bodies)
    results = _results(cassette.lines)
    lists: dict[str, Sequence[Any]] = {
        "tools": [*setup.tools],
        "messages": [_line(line, left) for line in cassette.lines],
        "calls": [_call(call, results) for call in cassette.calls],
        "children": [asdict(child) for child in cassette.children],
    }
    head = {
        VERSION_KEY: FORMAT if cassette.later_models else ONE_MODEL,
        "specialist": setup.specialist,
        "file_sha256": setup.digest,
        "model": setup.model,
        "question": setup.question,
        "settings": _not_default(setup.settings),
        "overridden": setup.overridden,
        "given_tools": setup.given_tools,
        "parents": setup.parents,
        "rungs": setup.rungs,
        "outcome": cassette.outcome,
        "lines": {name: len(items) for name, items in lists.items()},
    }
    parts = [*(f"{_json(key)}: {_json(value)}" for key, value in head.items())]
    parts += [_listed("system", setup.system.split("\n")), *(_listed(*one) for one in lists.items())]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _not_default(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that this version knows and that differ from the defaults."""
    default = Specialist(name="", description="", prompt="").model_dump(mode="json", by_alias=True)
    return {key: value for key, value in settings.items() if key in default and value != default[key]}


def _listed(name: str, items: Sequence[Any]) -> str:
    inside = ",\n".join(map(_json, items))
    return f"{_json(name)}: [\n{inside}\n]" if items else f"{_json(name)}: []"


def _json(value: object) -> str:
    """Return a value on one line; characters that an editor or a terminal may not show are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _line(line: Line, bodies: Iterator[Body]) -> Mapping[str, Any]:
    """Return the line of a message or request; fields with default values are omitted."""
    if isinstance(line, Message) and line.role == "assistant":
        return {"role": "adapted", "content": line.blocks}
    if isinstance(line, Message):
        return {"role": "user", "content": line.blocks, **_given(instruction=line.landing_instruction)}
    if isinstance(line, UnansweredRequest):
        return {"role": "none", "choice": line.choice, "how": line.how, **_given(next=line.next and asdict(line.next))}
    reply, body = line.reply, next(bodies, None)
    return {
        "role": "assistant",
        "choice": line.choice,
        "content": reply.content,
        "stop": reply.stop,
        "reason": reply.reason,
        "usage": _numbers(reply.usage),
        "cost_usd": line.cost_usd,
        **_given(instruction=line.landing_instruction),
        **({} if line.is_entered else {"entered": False}),
        **({} if reply.more_room_helps else {"more_room_helps": False}),
        **({} if body is None else {"body": {"parameters": body.parameters, "sha256": body.digest}}),
    }


def _numbers(usage: Usage) -> list[int]:
    """Return the numbers of a usage; the last one is omitted if there is nothing to count."""
    *tokens, searches = asdict(usage).values()
    return [*tokens, searches] if searches else tokens


def _call(call: RecordedCall, results: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
    """Return the line of a call; an output that occurs in exactly one message is not repeated."""
    shown = [text for text in results.get(call.id, ()) if text.startswith(call.output)]
    output = {"characters": len(call.output)} if len(results.get(call.id, ())) == len(shown) == 1 else {}
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        **(output or {"output": call.output}),
        **_given(is_error=call.is_error, note=call.note, repeated=call.repeated),
    }


def _results(lines: Sequence[Line]) -> Mapping[str, Sequence[str]]:
    return results_in(line.blocks for line in lines if isinstance(line, Message))


def results_in(messages: Any) -> dict[str, list[str]]:  # noqa: ANN401 - an iterable of untrusted blocks
    """Return the texts of all tool results by the id of their call."""
    found: dict[str, list[str]] = {}
    for blocks in messages:
        for block in blocks:
            if block.get("type") == "tool_result" and isinstance(block.get("content"), str):
                found.setdefault(str(block.get("tool_use_id")), []).append(block["content"])
    return found


def _given(**fields: object) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value}


def _clean(line: Line, clean: Any) -> Line:  # noqa: ANN401 - `Normalize`
    if isinstance(line, Message):
        return Message(line.role, tuple(clean(line.blocks)), clean(line.landing_instruction))
    if isinstance(line, UnansweredRequest):
        return line if line.next is None else replace(line, next=replace(line.next, reason=clean(line.next.reason)))
    # The bodies of today are saved with it.
    reply = replace(line.reply, content=tuple(clean(line.reply.content)), reason=clean(line.reply.reason))
    return replace(line, reply=reply, landing_instruction=clean(line.landing_instruction), body=None)


def _clean_child(child: Child, clean: Any) -> Child:  # noqa: ANN401 - `Normalize`
    evidence = tuple(replace(one, source=clean(one.source), quote=clean(one.quote)) for one in child.evidence)
    children = tuple(_clean_child(one, clean) for one in child.children)
    return replace(child, run_id=clean(child.run_id), evidence=evidence, children=children)


def _below(cassette: Cassette) -> Iterator[Child]:
    """Yield all child runs, those of children included."""
    waiting = [*cassette.children]
    while waiting:
        child = waiting.pop(0)
        yield child
        waiting += child.children
