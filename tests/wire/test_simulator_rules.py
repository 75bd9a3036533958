"""Each rule of the simulator refuses an invalid request and accepts the valid one."""

import pytest

from tests.wire.simulator import ALL_RULES, RULES, MessagesSimulator, Recorded, Reply, replies
from tests.wire.simulator.client import post
from tests.wire.simulator.examples.base import OLDER, OPUS, Body, Example, chat
from tests.wire.simulator.examples.table import EXAMPLES
from tests.wire.simulator.examples.thinking import later, replayed
from tests.wire.simulator.prompt import THINKING, Block

BY_ID = {rule.id: rule for rule in RULES}


def without_thoughts(content: list[Block]) -> list[Block]:
    """Return the content without its thinking blocks."""
    return [block for block in content if block["type"] not in THINKING]


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


@pytest.mark.parametrize("model", [OPUS, OLDER])
def test_after_a_tool_loop_thinking_may_be_omitted(model: str) -> None:
    """After the next user message, earlier thinking blocks may be omitted and the thinking option may change."""
    with MessagesSimulator(one_thought) as api:
        opening = chat(model=model, thinking={"type": "adaptive"}, system="Be brief.")
        content = post(api.base_url, opening).json["content"]
        body = later(without_thoughts, model=model, system="Be long.")(content)
        body["thinking"] = {"type": "between_tools" if model == OPUS else "disabled"}
        assert post(api.base_url, body).status == 200


@pytest.mark.parametrize("model", [OPUS, OLDER])
def test_a_transcript_is_accepted_by_another_simulator(model: str) -> None:
    """A transcript with thinking is accepted by another simulator: signatures are checked without stored state."""
    fields: Body = {"model": model, "thinking": {"type": "adaptive"}}
    with MessagesSimulator(one_thought) as api:
        content = post(api.base_url, chat(**fields)).json["content"]
    with MessagesSimulator(one_thought) as api:
        assert post(api.base_url, later(**fields)(content)).status == 200


def test_older_models_accept_an_edited_history() -> None:
    """Older models accept an edited history; only the newest bind a thinking block to the prompt before it."""
    with MessagesSimulator(one_thought) as api:
        fields: Body = {"model": OLDER, "thinking": {"type": "adaptive"}}
        content = post(api.base_url, chat(**fields)).json["content"]
        assert post(api.base_url, replayed(system="Be brief.", **fields)(content)).status == 200


def test_newest_models_think_by_default() -> None:
    """Requesting adaptive thinking from Opus 5.5 in a tool loop changes nothing, since it is that model's default."""
    with MessagesSimulator(one_thought) as api:
        content = post(api.base_url, chat(model=OPUS)).json["content"]
        body = replayed(model=OPUS, thinking={"type": "adaptive"})(content)
        assert post(api.base_url, body).status == 200
