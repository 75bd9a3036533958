"""Whole outputs by the id of their call, and the tool with which a model reads on in them."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.tools.base import Output, Tool

NAME = "get_tool_response"
SUMMARIZE = "context_summarize"
"""Name of the call whose result is a summary; reserved, no tool has it."""
FEW = 5
"""As many ids are named to a model that asked for one that does not exist."""

_DESCRIPTION = "Read on in a cut or SUMMARIZED result."
_SCHEMA = {
    "type": "object",
    "properties": {"execution_id": {"type": "string"}, "offset": {"type": "integer"}},
    "required": ["execution_id"],
}
"""Written by hand, because each word of it is paid for in every request."""


class Archive:
    """Keeps the outputs of one run whole, in memory."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, execution_id: str, text: str) -> int:
        """Keep an output, and return the offset at which it begins under its id [characters].

        Some servers give one id to several calls. The later output then stands behind the earlier one, after a line
        that says so, and neither hides the other; the very same output is kept once.
        """
        known = self._texts.get(execution_id)
        if known is None:
            self._texts[execution_id] = text
            return 0
        if known == text:
            return 0
        front = f"{known}\n[another output of the same id follows]\n"
        self._texts[execution_id] = front + text
        return len(front)

    def __contains__(self, execution_id: object) -> bool:
        return execution_id in self._texts

    def __getitem__(self, execution_id: str) -> str:
        return self._texts[execution_id]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all outputs, the oldest first."""
        return tuple(self._texts)


def get_tool_response_tool(archive: Archive, slice_limit: int) -> Tool:
    """Make the tool that reads in an archive.

    slice_limit: the most that one call returns, the note about the next slice apart [characters].
    """
    return Tool(NAME, _DESCRIPTION, _Reader(archive, slice_limit).get_tool_response, schema=_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Reader:
    archive: Archive
    slice_limit: int

    def get_tool_response(
        self,
        execution_id: str,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Output:
        if execution_id not in self.archive:
            raise ToolError(f"there is no output of the id {execution_id!r}; {_known(self.archive.ids, execution_id)}")
        text = self.archive[execution_id]
        if offset and offset >= len(text):
            raise ToolError(
                f"offset {offset} is beyond the end of {execution_id}, which has {len(text)} characters; "
                "take a smaller one"
            )
        end = min(offset + self.slice_limit, len(text))
        onwards = f"go on with offset={end}" if end < len(text) else "this is the end"
        return Output(text[offset:end], f"[characters {offset}-{end} of {len(text)}; {onwards}]")


def _known(ids: tuple[str, ...], wanted: str) -> str:
    if not ids:
        return "no tool has returned anything yet"
    near = get_close_matches(wanted, ids, FEW) or ids[-FEW:]
    return f"there {'is' if len(ids) == 1 else 'are'} {', '.join(near)}" + (
        f" and {len(ids) - len(near)} more" if len(ids) > len(near) else ""
    )
