"""A run continues with the next model of its specialist when the current one cannot answer."""

import asyncio
import os
import sys
from dataclasses import replace

import pytest

from run_specialist.loop.retries import PATIENCE_WITH_OTHERS
from run_specialist.record.outcome import Exit
from tests.forked_program import ForkedProgram
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.model_chains import HAIKU, OPUS, SONNET, Chains, asked
from tests.wire.resumed_requests import LOOKER, look, message_bytes
from tests.wire.serving import write_specialist
from tests.wire.simulator import Gate, faults, replies

PROGRAM = """
import asyncio, sys
from run_specialist import Runner
from tests.loop_jobs import LOOK

async def main(root, store):
    async with Runner(root=root, tools=[LOOK], store=store) as runner:
        await runner.run(f"{root}/specialists/looker.md", "What is known?")

asyncio.run(main(*sys.argv[1:]))
"""
GONE = faults.ApiError(404, "not_found_error", "model: it was retired")
NO_CREDIT = faults.ApiError(400, "invalid_request_error", "Your credit balance is too low.")
THINKS = [
    replies.says(replies.thinking(f"hm {q}"), "I look.", replies.tool_use("look", {"query": q})) for q in ("a", "b")
]


@pytest.fixture
def chains(tmp_path, monkeypatch):
    """Provide a store and runs with chains of models."""
    return Chains(tmp_path, monkeypatch, f"sqlite:///{tmp_path}/runs.db")


def overloaded_after(script, then):
    """Return a model that is overloaded after a script, and the answers of all other models."""
    first, others = iter(script), iter(then)

    def policy(request):
        if request.body["model"] == SONNET:
            return next(first, faults.overloaded())
        return next(others)

    return policy


@pytest.mark.anyio
async def test_m_1_a_model_that_is_gone_is_replaced_before_the_first_turn(chains, messages_api):
    """404 at the first request: the next model answers, and nothing is said about a cache, because nothing was sent."""
    api = messages_api([GONE, look(replies, "a"), replies.answers("mice")])
    chains.use(api)
    outcome = await chains.ask(["opus", "haiku"])
    assert asked(api) == [OPUS, HAIKU, HAIKU]
    assert (outcome.status, outcome.answer, outcome.model) == ("answered", "mice", HAIKU)
    assert [(one.model, one.since_turn, one.turns) for one in outcome.models] == [(OPUS, 1, 0), (HAIKU, 1, 2)]
    assert "it was retired" in (outcome.models[0].failure or "")
    (changed,) = chains.named("model_changed")
    assert (changed.turn, changed.before, changed.model, changed.kind) == (1, OPUS, HAIKU, "model_missing")
    assert (changed.cold_tokens, changed.cold_cost_usd, changed.left_out) == (None, None, "")
    (warning,) = [text for text in outcome.warnings if "continues with" in text]
    assert warning.startswith(f"the run continues with {HAIKU}, because {OPUS} cannot answer (the API answered 404")
    assert chains.load().model == HAIKU


@pytest.mark.anyio
async def test_m_2_an_overload_in_the_middle(chains, messages_api):
    """529 after two turns: the same transcript continues without thinking, after at most ten seconds of retries."""
    api = messages_api(overloaded_after(THINKS, [look(replies, "c"), replies.answers("mice")]))
    chains.use(api)
    outcome = await chains.ask(["sonnet", "haiku"], tool_calls_limit=9)
    first = next(sent for sent in api.requests if sent.body["model"] == HAIKU)
    assert asked(api)[-2:] == [HAIKU, HAIKU]
    assert sum(event.seconds for event in chains.named("retrying")) == pytest.approx(PATIENCE_WITH_OTHERS, abs=0.1)
    assert b"hm" not in message_bytes(first)
    assert b"note on 'a'" in message_bytes(first)
    assert "did the work above; its thinking was left out" in message_bytes(first).decode()
    assert (outcome.answer, outcome.tool_calls.used, outcome.limits["turns"].used) == ("mice", 3, 4)
    (changed,) = chains.named("model_changed")
    assert changed.left_out == "the thoughts"
    assert changed.cold_tokens > 100
    assert changed.cold_cost_usd == pytest.approx(changed.cold_tokens * 1e-6, rel=1)
    turns = chains.load().turns
    assert outcome.cost_usd == pytest.approx(sum(turn.cost_usd for turn in turns))
    assert [one.cost_usd for one in outcome.models] == [
        pytest.approx(turns[0].cost_usd + turns[1].cost_usd),
        pytest.approx(turns[2].cost_usd + turns[3].cost_usd),
    ]
    assert outcome.usage == outcome.models[0].usage + outcome.models[1].usage
    assert any("which reads about" in text and "price about $" in text for text in outcome.warnings)


@pytest.mark.anyio
async def test_m_3_an_exhausted_quota_in_the_landing(chains, messages_api):
    """The credit ends before the landing: the next model lands, on the ladder of its own endpoint."""
    api = messages_api([*THINKS[:1], NO_CREDIT, replies.says(replies.respond("mice"))])
    chains.use(api)
    outcome = await chains.ask(["sonnet", "haiku"], tool_calls_limit=1)
    assert asked(api) == [SONNET, SONNET, HAIKU]
    # The first model cannot be forced, the second one can.
    assert "tool_choice" not in api.requests[1].body
    assert api.requests[2].body["tool_choice"]["name"] == "respond"
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "mice", "force")
    assert (outcome.landing.requests, outcome.landing.usage) == (1, outcome.models[1].usage)


@pytest.mark.anyio
async def test_m_4_the_next_model_is_on_the_other_api(chains, messages_api, chat_api):
    """From the Messages API to chat completions: messages are converted, and the calls go on."""
    api = messages_api([*THINKS, NO_CREDIT])
    other = chat_api([look(chat_replies, "c"), chat_replies.answers("mice")])
    chains.use(api, other)
    outcome = await chains.ask(["sonnet", "openai:some-model"])
    assert (outcome.answer, outcome.model, outcome.tool_calls.used) == ("mice", "openai:some-model", 3)
    assert outcome.cost_usd is None
    assert b"hm" not in message_bytes(other.requests[0])


@pytest.mark.anyio
async def test_m_4_odd_ids_of_a_server_are_replaced(chains, messages_api, chat_api):
    """Ids that the Messages API refuses are replaced, and the outputs of these calls can still be read by them."""
    odd = chat_replies.says(None, chat_replies.tool_call("look", {"query": "a"}, "functions.look:0"))
    first = chat_api([odd, chat_faults.error(429, "No credit.", code="insufficient_quota")])
    api = messages_api([replies.answers("mice")])
    chains.use(api, first)
    outcome = await chains.ask(["openai:some-model", "haiku"])
    assert outcome.answer == "mice"
    _, call, result = api.requests[0].messages
    assert call["content"][0]["id"] == result["content"][0]["tool_use_id"] != "functions.look:0"


@pytest.mark.anyio
async def test_m_5_no_model_helps(chains, messages_api):
    """If all fail, the error names each with its reason in one line, and the kind is that of the last one."""
    api = messages_api([look(replies, "a"), GONE, NO_CREDIT])
    chains.use(api)
    outcome = await chains.ask(["opus", "sonnet"])
    assert (outcome.status, outcome.exit_code, outcome.error_kind) == ("failed", Exit.PROVIDER, "quota")
    assert outcome.error is not None
    assert outcome.error.startswith(f"no model of this run answers: {OPUS}: the API answered 404")
    assert f"; {SONNET}: the API answered 400: Your credit balance" in outcome.error
    assert "\n" not in outcome.error
    assert "note on 'a'" in outcome.answer


@pytest.mark.anyio
@pytest.mark.parametrize("fault", [faults.unauthorised(), faults.ApiError(400, "invalid_request_error", "no")])
async def test_m_5_a_mistake_that_somebody_must_see_changes_nothing(chains, messages_api, fault):
    """A wrong key and an invalid request end the run as without other models."""
    api = messages_api([fault])
    chains.use(api)
    outcome = await chains.ask(["opus", "haiku"])
    assert (outcome.status, asked(api)) == ("failed", [OPUS])
    assert "no model of this run" not in str(outcome.error)


@pytest.mark.exhaustive
@pytest.mark.anyio
async def test_m_6_a_resumed_run_goes_on_with_the_model_it_had_changed_to(chains, messages_api):
    """A run that changed its model and failed is resumed with that model, and later changes once more."""
    api = messages_api([*THINKS, NO_CREDIT, look(replies, "c"), replies.refuses()])
    chains.use(api)
    first = await chains.ask(["sonnet", "haiku", "opus"])
    assert first.status == "failed"
    again = messages_api([look(replies, "d"), GONE, replies.answers("mice")])
    chains.use(again)
    outcome = await chains.resume()
    assert asked(again) == [HAIKU, HAIKU, OPUS]
    assert outcome.answer == "mice"
    assert [one.model for one in outcome.models] == [SONNET, HAIKU, OPUS]
    assert sum(one.turns for one in outcome.models) == outcome.limits["turns"].used == 6
    assert outcome.cost_usd == pytest.approx(sum(one.cost_usd for one in outcome.models))


@pytest.mark.anyio
async def test_m_7_a_fork_before_the_change_drops_the_thoughts_of_the_first_model(chains, messages_api):
    """A fork knows which model wrote each turn: it converts those of another one, and keeps its own as they are."""
    api = messages_api([*THINKS, NO_CREDIT, look(replies, "c"), replies.answers("mice")])
    chains.use(api)
    source = await chains.ask(["sonnet", "haiku"])
    again = messages_api([replies.answers("one"), replies.answers("two")])
    chains.use(again)
    before = await chains.fork(1, source.run_id)
    assert b"hm" not in message_bytes(again.requests[0])
    assert any("the thoughts of claude-sonnet-5-5 were left out" in text for text in before.warnings)
    after = await chains.fork(3, source.run_id)
    assert message_bytes(again.requests[1]) == message_bytes(api.requests[-1])
    assert (before.answer, after.answer) == ("one", "two")
    assert [one.model for one in after.models] == [HAIKU]


@pytest.mark.anyio
async def test_m_8_a_gate_that_the_first_model_has_closed_does_not_hold_the_next_one(chains, messages_api):
    """A 429 with a long wait closes the gate of the key; the run immediately continues with the next model."""
    api = messages_api(
        [
            faults.rate_limited(900),
            look(replies, "a"),
            replies.answers("mice"),
            replies.answers("rats"),
            replies.answers("bats"),
        ]
    )
    chains.use(api)
    outcome = await chains.ask(["opus", "haiku"])
    assert (outcome.answer, chains.named("waiting"), chains.named("retrying")) == ("mice", [], [])
    # Another run finds the gate closed, and asks the first model not at all.
    again = await chains.ask(["opus", "haiku"])
    assert (again.answer, asked(api)) == ("rats", [OPUS, HAIKU, HAIKU, HAIKU])
    # So does a run that is resumed after its change.
    assert (await chains.resume("And?")).answer == "bats"


@pytest.mark.exhaustive
@pytest.mark.anyio
async def test_m_8_a_later_run_of_the_model_is_held(chains, messages_api):
    """A run that begins with the model that was refused is held."""
    api = messages_api([faults.rate_limited(900), replies.answers("mice")])
    chains.use(api)
    await chains.ask(["opus", "haiku"])
    outcome = await chains.ask(["opus"])
    assert (outcome.status, outcome.retry_after is not None) == ("failed", True)
    assert asked(api) == [OPUS, HAIKU]


@pytest.mark.exhaustive
def test_m_6_after_a_kill_the_run_goes_on_with_the_second_model(chains, messages_api, store_url):
    """Killed with SIGKILL while the second model works on a reply: resumed with it, from the transcript that it got."""
    gate = Gate()
    held = replace(look(replies, "d"), gate=gate)
    api = messages_api([*THINKS, NO_CREDIT, look(replies, "c"), held, replies.answers("mice")])
    chains.use(api)
    for name in (".git", "specialists"):
        (chains.folder / name).mkdir()
    write_specialist(chains.folder, "looker", "model: [sonnet, haiku, opus]")
    program = ForkedProgram([sys.executable, "-c", PROGRAM, str(chains.folder), store_url], env=os.environ)
    gate.wait_for_request(timeout=15)
    program.kill()
    program.wait()
    gate.open()
    chains.url = store_url
    outcome = asyncio.run(chains.resume())
    assert asked(api) == [SONNET, SONNET, SONNET, HAIKU, HAIKU, HAIKU]
    assert message_bytes(api.requests[-1]).startswith(message_bytes(api.requests[-2]))
    assert (outcome.answer, outcome.tool_calls.used) == ("mice", 3)
    assert [(one.model, one.turns) for one in outcome.models] == [(SONNET, 2), (HAIKU, 2)]
    assert outcome.cost_usd == pytest.approx(sum(one.cost_usd for one in outcome.models))
    assert chains.load().model == HAIKU


@pytest.mark.exhaustive
@pytest.mark.anyio
async def test_m_8_the_items_of_a_batch_go_on_with_the_next_model(chains, messages_api):
    """A quota that is used up pauses no batch and counts as no failure as long as another model answers."""

    def policy(request):
        return faults.rate_limited(900) if request.body["model"] == OPUS else replies.answers("mice")

    api = messages_api(policy)
    chains.use(api)
    async with chains.runner() as runner:
        batch = runner.map(LOOKER, ["a", "b", "c"], "What of {item}?", model="opus,haiku", at_once=1, breaker=1)
        done = [one async for one in batch]
    assert [one.outcome.model for one in done] == [HAIKU] * 3
    assert (batch.counts.answered, batch.counts.failed, asked(api).count(OPUS)) == (3, {}, 1)
