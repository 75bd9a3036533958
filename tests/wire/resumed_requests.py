"""Endpoints for runs that are resumed, and the bytes of their requests."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from run_specialist.record.messages import encode
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.wire.chat import replies as chat_replies
from tests.wire.connected import MESSAGES, runner_on
from tests.wire.simulator import replies

LOOKER = Specialist(name="looker", description="", prompt="You look things up.", tools=())


@dataclass
class Endpoint:
    """A simulated API, and the processes that send requests to it one after the other."""

    kind: str
    api: Any
    folder: Any
    stream: bool
    model: str = ""
    retries: int = 0
    tools: list[Tool] = field(default_factory=lambda: [LOOK])

    @property
    def say(self) -> Any:
        """The module that builds replies of this API."""
        return replies if self.kind == MESSAGES else chat_replies

    @property
    def requests(self) -> list[Any]:
        """The requests of all processes."""
        return self.api.requests

    @property
    def accepted(self) -> list[Any]:
        """The requests that were accepted."""
        return [sent for sent in self.api.requests if sent.status == 200]

    async def work(self, begin, midway=None):
        """Run in a new runner, as another process would, call `midway` meanwhile; return the run and its outcome."""
        watch = (lambda delta: None) if self.stream else None
        options = {"root": self.folder, "tools": self.tools, "store": f"{self.folder}/runs.db"}
        async with runner_on(self.api, self.model, retries=self.retries, **options) as runner:
            run = await begin(runner, watch)
            task = asyncio.create_task(run.outcome())
            if midway:
                await midway(run)
            return run, await task

    async def ask(self, specialist=LOOKER, midway=None, **settings):
        """Start a run."""
        return await self.work(
            lambda runner, watch: runner.prepare(specialist, "What is known?", watch=watch, **settings), midway
        )

    async def resume(self, question=None, **limits):
        """Resume the newest run."""
        return await self.work(lambda runner, watch: runner.resume("last", question, watch=watch, **limits))


def prefix(sent):
    """Return the part of a request before the messages, which is the same in every request."""
    end = b',"max_tokens"' if b',"max_tokens"' in sent.raw else b',"max_completion_tokens"'
    return sent.raw.split(b'"messages":[', 1)[0].split(end)[0]


def message_bytes(sent):
    """Return the bytes of a request's messages without cache markers, which are not content."""
    marker = b',"cache_control":{"type":"ephemeral"}'
    return sent.raw.split(b'"messages":[', 1)[1].rpartition(b"]")[0].replace(marker, b"")


def resume_note(sent):
    """Return the resume note at the end of a request."""
    last = sent.messages[-1]["content"]
    return last if isinstance(last, str) else last[-1].get("text") or last[-1]["content"]


def check_continued(endpoint, before, after, *, entered=True):
    """Check that a request begins with the bytes of an earlier one, followed by its reply if `entered`."""
    assert prefix(after) == prefix(before)
    assert len(prefix(after)) > 500
    beginning = message_bytes(before)
    if entered and endpoint.kind == MESSAGES:
        beginning += b"," + encode({"role": "assistant", "content": before.content})
    elif entered:
        assert after.messages[len(before.messages)]["role"] == "assistant"
        assert after.messages[len(before.messages)].get("tool_calls") == before.message.get("tool_calls")
        beginning += b',{"role":"assistant"'
    assert message_bytes(after).startswith(beginning)
    assert not getattr(after, "oddities", [])


def look(say, *queries):
    """Return a reply that calls `look` for each query."""
    return say.calls("look", *({"query": query} for query in queries))
