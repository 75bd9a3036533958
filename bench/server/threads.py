"""Message threads (beta): the server stores the conversation, and requests contain only new messages."""

from collections.abc import Iterable
from typing import Any

from bench.server.refusal import Refused
from bench.server.script import Script

Request = dict[str, Any]
STORED = ("system", "tools")
"""Fields sent only once, when the thread is created."""


class Threads:
    """Stored conversations by the id of their last reply."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[Script, Request]] = {}

    def script_of(self, request: Request) -> Script | None:
        """Return the script of the thread that a request continues."""
        thread = request.get("thread") or {}
        found = self._stored.get(thread.get("previous_message_id", ""))
        return found[0] if found else None

    def complete(self, request: Request) -> Request:
        """Return a request completed with the stored conversation of its thread, which is removed.

        Raises Refused for an unknown thread and for fields that cannot be sent again.
        """
        thread = request.get("thread") or {}
        if thread.get("type") != "continue":
            return request
        for name in STORED:
            if name in request:
                raise Refused(f"thread: `{name}` cannot be sent with a continue")
        found = self._stored.pop(thread["previous_message_id"], None)
        if found is None:
            raise Refused("thread not found", 404, "thread_not_found")
        stored = found[1]
        stored["messages"].extend(request["messages"])
        return {**request, **stored}

    def store(self, script: Script, request: Request, reply: Request) -> None:
        """Store the conversation of a thread, including the reply."""
        if not request.get("thread"):
            return
        messages = request["messages"]
        messages.append({"role": "assistant", "content": reply["content"]})
        once = {name: request[name] for name in STORED if name in request}
        self._stored[reply["id"]] = (script, {**once, "messages": messages})

    def forget(self, runs: Iterable[str]) -> None:
        """Remove the conversations of some runs."""
        removed = set(runs)
        self._stored = {name: stored for name, stored in self._stored.items() if stored[0].run not in removed}
