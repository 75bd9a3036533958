"""Message threads, a beta: the server holds the conversation, and a request brings only what is new."""

from collections.abc import Iterable
from typing import Any

from bench.server.refusal import Refused
from bench.server.script import Script

Request = dict[str, Any]
HELD = ("system", "tools")
"""Sent once, when the thread is made."""


class Threads:
    """Conversations by the id of their last reply."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Script, Request]] = {}

    def script_of(self, request: Request) -> Script | None:
        """Return the script of the thread that a request continues."""
        thread = request.get("thread") or {}
        found = self._held.get(thread.get("previous_message_id", ""))
        return found[0] if found else None

    def whole(self, request: Request) -> Request:
        """Return a request with all that the server holds of its thread; the thread is taken out.

        Raises Refused for a thread that is not held, and for what cannot be sent once more.
        """
        thread = request.get("thread") or {}
        if thread.get("type") != "continue":
            return request
        for name in HELD:
            if name in request:
                raise Refused(f"thread: `{name}` cannot be sent with a continue")
        found = self._held.pop(thread["previous_message_id"], None)
        if found is None:
            raise Refused("thread not found", 404, "thread_not_found")
        held = found[1]
        held["messages"].extend(request["messages"])
        return {**request, **held}

    def hold(self, script: Script, request: Request, reply: Request) -> None:
        """Keep a conversation that belongs to a thread, with the reply that it got."""
        if not request.get("thread"):
            return
        messages = request["messages"]
        messages.append({"role": "assistant", "content": reply["content"]})
        held = {name: request[name] for name in HELD if name in request}
        self._held[reply["id"]] = (script, {**held, "messages": messages})

    def forget(self, runs: Iterable[str]) -> None:
        """Let go of what some runs have left."""
        gone = set(runs)
        self._held = {name: held for name, held in self._held.items() if held[0].run not in gone}
