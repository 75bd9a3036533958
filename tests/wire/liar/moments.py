"""A table of the moments at which a reply is corrupted: a run that reaches it, and how to recognise its request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from run_specialist.tools.base import Tool
from tests.wire import chat, simulator
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import replies as message_replies

from .lying_proxy import Aim, Body

CHILD = "You know owls."
ANSWER = "what was found"
LENGTH = 9_000
"""Length of a result in the run that is summarized [characters]."""


@dataclass(frozen=True)
class Moment:
    """A request of a run, and the settings of a run that sends it."""

    name: str
    aim: Aim
    limit: int = 2
    """Maximum tool calls of the run, which then lands."""
    settings: dict[str, Any] = field(default_factory=dict)
    length: int = 0
    """Length of each result [characters]; 0 = a short note."""
    is_run_itself: bool = True
    """False if the failing request belongs to a child or a summary."""
    agents: Sequence[str] = ()


def results(body: Body) -> int:
    """Count the tool results in a request of either API."""
    messages = body.get("messages") or ()
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    return sum(one["role"] == "tool" for one in messages) + sum(block["type"] == "tool_result" for block in blocks)


def is_of_child(body: Body) -> bool:
    """Return whether a request comes from the child."""
    return CHILD in str(body.get("system") or body["messages"][0])


def _after(calls: int) -> Aim:
    return lambda body: bool(body.get("tools")) and results(body) == calls


def _for_summary(body: Body) -> bool:
    return not body.get("tools")


def _second_of_child(body: Body) -> bool:
    return is_of_child(body) and results(body) == 1


MOMENTS: tuple[Moment, ...] = (
    Moment("first", _after(0)),
    Moment("middle", _after(1)),
    Moment("force", _after(2), settings={"landing": "force"}),
    Moment("order", _after(2), settings={"landing": "order"}),
    Moment("summary", _for_summary, limit=5, settings={"summarize_at": 4_000}, length=LENGTH, is_run_itself=False),
    Moment("child", _second_of_child, limit=9, is_run_itself=False, agents=("owls",)),
)


class Model:
    """The model behind the server, on either API: it calls its tool until it is instructed to answer."""

    def __init__(self, api: str, moment: Moment) -> None:
        self._say = message_replies if api == "messages" else chat_replies
        self._moment = moment

    def __call__(self, request: Any) -> Any:
        """Return the reply to a request that was recorded by a simulator."""
        body, say = request.body, self._say
        if _for_summary(body):
            return say.says("- owls eat mice")
        known = results(body)
        child = is_of_child(body)
        if self._moment.agents and not child:
            query = {"specialist": "owls", "query": "What do owls eat?"}
            return say.answers(ANSWER) if known else say.calls("delegate", query)
        forced = body.get("tool_choice", "auto") != "auto"
        if forced or (known >= 2 and (child or known >= self._moment.limit)):
            return say.answers(ANSWER)
        return say.calls("look", {"query": f"question {known}"})


@dataclass
class Looking:
    """The tool that the model calls, and the queries it was called with."""

    length: int
    asked: list[str] = field(default_factory=list)

    @property
    def tool(self) -> Tool:
        """The tool `look`."""

        def look(query: str) -> str:
            self.asked.append(query)
            return f"note on {query!r}".ljust(self.length, ".")

        return Tool("look", "Look something up.", look)


START: dict[str, Callable[..., Any]] = {"messages": simulator.MessagesSimulator, "chat": chat.ChatSimulator}
"""The simulator of each API."""
