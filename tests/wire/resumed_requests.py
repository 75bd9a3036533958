"""Endpoints for runs that are resumed, and the bytes of their requests."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.providers import anthropic, openai_chat
from run_specialist.record.messages import encode
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import replies

LOOKER = Specialist(name="looker", description="", prompt="You look things up.", tools=())
MESSAGES, CHAT = "messages", "chat"


@dataclass
class Line:
    """An endpoint, and processes that ask it one after the other."""

    kind: str
    api: Any
    folder: Any
    stream: bool
    model: str = "haiku"
    tools: list[Tool] = field(default_factory=lambda: [LOOK])

    @property
    def say(self) -> Any:
        """What replies of this API are built with."""
        return replies if self.kind == MESSAGES else chat_replies

    @property
    def requests(self) -> list[Any]:
        """All requests, of every going."""
        return self.api.requests

    @property
    def accepted(self) -> list[Any]:
        """Those that were answered."""
        return [sent for sent in self.api.requests if sent.status == 200]

    def provider(self, client):
        """Make a new one, as another process would."""
        if self.kind == MESSAGES:
            return anthropic.AnthropicProvider(self.model, client)
        return openai_chat.ChatProvider("some-model", client)

    async def going(self, take_up, midway=None):
        """Let a process work, and return its run with the outcome; `midway` is called with the run while it works."""
        make = anthropic.make_client if self.kind == MESSAGES else openai_chat.make_client
        watch = (lambda delta: None) if self.stream else None
        async with make(base_url=self.api.base_url, api_key="test", max_retries=0) as client:
            store = f"{self.folder}/runs.db"
            async with Runner(
                root=self.folder, provider=self.provider(client), tools=self.tools, store=store
            ) as runner:
                run = await take_up(runner, watch)
                task = asyncio.create_task(run.outcome())
                if midway:
                    await midway(run)
                return run, await task

    async def ask(self, specialist=LOOKER, midway=None, **settings):
        """Put the question."""
        return await self.going(
            lambda runner, watch: runner.prepare(specialist, "What is known?", watch=watch, **settings), midway
        )

    async def go_on(self, question=None, **wish):
        """Take up the newest run."""
        return await self.going(lambda runner, watch: runner.resume("last", question, watch=watch, **wish))


def front(sent):
    """Return the bytes before the messages that are the same in every request."""
    room = b',"max_tokens"' if b',"max_tokens"' in sent.raw else b',"max_completion_tokens"'
    return sent.raw.split(b'"messages":[', 1)[0].split(room)[0]


def said(sent):
    """Return the bytes of its messages; a cache marker is no content."""
    marker = b',"cache_control":{"type":"ephemeral"}'
    return sent.raw.split(b'"messages":[', 1)[1].rpartition(b"]")[0].replace(marker, b"")


def news(sent):
    """Return the words of ours at its end, wherever this API has them."""
    last = sent.messages[-1]["content"]
    return last if isinstance(last, str) else last[-1].get("text") or last[-1]["content"]


def goes_on(line, before, after, *, entered=True):
    """Check that a request begins with the bytes of an earlier one, and with its reply where that entered."""
    assert front(after) == front(before)
    assert len(front(after)) > 500
    beginning = said(before)
    if entered and line.kind == MESSAGES:
        beginning += b"," + encode({"role": "assistant", "content": before.content})
    elif entered:
        assert after.messages[len(before.messages)]["role"] == "assistant"
        assert after.messages[len(before.messages)].get("tool_calls") == before.message.get("tool_calls")
        beginning += b',{"role":"assistant"'
    assert said(after).startswith(beginning)
    assert not getattr(after, "oddities", [])


def look(say, *queries):
    """Make a reply that looks things up."""
    return say.calls("look", *({"query": query} for query in queries))
