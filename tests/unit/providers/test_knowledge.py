"""What a provider learns about its endpoint from refusals and replies."""

import json

import pytest

from run_specialist.errors import ChoiceRefused, ForcingRefused, SchemaRefused
from run_specialist.providers.base import Capabilities, Choice, Request
from run_specialist.providers.knowledge import Knowledge
from run_specialist.record.messages import Message, Reply, Stop
from run_specialist.specialist.answer_schema import strict
from run_specialist.tools.respond import respond_tool
from tests.scripted_provider import calls, says

SCHEMA = strict(respond_tool().input_schema)
WRITTEN = json.dumps({"answer": "Mice.", "evidence": None, "gaps": []})
LOOK, RESPOND = calls(("look", {})), calls(("look", {}), ("respond", {"answer": "Mice."}))


def request(choice):
    """Return a request with this choice."""
    schema = SCHEMA if choice is Choice.SCHEMA else None
    return Request([Message.user("What?")], choice, 100, schema=schema)


def learnt(choice, reply):
    """Return what is known after a reply to a request: forced choice, schema, none."""
    knowledge = Knowledge(Capabilities(forced_choice=True, max_output_tokens=9, schema=True))
    knowledge.learn_from(request(choice), reply)
    known = knowledge.capabilities
    return known.forced_choice, known.schema, known.none_choice


@pytest.mark.parametrize(
    ("choice", "reply", "known"),
    [
        (Choice.RESPOND, RESPOND, (True, True, True)),
        (Choice.RESPOND, LOOK, (False, True, True)),
        (Choice.RESPOND, says("Mice."), (False, True, True)),
        (Choice.SCHEMA, says(WRITTEN), (True, True, True)),
        (Choice.SCHEMA, says(f"<think>hm</think>\n{WRITTEN}"), (True, True, True)),
        (Choice.SCHEMA, says("Mice."), (True, False, True)),
        (Choice.SCHEMA, says('{"answer": "Mice."}'), (True, False, True)),
        (Choice.SCHEMA, says('{"answer": 1, "evidence": null, "gaps": []}'), (True, False, True)),
        (Choice.SCHEMA, says("[" * 100_000), (True, False, True)),
        (Choice.SCHEMA, LOOK, (True, False, True)),
        (Choice.SCHEMA, Reply(Stop.WANTS_TOOLS, (*says(WRITTEN).content, *LOOK.content)), (True, False, True)),
        (Choice.AUTO, says("Mice."), (True, True, True)),
        (Choice.NONE, LOOK, (True, True, True)),
    ],
)
def test_g2_a_reply_shows_whether_the_endpoint_obeys(choice, reply, known):
    """A force answered with something else and a schema answered with other text are remembered; nothing else is."""
    assert learnt(choice, reply) == known


@pytest.mark.parametrize("choice", [Choice.RESPOND, Choice.SCHEMA])
@pytest.mark.parametrize(
    "reply",
    [*(says("Mi", stop) for stop in (Stop.TRUNCATED, Stop.PAUSED, Stop.REFUSED)), says(""), says("<think>hm")],
    ids=["truncated", "paused", "refused", "empty", "thinking"],
)
def test_g2_a_reply_that_is_no_answer_teaches_nothing(choice, reply):
    """Truncated, paused, refused and empty replies say nothing about the endpoint."""
    assert learnt(choice, reply) == (True, True, True)


@pytest.mark.parametrize(
    ("choice", "error", "known"),
    [
        (Choice.RESPOND, ForcingRefused, (False, True, True)),
        (Choice.SCHEMA, SchemaRefused, (True, False, True)),
        (Choice.NONE, ChoiceRefused, (True, True, False)),
    ],
)
def test_s0_10_a_refusal_is_remembered(choice, error, known):
    """Each refused choice has an error of its own and is not tried again."""
    knowledge = Knowledge(Capabilities(forced_choice=True, max_output_tokens=9, schema=True))
    assert type(knowledge.refused(choice, "no")) is error
    capabilities = knowledge.capabilities
    assert (capabilities.forced_choice, capabilities.schema, capabilities.none_choice) == known
