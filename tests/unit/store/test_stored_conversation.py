"""Conversation rows made from stored messages, without a database."""

from dataclasses import replace

from run_specialist.loop.compaction import FlattenedTranscript, summary_pair
from run_specialist.record.journal import Received, Returned, RunSnapshot
from run_specialist.record.messages import Message, Reply, Stop, ToolCall, ToolResult
from run_specialist.store.stored import StoredMessage, StoredRun, transcript_rows

QUESTION = Message.user("What is known?")


def kept(*messages, part=0, copies=0):
    """Return stored messages, the first `copies` of which were copied by a summary."""
    return [StoredMessage(part, at, at < copies, message) for at, message in enumerate(messages)]


def run(messages, *, turns=(), calls=(), acted_on=0):
    """Return a stored run.

    acted_on: Number of turns whose replies were processed.
    """
    return StoredRun(
        "run-1", None, "looker", "scripted", "What is known?", "interrupted", 0.0, None, 0, 0.0,
        frozen={}, snapshot=RunSnapshot({"turns": acted_on}), outcome=None,
        turns=tuple(turns), calls=tuple(calls), messages=tuple(messages), events=(),
    )  # fmt: skip


def call(number, name="look"):
    """Return the block of a tool call."""
    return {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {"number": number}}


def said(*blocks):
    """Return an assistant message."""
    return Message("assistant", blocks)


def text(words):
    """Return a text block."""
    return {"type": "text", "text": words}


def answered(*numbers, words=None):
    """Return the message with the results of some calls."""
    return Message.results([ToolResult(f"call_{number}", f"result {number}") for number in numbers]).with_instruction(
        words
    )


def short(rows):
    """Return the kind and the text of each row."""
    return [(row["kind"], row.get("text", row.get("content", row.get("id")))) for row in rows]


def test_calls_and_results_follow_the_order_of_their_messages():
    """Calls and results are in the order of their messages; a result has its tool's name and whether it failed."""
    failed = Message.results([ToolResult("call_1", "one"), ToolResult("call_2", "no such note", is_error=True)])
    rows = transcript_rows(run(kept(QUESTION, said(text("I look."), call(1), call(2, "read")), failed)))
    assert rows == [
        {"role": "user", "kind": "user", "text": "What is known?"},
        {"role": "assistant", "kind": "assistant", "text": "I look."},
        {"role": "assistant", "kind": "tool_call", "name": "look", "id": "call_1", "arguments": {"number": 1}},
        {"role": "assistant", "kind": "tool_call", "name": "read", "id": "call_2", "arguments": {"number": 2}},
        {
            "role": "tool",
            "kind": "tool_result",
            "name": "look",
            "id": "call_1",
            "content": "one",
            "is_error": False,
        },
        {
            "role": "tool",
            "kind": "tool_result",
            "name": "read",
            "id": "call_2",
            "content": "no such note",
            "is_error": True,
        },
    ]  # fmt: skip


def test_a_summary_is_shown_once_where_it_was_made():
    """A summary is shown once, where it was made; messages it kept are not repeated.

    The same holds for a second one.
    """
    first = kept(QUESTION, said(call(1)), answered(1), said(call(2)), answered(2))
    pair = summary_pair("One is known.", 1, [])
    second = kept(QUESTION, *pair, said(call(2)), answered(2), said(call(3)), answered(3), part=1, copies=5)
    again = summary_pair("One and two are known.", 1, pair)
    third = kept(QUESTION, *again, said(call(3)), answered(3), said(text("Three.")), part=2, copies=5)
    assert short(transcript_rows(run(first + second + third)))[1:] == [
        ("tool_call", "call_1"),
        ("tool_result", "result 1"),
        ("tool_call", "call_2"),
        ("tool_result", "result 2"),
        ("summary", "One is known."),
        ("tool_call", "call_3"),
        ("tool_result", "result 3"),
        ("summary", "One and two are known."),
        ("assistant", "Three."),
    ]


def test_a_summary_inside_the_first_message_is_shown():
    """A summary inside the first message, used where thinking binds the history, is shown in the same way."""
    first = kept(QUESTION, said(call(1)), answered(1))
    retold = FlattenedTranscript(QUESTION.blocks, "One is known.").message()
    second = kept(retold, said(text("That is it.")), part=1, copies=1)
    assert short(transcript_rows(run(first + second)))[2:] == [
        ("tool_result", "result 1"),
        ("summary", "One is known."),
        ("assistant", "That is it."),
    ]


def test_text_appended_to_a_result_after_a_summary_is_kept():
    """A text appended to a result after a summary is not lost: the result is shown with it, once."""
    first = kept(QUESTION, said(call(1)), answered(1), said(call(2)), answered(2))
    copies = (QUESTION, *summary_pair("One is known.", 1, []), said(call(2)), answered(2, words="Enough."))
    second = kept(*copies, said(text("Two.")), part=1, copies=5)
    assert short(transcript_rows(run(first + second)))[-3:] == [
        ("tool_result", "result 2\nEnough."),
        ("summary", "One is known."),
        ("assistant", "Two."),
    ]


def test_an_interrupted_reply_is_shown_with_its_results():
    """A reply whose calls were interrupted is shown with the results that exist: here two of three."""
    reply = Reply(Stop.WANTS_TOOLS, (text("On I go."), call(2), call(3), call(4)))
    turn = Received(2, "auto", False, reply, 0.0, 0.0)
    done = [
        Returned(at, of_turn, ToolCall(f"call_{at}", "look", {}), f"result {at} whole", size, at == 3, note, False, 0.0)
        for at, of_turn, size, note in ((1, 1, 99, ""), (2, 2, 8, "[cut]"), (3, 2, 99, ""))
    ]
    earlier = kept(QUESTION, said(call(1)), answered(1))
    cut_off = run(earlier, turns=[turn], calls=done, acted_on=1)
    rows = transcript_rows(cut_off)
    assert short(rows)[3:] == [
        ("assistant", "On I go."),
        ("tool_call", "call_2"),
        ("tool_call", "call_3"),
        ("tool_call", "call_4"),
        ("tool_result", "result 2\n[cut]"),
        ("tool_result", "result 3 whole"),
    ]
    assert [(row["name"], row["is_error"]) for row in rows[-2:]] == [("look", False), ("look", True)]
    acted_on = replace(cut_off, snapshot=RunSnapshot({"turns": 2}))
    assert short(transcript_rows(acted_on)) == short(rows)[:3]
