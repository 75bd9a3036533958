"""The provider of a replay: compares each request with the recorded one, and returns the recorded reply."""

from dataclasses import dataclass

from run_specialist.errors import ContextExceeded, ProviderError
from run_specialist.providers.base import Capabilities, Choice, Conversation, Opening, Provider, Request, Watch
from run_specialist.providers.described import described
from run_specialist.providers.knowledge import Knowledge
from run_specialist.record.messages import Message, Reply, ToolCall, Usage
from run_specialist.replay.cassette import AnsweredRequest, Cassette, UnansweredRequest, message_of
from run_specialist.replay.compare_requests import Normalize, RequestComparison
from run_specialist.replay.difference import Difference
from run_specialist.replay.known_endpoint import capabilities_of
from run_specialist.replay.shown_parts import json_text
from run_specialist.replay.wire import Wire


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
        line, messages = requests[number - 1], messages_before(self._cassette, number)
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
            text = str(outcome["error"] or "the request failed")
            return ProviderError(text.rpartition(f"; {self.model}: ")[2], kind=outcome["error_kind"])
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


def messages_before(cassette: Cassette, number: int) -> list[Message]:
    """Return the messages that a recorded request sent.

    number: number of the request, from 1; one more than the last for all messages.
    """
    found: list[Message] = []
    for line in cassette.lines:
        if not isinstance(line, Message):
            number -= 1
            if not number:
                break
        if isinstance(line, UnansweredRequest) and line.next is not None:
            found.clear()
        if isinstance(line, Message):
            found.append(line)
        elif blocks := message_of(line):
            found.append(Message("assistant", tuple(blocks)))
    return found


def _raise(found: Difference | None) -> None:
    if found is not None:
        raise Differs(found)
