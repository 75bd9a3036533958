"""Show a call that is streamed as JSON text like a native one: its tool, and the pieces of its arguments."""

import re

from run_specialist.providers.base import Delta, Watch

_HEAD = re.compile(r'\s*\{\s*"call"\s*:\s*\{\s*"tool"\s*:\s*"([^"\\]*)"\s*,\s*"arguments"\s*:\s*(?=\{)')
_LONGEST_HEAD = 300
"""Number of characters after which a text that has not become a call is shown as text."""


class CallStream:
    """Converts the pieces of one reply."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._head = ""
        self._tool: str | None = None
        self._is_text = False
        self._depth = 0
        self._in_string = self._escaped = False

    def add(self, delta: Delta) -> None:
        """Pass on the next piece, without the JSON around the arguments of a call."""
        if delta.tool is not None or self._is_text:
            self._watch(delta)
        elif self._tool is not None:
            self._add_arguments(delta.text)
        else:
            self._add_head(delta.text)

    def _add_head(self, text: str) -> None:
        self._head += text
        if found := _HEAD.match(self._head):
            self._tool = found[1]
            self._add_arguments(self._head[found.end() :])
        elif self._head.strip() and (not self._head.lstrip().startswith("{") or len(self._head) > _LONGEST_HEAD):
            self._is_text = True
            self._watch(Delta(self._head))

    def _add_arguments(self, text: str) -> None:
        """Pass on the part of a text that belongs to the arguments object."""
        end = 0
        for end, character in enumerate(text, 1):  # noqa: B007 - the number of characters that belong to it
            self._scan(character)
            if self._depth == 0:
                break
        if end:
            self._watch(Delta(text[:end], tool=self._tool))
        if end and self._depth == 0:
            # The rest closes the call.
            self._watch = _ignore

    def _scan(self, character: str) -> None:
        if self._in_string:
            self._in_string = self._escaped or character != '"'
            self._escaped = character == "\\" and not self._escaped
        elif character == '"':
            self._in_string = True
        else:
            self._depth += (character in "{[") - (character in "}]")


def _ignore(delta: Delta) -> None:
    del delta
