"""A test double: returns replies in order, and fails on any request for which the script has no reply."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from run_specialist.providers.base import Capabilities, Opening, Request, Watch
from run_specialist.record.messages import Reply, Stop, Usage


class OffScript(BaseException):
    """The script has no reply for a request, or a reply was never used.

    Not an Exception, so that no part of a run can mistake a broken test for a broken endpoint.
    """


Line = Reply | Exception | Callable[[Request], Reply]
"""One line of a script: a reply, an error to raise, or a function that makes the reply to a request."""


def says(text: str, stop: Stop = Stop.ANSWERED) -> Reply:
    """Make a reply of plain text."""
    return Reply(stop, ({"type": "text", "text": text},) if text else (), Usage(10, 0, 0, 5), stop.value)


def calls(*wanted: tuple[str, Mapping[str, Any]], first_id: int = 1, stop: Stop = Stop.WANTS_TOOLS) -> Reply:
    """Make a reply that calls tools.

    first_id: number in the id of the first call; ids must differ within a run.
    """
    blocks = tuple(
        {"type": "tool_use", "id": f"call_{first_id + i}", "name": name, "input": dict(arguments)}
        for i, (name, arguments) in enumerate(wanted)
    )
    return Reply(stop, blocks, Usage(10, 0, 0, 5), stop.value)


class ScriptedProvider:
    """Answers from a script and keeps every request."""

    model = "scripted"

    def __init__(
        self,
        script: Sequence[Line],
        *,
        forced_choice: bool = True,
        schema: bool = False,
        max_output_tokens: int = 64_000,
        priced: bool = True,
    ) -> None:
        self._script = list(script)
        self.priced = priced
        self.capabilities = Capabilities(forced_choice, max_output_tokens, schema=schema, vendor="scripted")
        self.opening: Opening | None = None
        """The opening of the last conversation."""
        self.requests: list[Request] = []
        """Every request, in order."""

    def open(self, opening: Opening, watch: Watch | None = None) -> "ScriptedProvider":
        """Start the only conversation."""
        self.opening = opening
        return self

    async def ask(self, request: Request) -> Reply:
        """Return the next reply of the script; raises OffScript if there is none."""
        self.requests.append(request)
        if not self._script:
            raise OffScript(f"request {len(self.requests)} is not in the script: {request.messages[-1].content}")
        line = self._script.pop(0)
        if isinstance(line, Exception):
            raise line
        return line if isinstance(line, Reply) else line(request)

    def assert_used_up(self) -> None:
        """Raise OffScript if a line of the script was not used."""
        if self._script:
            raise OffScript(f"{len(self._script)} replies were never asked for")

    def cost(self, usage: Usage) -> float | None:
        """Return one cent per thousand tokens, or None if the test sets the price as unknown."""
        return usage.total_tokens / 100_000 if self.priced else None

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""
