"""Complete and limit a reply before it is charged, so that the loop, the store and a resumed run see the same one."""

from dataclasses import replace

from run_specialist.loop.compaction.plan import estimate, tokens
from run_specialist.loop.job import RunContext
from run_specialist.loop.transcript import Transcript
from run_specialist.providers.base import Choice
from run_specialist.providers.json_reader import unique_id
from run_specialist.providers.leaked_calls import CALLS_AS_TEXT, leaked_calls, with_calls
from run_specialist.record.blocks import Block
from run_specialist.record.events import Warned
from run_specialist.record.messages import Message, Reply, Usage, encode
from run_specialist.tools.respond import NAME as RESPOND

MOST_CALLS = 200
"""Maximum number of tool calls kept per reply: each costs tokens in every later request, even if it is skipped."""


class ReplyNormalizer:
    """Normalizes the replies of one run."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._usage_is_estimated = False

    def normalized(self, reply: Reply, transcript: Transcript, turn: int, choice: Choice) -> Reply:
        """Return a reply with usage, with calls that were written as text, and with at most MOST_CALLS calls.

        transcript: the messages of the request.
        turn: number of the turn, from 1.
        choice: tool choice of the request.
        """
        reply = self._with_usage(reply, transcript)
        reply = self._with_leaked_calls(reply, transcript, turn, choice)
        return _bounded(reply)

    def _with_usage(self, reply: Reply, transcript: Transcript) -> Reply:
        """Return a reply with its token usage, estimated if the server reports none: limits need a number."""
        if reply.usage.total_tokens or not self._run.job.provider.capabilities.is_language_model:
            return reply
        if not self._usage_is_estimated:
            self._usage_is_estimated = True
            self._run.observers.notify(Warned("the server reports no token usage; it is estimated"))
        opening, answer = self._run.job.opening, Message("assistant", reply.content)
        front = len(opening.system) + sum(len(encode(tool.definition)) for tool in opening.tools)
        return replace(reply, usage=Usage(transcript.tokens + tokens(front), 0, 0, estimate(None, [answer])))

    def _with_leaked_calls(self, reply: Reply, transcript: Transcript, turn: int, choice: Choice) -> Reply:
        """Return a reply in which calls written as text are real calls, with ids that are unique in the run."""
        opening = self._run.job.opening
        # The bare input of `respond` may match the schema of the answer, or be the JSON that was requested.
        bare_answer = self._run.job.answer_schema is None and choice is not Choice.SCHEMA
        calls = leaked_calls(reply, opening.tools.names, bare_answer=bare_answer)
        if not calls:
            return reply
        if any(call.is_named for call in calls) and CALLS_AS_TEXT not in self._run.observers.warnings:
            self._run.observers.notify(Warned(CALLS_AS_TEXT))
        blocks = (block for message in transcript.messages() for block in message.blocks)
        taken = {block["id"] for block in blocks if block["type"] == "tool_use"}
        # With the number of the turn an id is new even if a summary has replaced the earlier calls.
        ids = [f"written_{turn}_{number}" for number in range(1, len(calls) + 1)]
        return with_calls(reply, calls, [unique_id(each, taken, f"{each}_") for each in ids])


def _bounded(reply: Reply) -> Reply:
    """Return a reply with at most MOST_CALLS tool calls; a `respond` after them is kept."""
    tool_uses: list[Block] = [block for block in reply.content if block.get("type") == "tool_use"]
    dropped = {id(call) for call in tool_uses[MOST_CALLS:] if call.get("name") != RESPOND}
    if not dropped:
        return reply
    warning = f"the model made {len(reply.calls):,} tool calls in one reply; those after call {MOST_CALLS} were dropped"
    kept = tuple(block for block in reply.content if id(block) not in dropped)
    return replace(reply, content=kept).with_warning(warning)
