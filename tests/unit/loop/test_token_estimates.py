"""Estimating a request serialises only new messages, and replaced messages are sent in their new form."""

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.transport import EncodedMessages
from run_specialist.record.messages import Message


def tool_call_turn(name: str) -> Message:
    """Return a reply that calls a tool, with this call id."""
    return Message("assistant", ({"type": "tool_use", "id": name, "name": "look", "input": {}},))


def test_each_message_is_serialised_once():
    """Each message is serialised once, however many requests carry it."""
    told, serialised = EncodedMessages(), []
    said = [Message.user("?"), tool_call_turn("1"), Message.user("a"), tool_call_turn("2")]
    for count in (1, 3, 4):
        told.take(said[:count], lambda message: serialised.append(message) or message.encoded)
    assert serialised == said
    assert (told.ids, told.pieces) == ({"1", "2"}, [message.encoded for message in said])


def test_a_replaced_message_is_sent_in_its_new_form():
    """A message replaced in the middle, such as an archived result, is sent again.

    The last message can still be the same object.
    """
    told, last = EncodedMessages(), tool_call_turn("3")
    told.take([Message.user("?"), tool_call_turn("1"), Message.user("long"), last], lambda message: message.encoded)
    now = [Message.user("?"), tool_call_turn("2"), Message.user("short"), last]
    told.take(now, lambda message: message.encoded)
    assert (told.ids, told.pieces) == ({"2", "3"}, [message.encoded for message in now])


POOL = [Message.user(str(number)) if number % 2 else tool_call_turn(str(number)) for number in range(6)]


@given(st.lists(st.lists(st.sampled_from(POOL), min_size=1, max_size=6), max_size=6))
def test_any_sequence_of_transcripts_is_sent_unchanged(transcripts):
    """Transcripts that are appended to, cut, replaced or reordered are each sent as they are."""
    told = EncodedMessages()
    for messages in transcripts:
        told.take(messages, lambda message: message.encoded)
        assert told.pieces == [message.encoded for message in messages]
        assert told.ids == {block["id"] for message in messages for block in message.blocks if "id" in block}
