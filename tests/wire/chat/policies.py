"""Ready chat models: functions of the request that reply to any number of requests."""

import json

from tests.wire.simulator.script import Policy
from tests.wire.structured_outputs import written

from .replies import ChatReply, calls, says, tool_call
from .simulator import Recorded


def always_tool(name: str, *, calls_per_turn: int = 1, answer: str = "what was found", obeys: bool = True) -> Policy:
    """Play a model that calls a tool forever, and obeys `tool_choice` and the order to respond unless it is deaf."""

    def policy(request: Recorded) -> ChatReply:
        choice = request.tool_choice
        if obeys and request.schema is not None:
            return says(json.dumps(written(request.schema, answer)))
        if obeys and choice == "none":
            return says(answer)
        if obeys and (isinstance(choice, dict) or "`respond`" in request.last_line):
            # OpenAI's own servers report `stop` as the finish reason of a forced call.
            return says(None, tool_call("respond", {"answer": answer}), finish_reason="stop")
        first = len(request.results)
        return calls(name, *({"query": f"question {first + extra}"} for extra in range(calls_per_turn)))

    return policy
