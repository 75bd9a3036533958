"""Simulate the API of a recorded run in this process: the provider builds requests and reads replies with its SDK."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ProviderError
from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.base import Capabilities, Conversation, Opening, Request
from run_specialist.providers.described import described
from run_specialist.providers.knowledge import InformedProvider
from run_specialist.providers.openai_messages import encoded
from run_specialist.record.blocks import Block
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.replay.cassette import AnsweredRequest, Body, Setup
from run_specialist.replay.compare_requests import Normalize, RequestComparison
from run_specialist.replay.difference import Difference
from run_specialist.replay.recorded_tools import stand_ins
from run_specialist.replay.shown_parts import json_text
from run_specialist.tools.base import Toolset

if TYPE_CHECKING:
    import httpx2

_ADDRESS = "http://replay.invalid"
_ELSEWHERE = ("model", "system", "tools", "messages")
"""Keys of a body that are compared as other parts of the request."""
_READ_AGAIN = {Stop.ANSWERED, Stop.WANTS_TOOLS, Stop.PAUSED}
"""Stop reasons of replies that are stored completely; others cannot be read again."""


class Wire:
    """Sends the requests of one run through the SDK of its API, and answers them with the recorded replies."""

    def __init__(self, provider: InformedProvider, normalize: Normalize) -> None:
        self._provider = provider
        self._normalize = normalize
        self._conversation: Conversation | None = None
        self._reply: Mapping[str, Any] = {}
        self._sent = b""
        self.bodies: list[Body] = []
        """The requests that were sent, in order."""

    @classmethod
    def of(cls, setup: Setup, normalize: Normalize) -> "Wire | None":
        """Return the wire of a run; None for calls as JSON, for offline runs, and if the SDK is not installed."""
        provider = described(setup.model).provider
        if not isinstance(provider, InformedProvider) or setup.settings.get("tool_calls") == "json":
            return None
        wire = cls(provider, normalize)
        try:
            provider.client = _client(provider, wire.answer)
        except ImportError:
            return None
        return wire

    def answer(self, request: "httpx2.Request") -> "httpx2.Response":
        """Receive a request, and return the recorded reply in the format of the API."""
        import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

        self._sent = request.content
        return httpx2.Response(200, json=self._reply)

    async def differs(
        self,
        comparison: RequestComparison,
        line: AnsweredRequest,
        opening: Opening,
        request: Request,
        known: Capabilities,
    ) -> Difference | None:
        """Send a request; return how its body, or the parsed reply, differs from the recorded one.

        known: the capabilities of the endpoint.
        """
        messages_api = isinstance(self._provider, AnthropicProvider)
        self._reply = (_message if messages_api else _completion)(line.reply, self._provider.model)
        self._provider.capabilities = known
        if self._conversation is None:
            self._conversation = self._provider.open(self._opening(opening))  # type: ignore[attr-defined] # each has it
        try:
            read = await self._conversation.ask(replace(request, messages=[*map(self._message, request.messages)]))
        except ProviderError as error:
            return Difference(comparison.number, "the reply, which the SDK cannot read", "", str(error))
        body = _body(self._sent)
        self.bodies.append(body)
        if line.body is not None:
            found = comparison.differs("parameters of the body", line.body.parameters, body.parameters, json_text)
            if found := found or comparison.differs("bytes of the body", line.body.digest, body.digest):
                return found
        if line.reply.stop not in _READ_AGAIN or any(
            str(one.get("id")).startswith("written_") for one in line.reply.content
        ):
            return None
        stored, now = ([*map(_essence, reply.content)] for reply in (line.reply, read))
        return comparison.differs("the reply as the SDK reads it", stored, now, json_text)

    def _opening(self, opening: Opening) -> Opening:
        tools = stand_ins([self._normalize(tool.definition) for tool in opening.tools], ())
        return replace(opening, system=self._normalize(opening.system), tools=Toolset(tools))

    def _message(self, message: Message) -> Message:
        instruction = self._normalize(message.landing_instruction)
        return Message(message.role, tuple(map(self._normalize, message.blocks)), instruction)

    async def aclose(self) -> None:
        """Close the client."""
        await self._provider.client.close()


def _client(provider: InformedProvider, answer: Any) -> Any:  # noqa: ANN401 - of either SDK
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    options: dict[str, Any] = {
        "api_key": "replay",
        "base_url": _ADDRESS,
        "http_client": httpx2.AsyncClient(transport=httpx2.MockTransport(answer)),
    }
    if isinstance(provider, AnthropicProvider):
        import anthropic  # noqa: PLC0415 - the import takes a second

        return anthropic.AsyncAnthropic(**options)
    import openai  # noqa: PLC0415 - the import takes a second

    return openai.AsyncOpenAI(**options)


def _body(sent: bytes) -> Body:
    parameters = {key: value for key, value in json.loads(sent).items() if key not in _ELSEWHERE}
    return Body(hashlib.sha256(sent).hexdigest(), parameters)


def _essence(block: Block) -> Block:
    """Return a block without the fields that only its API reads."""
    return {key: value for key, value in block.items() if key != "chat"}


def _message(reply: Reply, model: str) -> Mapping[str, Any]:
    """Return a reply in the format of the Messages API."""
    usage = reply.usage
    return {
        "id": "msg_replay",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [*reply.content],
        "stop_reason": reply.reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input_tokens,
            "cache_read_input_tokens": usage.cache_read_input_tokens,
            "cache_creation_input_tokens": usage.cache_creation_input_tokens,
            "output_tokens": usage.output_tokens,
            "server_tool_use": {"web_search_requests": usage.web_search_requests},
        },
    }


def _completion(reply: Reply, model: str) -> Mapping[str, Any]:
    """Return a reply in the format of the chat completions API."""
    message = json.loads(encoded(Message("assistant", reply.content)))
    choice = {"index": 0, "message": message, "finish_reason": reply.reason}
    return {
        "id": "replay",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": _chat_usage(reply.usage),
    }


def _chat_usage(usage: Usage) -> Mapping[str, Any]:
    cached = usage.cache_read_input_tokens
    sent = usage.input_tokens + usage.cache_creation_input_tokens + cached
    return {
        "prompt_tokens": sent,
        "completion_tokens": usage.output_tokens,
        "total_tokens": sent + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
