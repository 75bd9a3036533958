"""The five presets over the wire: what a specialist's file says, and what the API is then asked."""

import asyncio
import json

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ToolError
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.record.messages import text_of
from run_specialist.record.outcome import Exit
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool
from tests.wire.simulator import Gate, faults, policies
from tests.wire.simulator.replies import answers, calls, redacted_thinking, says, text, thinking, tool_use
from tests.wire.specialists import FORCED, NO_TOOLS, Asker, batches, looks, note

pytestmark = pytest.mark.anyio
WARNING = (
    "You have used most of your available tool calls. Please complete your research now and prepare to provide your "
    "final response. You may make one more tool call if essential, but prioritize completion."
)
NOTICE = "Answer directly now, from what is here, without more tool calls."
ORDER = "0 tool calls remain and only a call of `respond` will be heard"
DONE = answers("what was found")


@pytest.fixture(params=["json", "stream"])
def ask(messages_api, tmp_path, request):
    """Ask once for whole replies and once for streamed ones."""
    return Asker(messages_api, tmp_path, stream=request.param == "stream")


@pytest.fixture
def ask_once(messages_api, tmp_path):
    """Ask for whole replies, where streaming adds nothing."""
    return Asker(messages_api, tmp_path, stream=False)


def last_lines(told):
    """Return what stands behind the raw result in each request, None where there is nothing."""
    ends = [results[-1].partition("\n")[2] for results in told.results]
    return [end or None for end in ends]


# Soft warning


async def test_s1_1_the_warning_comes_with_request_12_of_12(ask):
    """One call a turn: the eleventh result ends with it, none before or after does, and all twelve calls run."""
    told = await ask(policies.always_tool("look"), "preset: soft-warning", "tool_calls_limit: 12")
    assert told.carrying(WARNING) == [12]
    assert last_lines(told) == [None] * 10 + [WARNING, None]
    assert told.requests[-1].raw.count(WARNING.encode()) == 1
    assert told.choices == [None] * 12 + [FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used, told.outcome.warnings) == ("landed", 12, ())


@pytest.mark.parametrize(
    ("limit", "sizes", "warned"),
    [
        (12, [2] * 6, [6]),
        (11, [2] * 6, [6]),
        (13, [2] * 7, [7]),
        (6, [1, 3, 2], [3]),
        (6, [3, 1, 1, 1], [2]),
        (5, [2, 2, 2], [3]),
        (6, [1, 1, 4], []),
        (6, [1, 5], []),
        (3, [4], []),
    ],
)
async def test_s1_1_the_warning_comes_before_the_last_turn_that_has_calls(ask_once, limit, sizes, warned):
    """However many calls a turn makes: as soon as no more are left than it made; never once they are spent."""
    told = await ask_once([*batches(*sizes), DONE], "preset: soft-warning", f"tool_calls_limit: {limit}")
    assert told.carrying(WARNING) == warned
    assert told.requests[-1].raw.count(WARNING.encode()) == len(warned)
    for number in warned:
        *before, last = told.results[number - 2]
        assert last.endswith(f"\n{WARNING}")
        assert not any(WARNING in result for result in before)
    assert told.outcome.tool_calls.used == limit


@pytest.mark.parametrize(("last", "warned"), [(10_000, [6]), (9_999, [7])])
async def test_s1_2_the_warning_comes_at_90_000_of_100_000_characters(ask, last, warned):
    """Exactly there, with many calls left, and once in all, although the calls run out later."""
    sizes = iter([20_000, 20_000, 20_000, 20_000, last, 1, 1, 1])
    tool = Tool("look", "Looks.", lambda query: "x" * next(sizes))
    told = await ask([*batches(*[1] * 8), DONE], "preset: soft-warning", "tool_calls_limit: 9", tools=[tool])
    assert told.carrying(WARNING) == warned
    assert told.requests[-1].raw.count(WARNING.encode()) == 1
    assert told.outcome.limits["characters"].limit == 100_000
    assert (told.outcome.status, told.outcome.warnings) == ("answered", ())


async def test_s1_2_a_limit_of_the_file_moves_the_warning(ask_once):
    """90 % of what the file says, in whole characters: 9 of 10."""
    tool = Tool("look", "Looks.", lambda query: "x" * (8 if query == "1.0" else 1))
    told = await ask_once([*batches(1, 1), DONE], "preset: soft-warning", "tool_chars_limit: 10", tools=[tool])
    assert told.carrying(WARNING) == [3]


@pytest.mark.parametrize("limit", [0, 1])
async def test_s1_3_no_warning_comes_before_the_first_call(ask, limit):
    """With one call there is no moment for it, with none even less: the run lands without a word."""
    told = await ask(policies.always_tool("look"), "preset: soft-warning", f"tool_calls_limit: {limit}")
    assert not any(WARNING.encode() in request.raw for request in told.requests)
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", limit)
    assert told.choices == [None] * limit + [FORCED]


@pytest.mark.parametrize("sizes", [[1] * 12, [2] * 6, [5, 5, 5]])
async def test_s1_4_a_call_after_the_warning_runs_and_its_result_reaches_the_model(ask, sizes):
    """Every call that was run is answered with its output in the very next request."""
    told = await ask([*batches(*sizes), DONE], "preset: soft-warning", "tool_calls_limit: 12")
    ran = told.phases("finished")
    answered = {call_id: content for request in told.requests for call_id, content in request.results.items()}
    assert len(ran) == told.outcome.tool_calls.used == 12
    assert all(answered[call_id].startswith("note on ") for call_id in ran)
    (warned,) = told.carrying(WARNING)
    assert set(told.requests[warned].results) & set(ran)


@pytest.mark.parametrize(("model", "choice"), [("haiku", FORCED), ("sonnet", None)])
async def test_s1_5_a_result_over_the_remaining_characters_is_cut_and_then_the_run_lands(ask, model, choice):
    """What fits is kept, its end is marked, and the next request is the landing."""
    tool = Tool("look", "Looks.", lambda query: "abcdefgh")
    lines = ("preset: soft-warning", "tool_chars_limit: 20")
    told = await ask([*batches(1, 2), DONE], *lines, tools=[tool], model=model)
    first, cut = told.results[1]
    assert first == "abcdefgh"
    if choice:
        assert cut == "abcd\n[truncated]"
    else:
        assert cut.startswith(f"abcd\n[truncated]\n{ORDER}")
    assert told.choices == [None, None, choice]
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "characters")
    assert told.outcome.limits["characters"].used == 20


async def test_s1_5_a_result_that_fits_exactly_is_whole_and_the_run_lands(ask_once):
    """Nothing was taken away, so nothing is marked."""
    tool = Tool("look", "Looks.", lambda query: "abcdefgh")
    told = await ask_once([*batches(1), DONE], "preset: soft-warning", "tool_chars_limit: 8", tools=[tool])
    assert told.results == [["abcdefgh"]]
    assert told.choices == [None, FORCED]


SECRET, HIDDEN = "what I really think", "cannot be read"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ([thinking(SECRET), text("one")], "one"),
        ([text("one"), thinking(SECRET)], "one"),
        ([thinking(SECRET), redacted_thinking(HIDDEN), text("one"), text("two")], "one\ntwo"),
        ([redacted_thinking(HIDDEN), text("one"), thinking(SECRET), text("two"), text("three")], "one\ntwo\nthree"),
    ],
)
async def test_s1_6_the_answer_is_found_by_type_and_thinking_never_leaks(ask, content, answer):
    """In whatever order the blocks come; a watcher, the events and the outcome see the texts alone."""
    opening = says(thinking(SECRET), redacted_thinking(HIDDEN), tool_use("look", {"query": "a"}))
    told = await ask([opening, says(*content)], "preset: soft-warning", model="sonnet")
    assert (told.outcome.status, told.outcome.answer) == ("answered", answer)
    seen = json.dumps([event.as_json() for event in told.events]) + "".join(told.pieces)
    assert SECRET not in seen
    assert HIDDEN not in seen


async def test_s1_6_an_answer_that_is_plain_text_is_taken(ask_once):
    """Some servers send a string where the API sends blocks."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"type": "message", "role": "assistant", "content": "in plain words", "usage": usage}
    told = await ask_once([faults.json_value({**message, "stop_reason": "end_turn"})], "preset: soft-warning")
    assert (told.outcome.status, told.outcome.answer) == ("answered", "in plain words")


@pytest.mark.parametrize("silent", [[thinking(SECRET)], [thinking(SECRET), redacted_thinking(HIDDEN)]])
async def test_s1_6_thinking_alone_is_empty_one_retry_then_an_honest_status(ask, silent):
    """The same request goes out once more; after a second time: failed, exit code 4, what was gathered is kept."""
    told = await ask([looks("a"), says(*silent), says(*silent)], "preset: soft-warning", model="sonnet")
    assert told.requests[1].messages == told.requests[2].messages
    assert (told.outcome.status, told.outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert note("a") in told.outcome.answer
    assert SECRET not in json.dumps(told.outcome.as_json())

    told = await ask([looks("a"), says(*silent), says(*silent[:1], "one")], "preset: soft-warning", model="sonnet")
    assert (told.outcome.status, told.outcome.answer) == ("answered", "one")


def failing(query):
    """Fail for each query in a way of its own."""
    if query == "kindly":
        raise ToolError("no such place; try another")
    raise RuntimeError("it broke")


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("look", {"query": "kindly"}, "no such place; try another"),
        ("look", {"query": "badly"}, "it broke"),
        ("look", {"question": 1}, "query"),
        ("fly", {"query": "up"}, "no such tool"),
    ],
)
async def test_s1_7_a_failure_goes_to_the_model_and_spends_budget(ask, name, arguments, why):
    """A result that is marked as an error, names the tool and says why; two of them spend a limit of two."""
    tool = Tool("look", "Looks.", failing)
    script = [calls(name, arguments), calls(name, arguments), DONE]
    told = await ask(script, "preset: soft-warning", "tool_calls_limit: 2", tools=[tool])
    for request in told.requests[1:]:
        (block,) = request.messages[-1]["content"]
        assert block["is_error"] is True
        assert block["content"].startswith(f"{name} failed: ")
        assert why in block["content"]
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.failed) == (2, 2)


# Finalize


async def test_s2_1_the_limit_spans_the_whole_run(ask):
    """Three turns use up three calls; it is no limit of a turn, and not of a message."""
    told = await ask(policies.ignores_everything("look"), "preset: finalize", "tool_calls_limit: 3")
    assert len(told.phases("finished")) == 3
    assert len(told.phases("skipped")) == len(told.requests) - 3
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("partial", 3)


async def test_s2_2_a_batch_that_straddles_the_limit(ask):
    """3 calls, N = 2: two run in order, the third is told that it was not run; one message, in call order."""
    told = await ask([looks("a", "b", "c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    asked_for = [block["id"] for block in told.requests[1].messages[1]["content"]]
    blocks = told.requests[1].messages[2]["content"]
    assert len(told.requests[1].messages) == 3
    assert [block["tool_use_id"] for block in blocks] == asked_for
    assert [block["content"] for block in blocks[:2]] == [note("a"), note("b")]
    assert blocks[2]["content"].startswith("Not run: limit reached, look skipped.")
    assert [block.get("is_error", False) for block in blocks] == [False, False, True]
    assert told.phases("skipped") == asked_for[2:]
    assert told.phases("finished") == told.phases("started") == asked_for[:2]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.skipped) == (2, 1)
    assert (told.outcome.status, told.outcome.answer) == ("landed", "done")


async def test_s2_4_the_notice_stands_beside_the_first_skipped_result_of_a_straddling_batch(ask):
    """3 calls, N = 2: request 2 carries the notice, once, and it is the first counted landing request."""
    told = await ask([looks("a", "b", "c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    *ran, skipped = told.results[0]
    assert ran == [note("a"), note("b")]
    assert skipped.splitlines()[0] == "Not run: limit reached, look skipped."
    assert skipped.endswith(NOTICE)
    assert told.carrying(NOTICE) == [2]
    assert told.requests[1].raw.count(NOTICE.encode()) == 1
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 1)


async def test_s2_4_a_straddling_batch_and_then_more_calls_meet_the_next_rung(ask):
    """The notice stands once; a model that calls tools all the same may call none after that."""
    told = await ask([looks("a", "b", "c"), looks("d"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert told.carrying(NOTICE) == [2]
    assert told.choices == [None, None, NO_TOOLS]
    assert (told.outcome.landing.how, told.outcome.landing.requests) == ("none", 2)


async def test_s2_3_s2_4_the_notice_comes_only_when_the_model_asks_again(ask):
    """2 calls, then 1, N = 2: nothing is said at the limit, then the call is skipped and the notice stands beside."""
    told = await ask([looks("a", "b"), looks("c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert told.results[0] == [note("a"), note("b")]
    (result,) = told.results[1]
    skipped, notice = result.splitlines()
    assert skipped == "Not run: limit reached, look skipped."
    assert notice.endswith(NOTICE)
    assert told.choices == [None] * 3
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 1)


async def test_s2_3_a_model_that_asks_a_second_time_meets_the_next_rung(ask):
    """The notice stands in one result of the whole history; after it no tool may be called."""
    script = [looks("a", "b"), looks("c", "d"), looks("e"), says("done")]
    told = await ask(script, "preset: finalize", "tool_calls_limit: 2")
    assert told.carrying(NOTICE) == [3]
    assert NOTICE not in told.results[1][0]
    assert told.requests[-1].raw.count(NOTICE.encode()) == 1
    assert told.choices == [None, None, None, NO_TOOLS]
    assert told.results[2] == ["Not run: limit reached, look skipped."]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.skipped) == (2, 3)
    assert (told.outcome.landing.how, told.outcome.landing.requests) == ("none", 2)


async def test_s2_3_a_model_that_answers_at_the_limit_is_told_nothing(ask_once):
    """Text at k = N is the answer; no rung was needed."""
    told = await ask_once([looks("a", "b"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert NOTICE.encode() not in told.requests[-1].raw
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 0)


@pytest.mark.parametrize("preset", ["finalize", "soft-landing"])
async def test_s2_11_the_limit_of_the_call_beats_the_files(ask_once, preset):
    """2 beats 10 in what is run, what is said, and what the outcome tells."""
    lines = (f"preset: {preset}", "tool_calls_limit: 10", "landing: none")
    told = await ask_once(policies.always_tool("look"), *lines, tool_calls_limit=2)
    assert len(told.phases("finished")) == 2
    assert (told.outcome.tool_calls.limit, told.outcome.limits["tool_calls"].limit) == (2, 2)
    assert told.choices == [None, None, NO_TOOLS]


# Budget notice


def paragraphs(request):
    """Return the paragraphs of the system prompt."""
    return text_of(request.body["system"]).split("\n\n")


@pytest.mark.parametrize(
    "lines",
    [
        ("preset: soft-landing",),
        ("preset: budget-notice",),
        ("preset: soft-warning", "budget_notice: true"),
        ("preset: finalize", "budget_notice: true"),
        ("preset: openai-loop", "budget_notice: true"),
        (),
    ],
)
@pytest.mark.parametrize(("limit", "amount"), [(30, "30 tool calls"), (2, "2 tool calls"), (1, "1 tool call")])
async def test_s3_1_the_system_prompt_ends_with_the_resolved_budget(ask_once, lines, limit, amount):
    """In any preset that has a notice: the last paragraph, singular at 1, the number that holds for this run."""
    told = await ask_once([says("done")], *lines, "tool_calls_limit: 17", tool_calls_limit=limit)
    *others, last = paragraphs(told.requests[0])
    assert f"{last} ".replace(",", " ").startswith(f"Tool budget: you have {amount} ")
    assert not any("Tool budget" in other for other in others)


@pytest.mark.parametrize("preset", ["soft-warning", "finalize", "openai-loop"])
async def test_s3_1_a_preset_without_a_notice_leaves_the_child_unaware(ask_once, preset):
    """Nothing of its first request tells of a budget."""
    told = await ask_once([says("done")], f"preset: {preset}", "tool_calls_limit: 7")
    assert "udget" not in text_of(told.requests[0].body["system"])
    assert b"7 tool calls" not in told.requests[0].raw


@pytest.mark.parametrize("body", ["", "You look.\n\nTool budget: you have 99 tool calls for this.", "You look.\n\n\n"])
async def test_s3_1_whatever_the_prompt_says_the_notice_is_last(ask_once, body):
    """An empty prompt, one that has a budget of its own, one that ends in blank lines."""
    told = await ask_once([says("done")], "preset: budget-notice", "tool_calls_limit: 3", body=body)
    assert paragraphs(told.requests[0])[-1].startswith("Tool budget: you have 3 tool calls for this task")


async def test_s3_1_a_specialist_made_in_code_is_told_too(messages_api, tmp_path):
    """The prompt's origin does not matter."""
    api = messages_api([says("done")])
    made = Specialist(name="finder", description="Finds", prompt="You find.", preset="budget-notice", tools=())
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        runner = Runner(root=tmp_path, provider=AnthropicProvider("haiku", client))
        await runner.run(made, "What?", tool_calls_limit=1)
    assert paragraphs(api.requests[0])[-1].startswith("Tool budget: you have 1 tool call for this task")


def left(number, limit):
    """Return the line of the preset `budget-notice`."""
    return f"[budget: {number} of {limit} tool calls left — wrap up soon]"


NOW = "[budget: 0 left — finalize NOW]"


@pytest.mark.parametrize(
    ("limit", "lines"),
    [
        (5, [None, left(3, 5), left(2, 5), left(1, 5), NOW]),
        (3, [left(2, 3), left(1, 3), NOW]),
        (1, [NOW]),
        (30, [None] * 26 + [left(3, 30), left(2, 30), left(1, 30), NOW]),
    ],
)
async def test_s3_2_the_last_three_calls_are_counted_down(ask, limit, lines):
    """Word for word, in the plural at 1 too, and `finalize NOW` at the end."""
    told = await ask(policies.always_tool("look"), "preset: budget-notice", f"tool_calls_limit: {limit}")
    assert last_lines(told) == lines
    assert (told.outcome.status, told.outcome.landing.how) == ("landed", "force")


async def test_s3_2_in_a_batch_each_result_has_its_own_line(ask_once):
    """Four of five calls at once: 4 are silent's, then 3, 2, 1 in call order; a skipped call has none."""
    told = await ask_once([*batches(4, 2), DONE], "preset: budget-notice", "tool_calls_limit: 5")
    first, second = told.results
    assert [result.partition("\n")[2] for result in first] == ["", left(3, 5), left(2, 5), left(1, 5)]
    assert second == [f"{note('2.0')}\n{NOW}", "Not run: limit reached, look skipped."]


async def test_s3_3_augmenters_are_the_last_stage_on_failures_too(ask):
    """One's own line stands before the countdown; one that raises is a warning and harms no result."""

    def tag(executed):
        return f"[{executed.call.name} {'failed' if executed.is_error else 'found something'}]"

    def bad(executed):
        raise KeyError("oops")

    script = [looks("a"), calls("fly", {}), DONE]
    told = await ask(script, "preset: budget-notice", "tool_calls_limit: 2", augmenters=[bad, tag])
    assert told.results[0] == [f"{note('a')}\n[look found something]\n{left(1, 2)}"]
    (failed,) = told.results[1]
    assert failed.startswith("fly failed: there is no such tool")
    assert failed.splitlines()[-2:] == ["[fly failed]", NOW]
    assert [event.text.partition(":")[0] for event in told.named("warning")] == [
        "an augmenter failed on look",
        "an augmenter failed on fly",
    ]
    assert told.outcome.status == "landed"


async def test_s3_3_fields_of_ones_own_stand_beside_those_of_the_limit(ask_once):
    """Augmenters may return fields: all of them join the one JSON object that the result becomes."""

    def rank(executed):
        return {"rank": executed.number}

    lines = ("preset: openai-loop", "tool_calls_limit: 2")
    told = await ask_once([looks("a", "b"), says("done")], *lines, augmenters=[rank])
    first, last = (json.loads(result) for result in told.results[0])
    assert first == {"output": note("a"), "rank": 1}
    assert last == {
        "output": note("b"),
        "rank": 2,
        "limit_reached": True,
        "limit_message": "Tool call limit reached (2). Stopping tool loop.",
    }


@pytest.mark.parametrize(
    ("lines", "settings", "limit"),
    [
        ((), {}, 30),
        (("tool_calls_limit: 7",), {}, 7),
        (("tool_calls_limit: 7",), {"tool_calls_limit": 4}, 4),
        (("tool_calls_limit: 7",), {"tool_calls_limit": 0}, 0),
        ((), {"tool_calls_limit": 4}, 4),
        (("tool_calls_limit: 7",), {"tool_calls_limit": None}, None),
        (("tool_calls_limit: none",), {}, None),
    ],
)
async def test_s3_4_an_explicit_limit_beats_the_file_which_beats_the_default(ask_once, lines, settings, limit):
    """In the notice, in the outcome, and in when the run lands."""
    told = await ask_once([DONE], "preset: budget-notice", *lines, **settings)
    system = text_of(told.requests[0].body["system"])
    assert told.outcome.tool_calls.limit == limit
    assert (f"Tool budget: you have {limit} tool calls" in system) is (limit is not None)
    assert ("Tool budget" in system) is (limit is not None)
    assert told.choices == [FORCED if limit == 0 else None]


async def test_s3_4_from_strong_to_weak_flag_preset_of_the_call_file_preset_of_the_file(ask_once):
    """Four words on one run: each is heard where no stronger one speaks."""
    lines = ("preset: openai-loop", "budget_notice: true", "landing: order", "tool_calls_limit: 3")
    told = await ask_once(policies.always_tool("look"), *lines, preset="finalize", budget_notice=False, landing="none")
    assert "udget" not in text_of(told.requests[0].body["system"])
    assert last_lines(told) == [None] * 3
    assert told.choices == [None] * 3 + [NO_TOOLS]
    told = await ask_once(policies.always_tool("look"), *lines)
    assert "Tool budget: you have 3 tool calls" in text_of(told.requests[0].body["system"])
    assert told.outcome.landing.how == "order"
    assert '"limit_reached": true' in told.results[-1][0]


async def test_s3_6_an_abort_before_the_start_sends_nothing(ask):
    """No request goes out; the outcome says that it was aborted."""
    async with ask.prepared([], "preset: budget-notice") as told:
        told.run.abort()
        outcome = await told.run.outcome()
    assert told.api.requests == []
    assert (outcome.status, outcome.exit_code, outcome.answer) == ("aborted", Exit.INTERRUPTED, "")


@pytest.mark.parametrize("at", ["request", "tool"])
async def test_s3_6_an_abort_midway_is_no_success_and_keeps_everything(ask, at):
    """While the model writes, and while a tool works: status, answer, evidence, calls and usage tell what was."""
    gate, working = Gate(), asyncio.Event()

    async def look(query: str) -> str:
        if query == "b" and at == "tool":
            working.set()
            await asyncio.Event().wait()
        return note(query)

    second = says("I look on.", tool_use("look", {"query": "b"}), gate=gate if at == "request" else None)
    tools = [Tool("look", "Looks.", look)]
    async with ask.prepared([looks("a"), second], "preset: budget-notice", tools=tools) as told:
        task = asyncio.create_task(told.run.outcome())
        await (asyncio.to_thread(gate.wait_for_request) if at == "request" else working.wait())
        told.run.abort()
        outcome = await task
    assert (outcome.status, outcome.exit_code) == ("aborted", Exit.INTERRUPTED)
    assert note("a") in outcome.answer
    assert [one.quote for one in outcome.evidence] == [note("a")]
    assert outcome.tool_calls.used == (1 if at == "request" else 2)
    assert outcome.usage.output_tokens > 0
    assert told.events[-1].outcome == outcome


async def test_s3_7_events_start_tell_each_result_and_end_with_usage(ask):
    """One end for each call, whether it ran, failed or was skipped; the last event carries what the run has used."""
    script = [calls("look", {"query": "a"}, {"question": "b"}), looks("c", "d"), DONE]
    told = await ask(script, "preset: budget-notice", "tool_calls_limit: 3")
    assert (told.events[0].event, told.events[-1].event) == ("started", "finished")
    assert told.events[0].limits["tool_calls"] == 3
    answered = [call_id for request in told.requests[1:] for call_id in request.results]
    ends = [event for event in told.named("tool_call") if event.phase != "started"]
    assert sorted(event.id for event in ends) == sorted(answered)
    assert sorted(event.phase for event in ends) == ["failed", "finished", "finished", "skipped"]
    usage = json.loads(json.dumps(told.events[-1].as_json()))["outcome"]["usage"]
    for key, used in usage.items():
        assert used == sum(request.usage[key] for request in told.requests)
    assert usage["input_tokens"] > 0


@pytest.mark.parametrize("fault", [faults.server_error(), faults.unauthorised(), faults.ConnectionReset()])
async def test_s3_7_events_end_with_usage_on_an_error_too(ask, fault):
    """Whatever the API does, the last event is the outcome with what was used until then."""
    told = await ask([looks("a"), fault], "preset: budget-notice")
    last = told.events[-1]
    assert (last.event, last.outcome.status, last.outcome.exit_code) == ("finished", "failed", Exit.PROVIDER)
    assert last.outcome.usage.output_tokens == told.requests[0].usage["output_tokens"] > 0
    assert note("a") in last.outcome.answer


async def test_x_12_the_newest_text_is_kept_although_a_later_turn_had_none(ask_once):
    """What the model has said stands in the salvage beside what was found."""
    script = [says("It looks like mice.", tool_use("look", {"query": "a"})), looks("b"), faults.server_error()]
    told = await ask_once(script, "preset: budget-notice")
    assert told.outcome.status == "failed"
    assert "It looks like mice." in told.outcome.answer
    assert note("b") in told.outcome.answer


# What each preset sets, and that it sets no more


def remaining(*numbers):
    """Return the lines of the usual countdown."""
    return [f"{number} tool call{'' if number == 1 else 's'} remaining" for number in numbers]


FIELDS = {"limit_reached": True, "limit_message": "Tool call limit reached (4). Stopping tool loop."}
TABLE = {
    "soft-landing": (True, [None, *remaining(2, 1, 0)], [FORCED], ["order"]),
    "soft-warning": (False, [None, None, WARNING, None], [FORCED], ["order"]),
    "finalize": (False, [None] * 4, [None, None, NO_TOOLS], [None, "notice", "none"]),
    "budget-notice": (True, [left(3, 4), left(2, 4), left(1, 4), NOW], [FORCED], ["order"]),
    "openai-loop": (False, [None, None, None, FIELDS], [NO_TOOLS], ["none"]),
}
"""By preset: notice, what the four results end with, and the landing's requests where forcing is taken or not."""


@pytest.mark.parametrize("how", ["preset of the file", "preset of the call"])
@pytest.mark.parametrize("preset", TABLE)
async def test_presets_where_a_choice_can_be_forced(ask_once, preset, how):
    """The row of the table as the API sees it: the notice, each result to its last byte, the choice at the limit."""
    notice, ends, landing, _ = TABLE[preset]
    lines, settings = ([f"preset: {preset}"], {}) if "file" in how else ([], {"preset": preset})
    told = await ask_once(policies.always_tool("look"), *lines, "tool_calls_limit: 4", **settings)
    assert ("Tool budget: you have 4 tool calls" in text_of(told.requests[0].body["system"])) is notice
    for call, (end, results) in enumerate(zip(ends, told.results, strict=False)):
        raw = note(f"question {call}")
        if isinstance(end, dict):
            assert [json.loads(result) for result in results] == [{"output": raw, **end}]
        else:
            assert results == [raw if end is None else f"{raw}\n{end}"]
    assert told.choices == [None] * 4 + landing
    assert (told.outcome.status, told.outcome.tool_calls.used, told.outcome.warnings) == ("landed", 4, ())


async def test_presets_the_limit_fields_stand_in_the_last_result_of_a_turn(ask_once):
    """Three calls in the last turn but one: it is spent for all of them, and the last one says so."""
    told = await ask_once([*batches(3), says("done")], "preset: openai-loop", "turns_limit: 2")
    *earlier, last = told.results[0]
    assert earlier == [note("1.0"), note("1.1")]
    fields = {"limit_reached": True, "limit_message": "Turn limit reached (2). Stopping tool loop."}
    assert json.loads(last) == {"output": note("1.2"), **fields}
    assert told.choices == [None, NO_TOOLS]


@pytest.mark.parametrize("preset", TABLE)
async def test_presets_where_no_choice_can_be_forced(ask_once, preset):
    """The order takes the place of force, as the last line of the last result; the other landings stay as they are."""
    notice, ends, _, landing = TABLE[preset]
    told = await ask_once(policies.always_tool("look"), f"preset: {preset}", "tool_calls_limit: 4", model="sonnet")
    assert ("Tool budget" in text_of(told.requests[0].body["system"])) is notice
    assert last_lines(told)[:3] == ends[:3]
    at_limit = told.results[3][0].splitlines()
    assert (ORDER in at_limit[-1]) is (landing == ["order"])
    if landing == ["order"]:
        assert at_limit[1:-1] == ([ends[3]] if ends[3] else [])
    assert told.choices == [None] * 4 + [NO_TOOLS if rung == "none" else None for rung in landing]
    assert told.outcome.status == "landed"


@pytest.mark.parametrize("preset", [None, *TABLE])
async def test_presets_set_no_limit_but_the_one_that_is_named(ask_once, preset):
    """Characters in `soft-warning`; thirty calls are the default of all of them, and nothing else is limited."""
    told = await ask_once([DONE], *([f"preset: {preset}"] if preset else []))
    limits = {kind: spent.limit for kind, spent in told.outcome.limits.items() if spent.limit is not None}
    assert limits == {"tool_calls": 30, **({"characters": 100_000} if preset == "soft-warning" else {})}


@pytest.mark.parametrize("preset", [None, *TABLE])
async def test_s2_8_only_where_there_is_a_summary_the_tool_that_reads_on_is_offered(ask_once, tmp_path, preset):
    """A specialist of file tools: `finalize` summarises, so it may read on from the first request."""
    (tmp_path / "note.md").write_text("Owls eat mice.\n")
    script = [calls("read", {"path": "note.md"}), DONE]
    told = await ask_once(script, "tools: read", *([f"preset: {preset}"] if preset else []), tools=[])
    names = ["get_tool_response", "read", "respond"] if preset == "finalize" else ["read", "respond"]
    assert [request.tool_names for request in told.requests] == [names] * 2
