"""The provider of a replay: compares each request with the recorded one, and returns the recorded reply."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import ne
from typing import TYPE_CHECKING, Any

from run_specialist.budget import Rung, Style, ladder
from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.loop.landing import RUNGS
from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.base import Capabilities, Choice, Conversation, Opening, Provider, Request, Watch
from run_specialist.providers.choose import described
from run_specialist.providers.knowledge import InformedProvider, Knowledge
from run_specialist.providers.openai_messages import encoded
from run_specialist.record.messages import Message, Reply, Stop, ToolCall, Usage
from run_specialist.replay.cassette import AnsweredRequest, Body, Cassette, Setup, UnansweredRequest
from run_specialist.replay.differences import Difference, Normalize, RequestComparison, json_text
from run_specialist.replay.rebuilt_job import stand_ins
from run_specialist.tools.base import Toolset

if TYPE_CHECKING:
    import httpx2


_NAMES = ("forced_choice", "schema", "schema_first", "none_choice")
_LOST = {Rung.FORCE: "forced_choice", Rung.SCHEMA: "schema", Rung.NONE: "none_choice"}
"""The capability that an endpoint lacks if it refuses a rung."""


def capabilities_of(usual: Capabilities, cassette: Cassette, place: int = 0) -> Capabilities:
    """Return the capabilities that lead to the rungs of a recorded run, as close to the default ones as possible.

    usual: capabilities of its model at an unknown endpoint.
    place: index of the model in the run, from 0.
    """
    known = replace(usual, reads_json_calls=True, context_tokens=None)
    by_model = [cassette.setup.rungs, *(one.rungs for one in cassette.later_models)]
    rungs = [Rung(one) for one in by_model[place]]
    # The last rung of each model before was neither followed nor ignored.
    before = [Rung(one) for tried in by_model[:place] for one in tried[:-1]]
    requests = [
        line for line in cassette.requests_of(place) if isinstance(line, UnansweredRequest) and line.how == "refused"
    ]
    refused = {RUNGS[line.choice] for line in requests if line.choice in RUNGS}
    settings = cassette.setup.settings
    style: Style = settings["landing"]
    if style == "auto" and settings.get("tool_calls") == "json" and known.is_language_model:
        style = "schema"
    now = [getattr(known, name) for name in _NAMES]
    candidates = sorted(product((True, False), repeat=len(_NAMES)), key=lambda one: sum(map(ne, one, now)))
    for values in candidates:
        given: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
        if _leads_to(rungs, style, given, refused, before):
            return replace(known, **given)
    return known


def _leads_to(
    rungs: Sequence[Rung], style: Style, given: Mapping[str, bool], refused: set[Rung], before: Sequence[Rung]
) -> bool:
    """Return whether a landing with these capabilities tries these rungs, in this order.

    before: the rungs that earlier models did not follow.
    """
    supported, gone, tried = dict(given), set[Rung](), [Rung.WAIT, *before]
    for rung in rungs:
        order = ladder(
            style,
            forced_choice=supported["forced_choice"],
            schema=supported["schema"],
            schema_first=supported["schema_first"],
            refused=gone if supported["none_choice"] else gone | {Rung.NONE},
        )
        left = [one for one in order if one not in tried]
        if [*left, Rung.SALVAGE][0] is not rung and rung is not Rung.SALVAGE:
            return False
        if rung in refused:
            gone.add(rung)
            supported[_LOST[rung]] = False
        else:
            tried.append(rung)
    return True


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
        parameters = {key: value for key, value in json.loads(self._sent).items() if key not in _ELSEWHERE}
        body = Body(hashlib.sha256(self._sent).hexdigest(), parameters)
        self.bodies.append(body)
        if line.body is not None:
            found = comparison.differs("parameters of the body", line.body.parameters, body.parameters, json_text)
            if found := found or comparison.differs("bytes of the body", line.body.digest, body.digest):
                return found
        if line.reply.stop not in _READ_AGAIN or any(
            str(one.get("id")).startswith("written_") for one in line.reply.content
        ):
            return None
        # The field `chat` of a block is only for its API.
        stored, now = (
            [{key: value for key, value in block.items() if key != "chat"} for block in reply.content]
            for reply in (line.reply, read)
        )
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
    usage = reply.usage
    cached = usage.cache_read_input_tokens
    sent = usage.input_tokens + usage.cache_creation_input_tokens + cached
    return {
        "id": "replay",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": usage.output_tokens,
            "total_tokens": sent + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


class Differs(BaseException):
    """The replay differs from its recorded run.

    Not an Exception, so that no part of the loop mistakes it for a failure of the endpoint.
    """

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.part)
        self.difference = difference


@dataclass
class ReplayProgress:
    """The progress of a replay, over all its models."""

    sent: int = 0
    """Number of requests sent so far."""
    found: Difference | None = None
    """A difference outside a request, reported with the next one."""

    def miss(self, call: ToolCall) -> None:
        """Record a call that the recorded run did not execute; the next request reports it."""
        text = f"{call.name} {json_text(call.arguments)}"
        self.found = self.found or Difference(self.sent + 1, "a tool call that the run did not execute", "", text)


class RecordedProvider:
    """Opens the conversation of a replay with one of the models of the run."""

    def __init__(
        self, cassette: Cassette, normalize: Normalize, wire: Wire | None, progress: ReplayProgress, place: int = 0
    ) -> None:
        """Set the recorded run.

        normalize: makes the values of a replay comparable with those of the cassette.
        wire: sends each request through the SDK of its API, inside this process; None = no SDK takes part.
        progress: progress of the replay.
        place: index of the model in the run, from 0.
        """
        self._cassette = cassette
        self.model = [cassette.setup.model, *(one.model for one in cassette.later_models)][place]
        """The id in the recorded run."""
        self._model: Provider = described(self.model).provider
        self._knowledge = Knowledge(capabilities_of(self._model.capabilities, cassette, place))
        self.normalize = normalize
        self._wire = wire
        self._costs = {
            line.reply.usage: line.cost_usd for line in cassette.requests_of(place) if isinstance(line, AnsweredRequest)
        }
        self._opening: Opening | None = None
        self._progress = progress

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that lead to the landing of the recorded run."""
        return self._knowledge.capabilities

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:  # noqa: ARG002 - nothing streams
        """Start a conversation: the first one is that of the run, any further one would summarize its transcript."""
        if self._opening is None:
            self._opening = opening
            return self
        return _Summaries(self._cassette, self.normalize)

    async def ask(self, request: Request) -> Reply:
        """Return the recorded reply; raise Differs, or the failure of the recorded request."""
        progress = self._progress
        progress.sent += 1
        if progress.found is not None:
            raise Differs(progress.found)
        number, requests = progress.sent, self._cassette.requests
        comparison = RequestComparison(number, self.normalize)
        if self._opening is not None and number == 1:
            _raise(comparison.opening(self._cassette.setup, self._opening))
        if number > len(requests):
            _raise(Difference(None, "a further request", "", f"request {number}, choice {request.choice}"))
        line, messages = requests[number - 1], self._cassette.messages_before(number)
        if isinstance(line, UnansweredRequest):
            _raise(comparison.differs("tool choice", line.choice, request.choice))
            raise self._failure(line)
        _raise(comparison.request(line, messages, request))
        if self._wire is not None and self._opening is not None:
            _raise(await self._wire.differs(comparison, line, self._opening, request, self.capabilities))
        self._knowledge.learn_from(request, line.reply)
        return line.reply

    def _failure(self, line: UnansweredRequest) -> ProviderError:
        outcome = self._cassette.outcome
        if line.next is not None:
            return ProviderError(line.next.reason, kind=line.next.kind)
        if line.how == "failed":
            # If several models have failed, the error names each with its reason, the last one at the end.
            text = str(outcome.error or "the request failed")
            return ProviderError(text.rpartition(f"; {self.model}: ")[2], kind=outcome.error_kind)
        choice = Choice(line.choice)
        if choice is Choice.AUTO:
            return ContextExceeded("the recorded request exceeded the context of its model")
        return self._knowledge.refused(choice, "the recorded request was refused")

    def cost(self, usage: Usage) -> float | None:
        """Return the recorded cost of a reply; for other amounts the cost at the current price [USD]."""
        if usage in self._costs:
            return self._costs[usage]
        priced = self._model.cost(usage)
        if priced is not None:
            return priced
        # The price was known then: about as much as the most expensive token of the run.
        known = [cost / max(one.total_tokens, 1) for one, cost in self._costs.items() if cost is not None]
        return usage.total_tokens * max(known) if known else None

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


class _Summaries:
    """The conversation for a summary, which no replayable run contains."""

    def __init__(self, cassette: Cassette, normalize: Normalize) -> None:
        self._cassette = cassette
        self.normalize = normalize

    async def ask(self, request: Request) -> Reply:
        text = "\n".join(str(block.get("text", "")) for message in request.messages for block in message.blocks)
        raise Differs(Difference(None, "a request for a summary, which the run did not send", "", text))


def _raise(found: Difference | None) -> None:
    if found is not None:
        raise Differs(found)
