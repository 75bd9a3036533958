"""All presets over the wire: the settings that each changes, and no others; aborts and events."""

import asyncio
import json

import pytest

from run_specialist.errors import ToolError
from run_specialist.record.messages import text_of
from run_specialist.record.outcome import Exit
from run_specialist.tools.base import Tool
from tests.wire.simulator import Gate, faults, policies
from tests.wire.simulator.replies import calls, redacted_thinking, says, text, thinking, tool_use
from tests.wire.specialists import DONE, FORCED, NO_TOOLS, batches, looks, note

pytestmark = pytest.mark.exhaustive

WARNING = (
    "You have used most of your available tool calls. Please complete your research now and prepare to provide your "
    "final response. You may make one more tool call if essential, but prioritize completion."
)
ORDER = "0 tool calls remain and only a call of `respond` will be heard"


def last_lines(told):
    """Return the text after the raw result in each request, None if there is none."""
    ends = [results[-1].partition("\n")[2] for results in told.results]
    return [end or None for end in ends]


def left(number, limit):
    """Return the line of the preset `budget-notice` while calls remain."""
    return f"[budget: {number} of {limit} tool calls left — wrap up soon]"


NOW = "[budget: 0 left — finalize NOW]"


def remaining(*numbers):
    """Return the lines of the default countdown."""
    return [f"{number} tool call{'' if number == 1 else 's'} remaining" for number in numbers]


FIELDS = {"limit_reached": True, "limit_message": "Tool call limit reached (4). Stopping tool loop."}
TABLE = {
    "soft-landing": (True, [None, *remaining(2, 1, 0)], [FORCED], ["order"]),
    "soft-warning": (False, [None, None, WARNING, None], [FORCED], ["order"]),
    "finalize": (False, [None] * 4, [None, None, NO_TOOLS], [None, "notice", "none"]),
    "budget-notice": (True, [left(3, 4), left(2, 4), left(1, 4), NOW], [FORCED], ["order"]),
    "openai-loop": (False, [None, None, None, FIELDS], [NO_TOOLS], ["none"]),
}
"""By preset: notice, endings of the four results, and requests of the landing with and without forced choice."""


@pytest.mark.parametrize(("preset", "how"), [*((preset, "file") for preset in TABLE), ("budget-notice", "call")])
async def test_presets_that_force_a_choice_have_their_landing(ask_once, preset, how):
    """Each preset has its notice, exact result endings and `tool_choice` at the limit where forcing is possible."""
    notice, ends, landing, _ = TABLE[preset]
    lines, settings = ([f"preset: {preset}"], {}) if how == "file" else ([], {"preset": preset})
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


async def test_only_the_last_result_of_a_turn_has_the_limit_fields(ask_once):
    """With three calls in the last turn that may call tools, only the last result has the limit fields."""
    told = await ask_once([*batches(3), says("done")], "preset: openai-loop", "turns_limit: 2")
    *earlier, last = told.results[0]
    assert earlier == [note("1.0"), note("1.1")]
    fields = {"limit_reached": True, "limit_message": "Turn limit reached (2). Stopping tool loop."}
    assert json.loads(last) == {"output": note("1.2"), **fields}
    assert told.choices == [None, NO_TOOLS]


@pytest.mark.parametrize("preset", TABLE)
async def test_presets_that_cannot_force_a_choice_use_the_instruction(ask_once, preset):
    """Where forcing is impossible, an order ends the last result instead; the other landings are unchanged."""
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
async def test_s2_8_presets_set_only_their_named_limit_and_offer_archived_output(ask_once, tmp_path, preset):
    """All have 30 calls, only `soft-warning` limits characters, only `finalize`, which summarises, has the archive."""
    (tmp_path / "note.md").write_text("Owls eat mice.\n")
    script = [calls("read", {"path": "note.md"}), DONE]
    told = await ask_once(script, "tools: read", *([f"preset: {preset}"] if preset else []), tools=[])
    limits = {kind: spent.limit for kind, spent in told.outcome.limits.items() if spent.limit is not None}
    assert limits == {"tool_calls": 30, **({"characters": 100_000} if preset == "soft-warning" else {})}
    names = ["get_tool_response", "read", "respond"] if preset == "finalize" else ["read", "respond"]
    assert [request.tool_names for request in told.requests] == [names] * 2


@pytest.mark.parametrize("at", ["request", "tool"])
async def test_s3_6_an_aborted_run_keeps_its_results(ask, at):
    """A run aborted during a reply or a call is no success, and keeps its answer, evidence, calls and usage so far."""
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


async def test_s3_7_each_call_has_one_end_event(ask):
    """Each call has one end event, whether it ran, failed or was skipped; the last event has the run's usage."""
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
        assert used == sum(request.usage.get(key, 0) for request in told.requests)
    assert usage["input_tokens"] > 0


async def test_x_12_the_newest_text_of_the_model_is_kept(ask_once):
    """The salvage has the model's newest text beside the findings, even if a later turn had no text."""
    script = [says("It looks like mice.", tool_use("look", {"query": "a"})), looks("b"), faults.server_error()]
    told = await ask_once(script, "preset: budget-notice")
    assert told.outcome.status == "failed"
    assert "It looks like mice." in told.outcome.answer
    assert note("b") in told.outcome.answer


def paragraphs(request):
    """Return the paragraphs of the system prompt."""
    return text_of(request.body["system"]).split("\n\n")


@pytest.mark.parametrize(
    ("lines", "limit", "amount"),
    [
        (("preset: soft-landing",), 30, "30 tool calls"),
        (("preset: budget-notice",), 30, "30 tool calls"),
        (("preset: soft-warning", "budget_notice: true"), 30, "30 tool calls"),
        (("preset: finalize", "budget_notice: true"), 30, "30 tool calls"),
        (("preset: openai-loop", "budget_notice: true"), 30, "30 tool calls"),
        ((), 1, "1 tool call"),
    ],
)
async def test_s3_1_the_system_prompt_ends_with_the_resolved_budget(ask_once, lines, limit, amount):
    """With a notice, the last paragraph of the system prompt states the resolved budget, at 1 in the singular."""
    told = await ask_once([says("done")], *lines, "tool_calls_limit: 17", tool_calls_limit=limit)
    *others, last = paragraphs(told.requests[0])
    assert f"{last} ".replace(",", " ").startswith(f"Tool budget: you have {amount} ")
    assert not any("Tool budget" in other for other in others)


@pytest.mark.parametrize("preset", ["soft-warning", "finalize", "openai-loop"])
async def test_s3_1_without_a_notice_the_request_mentions_no_budget(ask_once, preset):
    """With a preset without a notice, nothing in the child's first request mentions a budget."""
    told = await ask_once([says("done")], f"preset: {preset}", "tool_calls_limit: 7")
    assert "udget" not in text_of(told.requests[0].body["system"])
    assert b"7 tool calls" not in told.requests[0].raw


@pytest.mark.parametrize(
    ("limit", "lines"),
    [(5, [None, left(3, 5), left(2, 5), left(1, 5), NOW]), (3, [left(2, 3), left(1, 3), NOW]), (1, [NOW])],
)
async def test_s3_2_the_last_three_calls_are_counted_down(ask_once, limit, lines):
    """The last three calls have the exact countdown lines, plural even at 1, and `finalize NOW` at the end."""
    told = await ask_once(policies.always_tool("look"), "preset: budget-notice", f"tool_calls_limit: {limit}")
    assert last_lines(told) == lines
    assert (told.outcome.status, told.outcome.landing.how) == ("landed", "force")


async def test_s3_3_augmenters_run_before_the_countdown_on_failures_too(ask_once):
    """An augmenter's line precedes the countdown, on failed calls too; one that raises is a warning only."""

    def tag(executed):
        return f"[{executed.call.name} {'failed' if executed.is_error else 'found something'}]"

    def bad(executed):
        raise KeyError("oops")

    script = [looks("a"), calls("fly", {}), DONE]
    told = await ask_once(script, "preset: budget-notice", "tool_calls_limit: 2", augmenters=[bad, tag])
    assert told.results[0] == [f"{note('a')}\n[look found something]\n{left(1, 2)}"]
    (failed,) = told.results[1]
    assert failed.startswith("fly failed: there is no such tool")
    assert failed.splitlines()[-2:] == ["[fly failed]", NOW]
    assert [event.text.partition(":")[0] for event in told.named("warning")] == [
        "an augmenter failed on look",
        "an augmenter failed on fly",
    ]
    assert told.outcome.status == "landed"


async def test_s3_3_fields_of_an_augmenter_are_merged_with_the_limit_fields(ask_once):
    """Fields returned by an augmenter are merged with the limit fields into the result's one JSON object."""

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
        (("tool_calls_limit: 7",), {"tool_calls_limit": 4}, 4),
        (("tool_calls_limit: 7",), {"tool_calls_limit": 0}, 0),
        (("tool_calls_limit: none",), {}, None),
    ],
)
async def test_s3_4_an_explicit_limit_overrides_the_file_and_the_default(ask_once, lines, settings, limit):
    """A call's limit overrides the file's, which overrides the default: in the notice, the outcome and the landing."""
    told = await ask_once([DONE], "preset: budget-notice", *lines, **settings)
    system = text_of(told.requests[0].body["system"])
    assert told.outcome.tool_calls.limit == limit
    assert (f"Tool budget: you have {limit} tool calls" in system) is (limit is not None)
    assert ("Tool budget" in system) is (limit is not None)
    assert told.choices == [FORCED if limit == 0 else None]


async def test_s3_4_precedence_is_flag_call_preset_file_file_preset(ask_once):
    """Precedence is: call option, call preset, file option, file preset; each applies where no stronger one does."""
    lines = ("preset: openai-loop", "budget_notice: true", "landing: order", "tool_calls_limit: 3")
    told = await ask_once(policies.always_tool("look"), *lines, preset="finalize", budget_notice=False, landing="none")
    assert "udget" not in text_of(told.requests[0].body["system"])
    assert last_lines(told) == [None] * 3
    assert told.choices == [None] * 3 + [NO_TOOLS]
    told = await ask_once(policies.always_tool("look"), *lines)
    assert "Tool budget: you have 3 tool calls" in text_of(told.requests[0].body["system"])
    assert told.outcome.landing.how == "order"
    assert '"limit_reached": true' in told.results[-1][0]


NOTICE = "Answer directly now, from what is here, without more tool calls."


async def test_s2_1_the_limit_spans_the_whole_run(ask_once):
    """The call limit applies to the run, not to a turn or a message: three turns use up three calls."""
    told = await ask_once(policies.ignores_everything("look"), "preset: finalize", "tool_calls_limit: 3")
    assert len(told.phases("finished")) == 3
    assert len(told.phases("skipped")) == len(told.requests) - 3
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("partial", 3)


async def test_s2_2_s2_4_a_batch_over_the_limit_skips_the_surplus_calls(ask_once):
    """Of 3 calls at N = 2, two run and the third gets "Not run", in one message in call order, with the one notice."""
    told = await ask_once([looks("a", "b", "c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
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
    assert blocks[2]["content"].endswith(NOTICE)
    assert told.carrying(NOTICE) == [2]
    assert told.requests[1].raw.count(NOTICE.encode()) == 1
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 1)


async def test_s2_3_s2_4_the_notice_comes_with_the_first_skipped_call(ask_once):
    """With 2 calls, then 1, at N = 2, the notice comes with the skipped third call, not at the limit itself."""
    told = await ask_once([looks("a", "b"), looks("c"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert told.results[0] == [note("a"), note("b")]
    (result,) = told.results[1]
    skipped, notice = result.splitlines()
    assert skipped == "Not run: limit reached, look skipped."
    assert notice.endswith(NOTICE)
    assert told.choices == [None] * 3
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 1)


async def test_s2_3_a_second_call_after_the_limit_leads_to_the_next_rung(ask_once):
    """The notice is in one result of the history; after another call, the next request allows no tool calls."""
    script = [looks("a", "b"), looks("c", "d"), looks("e"), says("done")]
    told = await ask_once(script, "preset: finalize", "tool_calls_limit: 2")
    assert told.carrying(NOTICE) == [3]
    assert NOTICE not in told.results[1][0]
    assert told.requests[-1].raw.count(NOTICE.encode()) == 1
    assert told.choices == [None, None, None, NO_TOOLS]
    assert told.results[2] == ["Not run: limit reached, look skipped."]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.skipped) == (2, 3)
    assert (told.outcome.landing.how, told.outcome.landing.requests) == ("none", 2)


async def test_s2_3_an_answer_at_the_limit_causes_no_notice(ask_once):
    """Text at k = N is the answer: no notice and no landing request are sent."""
    told = await ask_once([looks("a", "b"), says("done")], "preset: finalize", "tool_calls_limit: 2")
    assert NOTICE.encode() not in told.requests[-1].raw
    assert (told.outcome.status, told.outcome.landing.how, told.outcome.landing.requests) == ("landed", "finalize", 0)


@pytest.mark.parametrize(
    ("limit", "sizes", "warned"),
    [(12, [2] * 6, [6]), (6, [1, 3, 2], [3]), (6, [3, 1, 1, 1], [2]), (5, [2, 2, 2], [3]), (6, [1, 5], [])],
)
async def test_s1_1_the_warning_comes_before_the_last_turn_that_has_calls(ask_once, limit, sizes, warned):
    """The warning comes once the calls left are no more than the last turn made, and never after the last call."""
    told = await ask_once([*batches(*sizes), DONE], "preset: soft-warning", f"tool_calls_limit: {limit}")
    assert told.carrying(WARNING) == warned
    assert told.requests[-1].raw.count(WARNING.encode()) == len(warned)
    for number in warned:
        *before, last = told.results[number - 2]
        assert last.endswith(f"\n{WARNING}")
        assert not any(WARNING in result for result in before)
    assert told.outcome.tool_calls.used == limit


@pytest.mark.parametrize(("last", "warned"), [(10_000, [6]), (9_999, [7])])
async def test_s1_2_the_warning_comes_at_90_000_of_100_000_characters(ask_once, last, warned):
    """The warning comes at exactly 90,000 of 100,000 characters, and only once, although the calls run out later."""
    sizes = iter([20_000, 20_000, 20_000, 20_000, last, 1, 1, 1])
    tool = Tool("look", "Looks.", lambda query: "x" * next(sizes))
    told = await ask_once([*batches(*[1] * 8), DONE], "preset: soft-warning", "tool_calls_limit: 9", tools=[tool])
    assert told.carrying(WARNING) == warned
    assert told.requests[-1].raw.count(WARNING.encode()) == 1
    assert told.outcome.limits["characters"].limit == 100_000
    assert (told.outcome.status, told.outcome.warnings) == ("answered", ())


@pytest.mark.parametrize("limit", [0, 1])
async def test_s1_3_no_warning_comes_before_the_first_call(ask_once, limit):
    """With a limit of one call or none, the run lands without a warning."""
    told = await ask_once(policies.always_tool("look"), "preset: soft-warning", f"tool_calls_limit: {limit}")
    assert not any(WARNING.encode() in request.raw for request in told.requests)
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", limit)
    assert told.choices == [None] * limit + [FORCED]


@pytest.mark.parametrize("sizes", [[1] * 12, [5, 5, 5]])
async def test_s1_4_a_call_after_the_warning_runs_and_its_result_reaches_the_model(ask_once, sizes):
    """A call after the warning runs, and the next request has its output."""
    told = await ask_once([*batches(*sizes), DONE], "preset: soft-warning", "tool_calls_limit: 12")
    ran = told.phases("finished")
    answered = {call_id: content for request in told.requests for call_id, content in request.results.items()}
    assert len(ran) == told.outcome.tool_calls.used == 12
    assert all(answered[call_id].startswith("note on ") for call_id in ran)
    (warned,) = told.carrying(WARNING)
    assert set(told.requests[warned].results) & set(ran)


@pytest.mark.parametrize(("model", "choice"), [("haiku", FORCED), ("sonnet", None)])
async def test_s1_5_a_result_over_the_remaining_characters_is_cut_and_then_the_run_lands(ask_once, model, choice):
    """A result over the remaining characters is cut and marked at its end, and the next request is the landing."""
    tool = Tool("look", "Looks.", lambda query: "abcdefgh")
    lines = ("preset: soft-warning", "tool_chars_limit: 20")
    told = await ask_once([*batches(1, 2), DONE], *lines, tools=[tool], model=model)
    first, cut = told.results[1]
    assert first == "abcdefgh"
    if choice:
        assert cut == "abcd\n[truncated]"
    else:
        assert cut.startswith(f"abcd\n[truncated]\n{ORDER}")
    assert told.choices == [None, None, choice]
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "characters")
    assert told.outcome.limits["characters"].used == 20


SECRET, HIDDEN = "what I really think", "cannot be read"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ([thinking(SECRET), text("one")], "one"),
        ([text("one"), thinking(SECRET)], "one"),
        ([thinking(SECRET), redacted_thinking(HIDDEN), text("one"), text("two")], "one\ntwo"),
    ],
)
async def test_s1_6_the_answer_is_found_by_type_without_thinking(ask, content, answer):
    """The answer is found by block type, in any order; thinking reaches neither watcher nor events nor outcome."""
    opening = says(thinking(SECRET), redacted_thinking(HIDDEN), tool_use("look", {"query": "a"}))
    told = await ask([opening, says(*content)], "preset: soft-warning", model="sonnet")
    assert (told.outcome.status, told.outcome.answer) == ("answered", answer)
    seen = json.dumps([event.as_json() for event in told.events]) + "".join(told.pieces)
    assert SECRET not in seen
    assert HIDDEN not in seen


async def test_s1_6_a_plain_string_is_accepted_as_the_answer(ask_once):
    """A plain string as reply content is accepted as the answer, since some servers send one in place of blocks."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"type": "message", "role": "assistant", "content": "in plain words", "usage": usage}
    told = await ask_once([faults.json_value({**message, "stop_reason": "end_turn"})], "preset: soft-warning")
    assert (told.outcome.status, told.outcome.answer) == ("answered", "in plain words")


@pytest.mark.parametrize("silent", [[thinking(SECRET)], [thinking(SECRET), redacted_thinking(HIDDEN)]])
async def test_s1_6_a_reply_with_only_thinking_is_retried_once(ask, silent):
    """Thinking alone is requested again once; a second such reply fails the run with code 4, and keeps the results."""
    told = await ask([looks("a"), says(*silent), says(*silent)], "preset: soft-warning", model="sonnet")
    assert told.requests[1].messages == told.requests[2].messages
    assert (told.outcome.status, told.outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert note("a") in told.outcome.answer
    assert SECRET not in json.dumps(told.outcome.as_json())

    told = await ask([looks("a"), says(*silent), says(*silent[:1], "one")], "preset: soft-warning", model="sonnet")
    assert (told.outcome.status, told.outcome.answer) == ("answered", "one")


def failing(query):
    """Raise a different error for each query."""
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
async def test_s1_7_a_failed_call_returns_an_error_result_and_counts(ask_once, name, arguments, why):
    """A failed call returns an error result that names tool and reason, and counts: two use up a limit of two."""
    tool = Tool("look", "Looks.", failing)
    script = [calls(name, arguments), calls(name, arguments), DONE]
    told = await ask_once(script, "preset: soft-warning", "tool_calls_limit: 2", tools=[tool])
    for request in told.requests[1:]:
        (block,) = request.messages[-1]["content"]
        assert block["is_error"] is True
        assert block["content"].startswith(f"{name} failed: ")
        assert why in block["content"]
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.failed) == (2, 2)
