"""Assemble a streamed completion from its chunks, and pass the pieces to a watcher."""

from collections.abc import Iterator, Mapping
from typing import Any

from run_specialist.errors import Unavailable
from run_specialist.providers import white_space
from run_specialist.providers.base import Delta, Watch
from run_specialist.providers.white_space import WhiteSpace
from run_specialist.record.blocks import Block
from run_specialist.record.messages import encode

APART = {"role", "content", "tool_calls", "function_call"}
"""Keys of a delta that are not simply appended to the previous value."""


class StreamedCompletion:
    """Assembles the object that the server would have sent without streaming."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._fields: dict[str, Any] = {}
        self._parts: list[Any] = []
        self._calls: list[dict[str, Any]] = []
        self._at: dict[object, dict[str, Any]] = {}
        self._finish: object = None
        self._usage: object = None
        self._model: object = None
        self._complete = False
        self._white_space = WhiteSpace()

    @property
    def is_endless(self) -> bool:
        """True once only white space keeps arriving."""
        return self._white_space.is_endless

    def add(self, chunk: object) -> None:
        """Process the next chunk; anything that is not a chunk of a completion is ignored."""
        if not isinstance(chunk, Mapping):
            return
        choices = chunk.get("choices")
        self._model = chunk.get("model") or self._model
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = chunk["usage"]
            # The last chunk contains only the usage.
            self._complete = self._complete or not choices
        match choices:
            case [{"index": int(index)}, *_] if index > 0:
                return
            case [dict(choice), *_]:
                self._take(choice)

    def _take(self, choice: Mapping[str, Any]) -> None:
        if isinstance(delta := choice.get("delta"), Mapping):
            for key, value in delta.items():
                if key not in APART:
                    self._fields[key] = _joined(self._fields.get(key), value)
            self._add_content(delta.get("content"))
            for fragment in _fragments(delta):
                self._add_fragment(fragment)
        if choice.get("finish_reason"):
            self._finish, self._complete = choice["finish_reason"], True

    def _add_content(self, content: object) -> None:
        for part in content if isinstance(content, list) else [content]:
            match part:
                case str(text) | {"type": "text", "text": str(text)}:
                    if self._parts and isinstance(self._parts[-1], str):
                        self._parts[-1] += text
                    elif text:
                        self._parts.append(text)
                    if text:
                        self._white_space.add(text)
                        self._watch(Delta(text))
                case dict():
                    self._parts.append(part)

    def _add_fragment(self, fragment: Mapping[str, Any]) -> None:
        call = self._call_of(fragment)
        match fragment.get("function"):
            case {**values}:
                function = call["function"]
            case _:
                return
        function["name"] = function.get("name") or values.pop("name", None)
        values.pop("name", None)
        arguments = values.pop("arguments", None)
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else encode(arguments).decode()
            function["arguments"] = str(function.get("arguments") or "") + text
            self._white_space.add(text)
            self._watch(Delta(text, tool=str(function["name"] or "")))
        for key, value in values.items():
            function[key] = _joined(function.get(key), value)

    def _call_of(self, fragment: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call of a fragment by its index, which some servers omit or never increment."""
        index, call_id = fragment.get("index"), fragment.get("id")
        call = self._at.get(index) if index is not None else self._calls[-1] if self._calls else None
        named = isinstance(function := fragment.get("function"), Mapping) and bool(function.get("name"))
        another = named and (call_id != call["id"] if call and call_id else index is None)
        if call is None or another:
            call = {"id": call_id, "function": {}}
            self._calls.append(call)
            self._at[index] = call
        for key, value in fragment.items():
            if key not in {"index", "id", "type", "function"}:
                call[key] = _joined(call.get(key), value)
        call["id"] = call["id"] or call_id
        return call

    def result(self) -> Block:
        """Return the completion.

        Raises ProviderError if the stream ended early.
        """
        if self.is_endless:
            self._finish = white_space.stop_reason(self._written())
        elif not self._complete:
            raise Unavailable("the server's stream was closed in the middle of a reply", "try again", may_have_run=True)
        message = {**self._fields, "content": self._parts}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"message": message, "finish_reason": self._finish}
        return {"choices": [choice], "usage": self._usage, "model": self._model}

    def _written(self) -> Iterator[str]:
        """Yield the text and call arguments received so far."""
        yield from (part for part in self._parts if isinstance(part, str))
        yield from (str(call["function"].get("arguments") or "{}") for call in self._calls)


def _fragments(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    calls, legacy = delta.get("tool_calls"), delta.get("function_call")
    for fragment in calls if isinstance(calls, list) else []:
        if isinstance(fragment, Mapping):
            yield fragment
    if isinstance(legacy, Mapping):
        yield {"index": "legacy", "function": legacy}


def _joined(before: Any, new: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value extended by a piece: strings and lists are concatenated, objects are merged key by key."""
    match before, new:
        case _, None:
            return before
        case (str(), str()) | (list(), list()):
            return before + new
        case dict(), dict():
            return {**before, **{key: _joined(before.get(key), value) for key, value in new.items()}}
        case _:
            return new
