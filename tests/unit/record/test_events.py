"""Events as JSON values."""

from run_specialist.record.events import BudgetSpent, Called, Replied, Started
from run_specialist.record.messages import Usage


def test_an_event_as_json_has_all_fields_and_the_name_first():
    """Nested values are objects too."""
    event = Replied(3, "answered", "", "words", Usage(1, 2, 3, 4), 0.5)
    printed = event.as_json()
    assert next(iter(printed)) == "event"
    assert printed == {
        "event": "reply",
        "turn": 3,
        "stop": "answered",
        "reason": "",
        "text": "words",
        "usage": {
            "input_tokens": 1,
            "cache_read_input_tokens": 2,
            "cache_creation_input_tokens": 3,
            "output_tokens": 4,
            "web_search_requests": 0,
        },
        "cost_usd": 0.5,
    }
    assert BudgetSpent("tool_calls", 3, 1, 2, "silent").as_json()["remaining"] == 2


def test_a_listener_may_change_the_json_of_an_event():
    """The arguments of a call and the limits stay as they are, because the run continues with them."""
    arguments, limits = {"paths": ["a.md"]}, {"turns": 3.0}
    Called("started", "toolu_1", "read", arguments).as_json()["arguments"]["paths"].append("b.md")
    Started("run", "finder", "sonnet", "Why?", (), limits).as_json()["limits"].clear()
    assert arguments == {"paths": ["a.md"]}
    assert limits == {"turns": 3.0}
