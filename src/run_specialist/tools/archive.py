"""Archive of full tool outputs by call ID, and the tool that lets a model read more of them."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from pydantic import Field

from run_specialist.errors import ToolError
from run_specialist.specialist.tool_names import GET_TOOL_RESPONSE
from run_specialist.tools.base import Output, Tool

SUMMARIZE = "context_summarize"
"""Name of the call whose result is a summary; reserved, so no tool can use it."""
# Number of existing IDs listed when a model requests an unknown one.
_MAX_LISTED_IDS = 5

_NOTHING = "no tool has returned anything yet"
_DESCRIPTION = "Read on in a cut or SUMMARIZED result."
# Written by hand to be short, because every request includes it.
_SCHEMA = {
    "type": "object",
    "properties": {"execution_id": {"type": "string"}, "offset": {"type": "integer"}},
    "required": ["execution_id"],
}


class Archive(dict[str, str]):
    """Full outputs of one run, in memory, by their IDs, oldest first."""

    def add(self, execution_id: str, text: str) -> int:
        """Store an output and return its start offset within the text stored under this ID [characters].

        Some servers give one ID to several calls. The later output is then appended after a separator line, so both
        stay readable; an identical output is stored once.
        """
        stored = self.setdefault(execution_id, text)
        if stored == text:
            return 0
        prefix = f"{stored}\n[another output of the same id follows]\n"
        self[execution_id] = prefix + text
        return len(prefix)

    def add_names(self, name: Callable[[str], str]) -> None:
        """Make each output available under another ID, too.

        name: returns the other ID, or the same one.
        """
        for execution_id, text in [*self.items()]:
            self.setdefault(name(execution_id), text)


def get_tool_response_tool(archive: Archive, slice_limit: int) -> Tool:
    """Return the tool that reads from an archive.

    slice_limit: maximum length of one result, excluding the note about the next slice [characters].
    """
    return Tool(GET_TOOL_RESPONSE, _DESCRIPTION, _ArchiveReader(archive, slice_limit).get_tool_response, schema=_SCHEMA)


@dataclass(frozen=True, slots=True)
class _ArchiveReader:
    archive: Archive
    slice_limit: int

    def get_tool_response(self, execution_id: str, offset: Annotated[int, Field(ge=0)] = 0) -> Output:
        if execution_id not in self.archive:
            ids = [*self.archive]
            near = get_close_matches(execution_id, ids, _MAX_LISTED_IDS) or ids[-_MAX_LISTED_IDS:]
            more = f" and {len(ids) - len(near)} more" if len(ids) > len(near) else ""
            known = f"there {'is' if len(ids) == 1 else 'are'} {', '.join(near)}{more}" if ids else _NOTHING
            raise ToolError(f"there is no output of the id {execution_id!r}; {known}")
        text = self.archive[execution_id]
        if offset and offset >= len(text):
            raise ToolError(
                f"offset {offset} is beyond the end of {execution_id}, which has {len(text)} characters; "
                "take a smaller one"
            )
        end = min(offset + self.slice_limit, len(text))
        position = f"go on with offset={end}" if end < len(text) else "this is the end"
        return Output(text[offset:end], f"[characters {offset}-{end} of {len(text)}; {position}]")
