"""Each rule of the simulator refuses an invalid request and accepts the valid one."""

import pytest

from tests.wire.simulator import ALL_RULES, RULES, MessagesSimulator, Recorded, Reply, replies
from tests.wire.simulator.client import post
from tests.wire.simulator.examples.base import Example
from tests.wire.simulator.examples.table import EXAMPLES

BY_ID = {rule.id: rule for rule in RULES}


def one_thought(_: Recorded) -> Reply:
    """Return a reply with two thinking blocks, a text and a call."""
    return replies.says(
        replies.thinking("So."),
        replies.redacted_thinking(),
        "Let me look.",
        replies.tool_use("search", {"q": "ü"}),
    )


def test_every_rule_has_an_example() -> None:
    """Each rule in the table has a request that breaks it, and rule ids are unique."""
    assert {example.rule for example in EXAMPLES} == ALL_RULES
    assert len(ALL_RULES) == len(RULES)


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{n}-{example.rule}" for n, example in enumerate(EXAMPLES)])
def test_an_invalid_request_is_refused_and_a_valid_one_accepted(example: Example) -> None:
    """The invalid request breaks exactly its rule and gets the API's error; the valid one gets a reply."""
    rule = BY_ID[example.rule]
    with MessagesSimulator(one_thought, may_refuse=ALL_RULES) as api:
        if example.opening is not None:
            assert post(api.base_url, example.opening).status == 200
        content = api.requests[0].content if example.opening is not None else []
        wrong, right = (part(content) if callable(part) else part for part in (example.wrong, example.right))
        response = post(api.base_url, wrong, method=example.method, path=example.path, headers=example.headers)
        refused = api.requests[-1]
        good = post(api.base_url, right)
        taken = api.requests[-1]
    assert (refused.rule, response.status) == (example.rule, rule.status), refused.error
    error = response.json
    assert error["error"]["type"] == rule.kind
    assert example.message in error["error"]["message"]
    assert error["type"] == "error"
    assert error["request_id"] == response.headers["request-id"]
    assert (taken.rule, good.status) == (None, 200), taken.error
