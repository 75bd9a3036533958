"""The transcript of a run: an append-only history, and a tail that may still change."""

from run_specialist.loop.transcript import Transcript
from run_specialist.record.messages import Message, Reply, Stop, ToolResult, Usage

CALL = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
REPLY = Reply(Stop.WANTS_TOOLS, (CALL,), Usage(90, 5, 3, 2))


def test_an_instruction_becomes_history_only_when_its_request_is_answered():
    """An instruction becomes history when its request is answered; after a refusal it can be replaced."""
    said = Transcript([Message.user("What?")])
    assert said.messages("first")[-1].content[0]["text"] == "What?\nfirst"
    assert said.messages("second")[-1].content[0]["text"] == "What?\nsecond"
    said.enter(REPLY, [ToolResult("call_1", "mice")], "second")
    question, call, result = said.messages("third")
    assert question.content[0]["text"] == "What?\nsecond"
    assert call.role == "assistant"
    assert result.content[0]["content"] == "mice\nthird"


def test_s2_6_the_estimate_is_the_last_usage_plus_a_quarter_of_later_characters():
    """The estimate is the last usage plus a quarter of the characters after it, rounded up.

    Before the first reply only the question counts.
    """
    said = Transcript([Message.user("12345")])
    assert said.tokens == 2
    said.enter(REPLY, [ToolResult("call_1", "x" * 41)], None)
    assert said.tokens == 100 + 11


def test_after_a_pause_no_instruction_is_added():
    """After a pause no instruction is added to the model's message: there is no tail, even after a compaction."""
    said = Transcript([Message.user("What?")])
    said.enter(Reply(Stop.PAUSED, ({"type": "text", "text": "wait"},)), (), None)
    assert said.messages("now") == said.messages()
    said.shorten([Message.user("shorter"), Message("assistant", ({"type": "text", "text": "wait"},))], 7)
    assert said.messages("now")[-1].content == ({"type": "text", "text": "wait"},)
    assert said.tokens == 7


def test_a_shortened_transcript_has_its_new_size_and_takes_instructions():
    """A shortened transcript has its new size, and its tail is the last user message, which takes instructions."""
    said = Transcript([Message.user("What?")])
    said.shorten([Message.user("a" * 40)], 25)
    assert said.tokens == 25
    assert said.messages("now")[0].content[0]["text"] == "a" * 40 + "\nnow"
