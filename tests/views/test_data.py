"""What the page of a run shows, without a browser."""

import html
import json
from itertools import pairwise

import pytest

from run_specialist import prompts
from run_specialist.budget.ladder import Rung
from run_specialist.record.messages import Usage
from run_specialist.views.page import formats
from run_specialist.views.page.chart_geometry import path
from run_specialist.views.page.quotes import parted
from run_specialist.views.report import data, report
from tests.views import odd
from tests.views.full import RESUMED, SUMMARY, full_run

ODD_RUNS = [
    odd.odd_run,
    odd.huge_run,
    odd.interrupted_run,
    odd.pending_run,
    odd.empty_run,
    odd.failed_run,
    odd.structured_run,
]


@pytest.fixture(scope="module")
def full():
    """Give the page's data of the run in which nearly everything happens."""
    return data(full_run())


def calls_of(shown):
    """Return all calls in order."""
    return [call for turn in shown["turns"] for call in turn["calls"]]


def text_of(call):
    """Return a result in one piece."""
    return "".join(piece["text"] for piece in call["result"])


@pytest.mark.parametrize("run", ODD_RUNS)
def test_odd_runs_have_a_page_and_their_data_is_json(run):
    """Whatever a run holds, and however it stands, its page can be written and its data dumped."""
    kept = run()
    assert json.loads(json.dumps(data(kept)))["run_id"] == kept.run_id
    page = report(kept)
    assert page.startswith("<!doctype html>")
    page.encode("utf-8")


def test_nothing_from_outside_becomes_markup():
    """What tools, model, user and file say stands in the page as text, with its odd signs made visible."""
    page = report(odd.odd_run())
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page
    assert "&lt;/script&gt;" in page
    assert "⟨ESC⟩[31mred⟨ESC⟩[0m ⟨NUL⟩ ⟨BEL⟩ ⟨DEL⟩ ⟨U+009B⟩" in page
    assert "⟨U+202E⟩desrever⟨U+202C⟩" in page
    assert "⟨U+D83D⟩ half ⟨U+FEFF⟩ שלום" in page
    assert "{{ 7*7 }}" in page
    assert not set(page) & {*map(chr, range(32)), "\x7f", "\x9b", "\u202e"} - {"\n", "\t"}


def test_the_page_reaches_nobody():
    """Its policy forbids every connection, and nothing in it names an address."""
    page = html.unescape(report(full_run()))
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "unsafe" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_evidence_leads_to_the_very_place_in_the_result_that_holds_it(full):
    """Each quote that was found names its call and is marked in its result, also across lines with numbers."""
    first, second, third, unfound = full["answer"]["evidence"]
    assert [one["call"] for one in (first, second, third)] == [4, 5, 12]
    assert [one["target"] for one in (first, second, third)] == ["quote-1", "quote-2", "quote-3"]
    assert unfound["target"] is None
    assert not unfound["verified"]
    marked = {piece["quote"]: piece["text"] for call in calls_of(full) for piece in call["result"] if piece["quote"]}
    assert marked[1] == first["quote"]
    assert marked[2].startswith("with ThreadPoolExecutor() as pool:\n    27\t        return [")
    assert marked[3] == "only finished runs are written"


def test_a_quote_is_linked_to_the_call_that_its_source_names():
    """Of several results that hold it, that of the named place is meant, and not the repeated one."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "a.py:3: the words\nz.py:1: other"), odd.grep("y", "b.py:9: the words"))
    tape.turn("", odd.grep("y", "b.py:9: the words", repeated=True), odd.read("c.py", "     9\tthe words"))
    tape.turn("", odd.grep("z", "d.py-4- the words"))
    sources = ("b.py:9", "c.py:9", "d.py:4", "nowhere")
    evidence = [odd.Evidence(source, "the words", verified=True) for source in sources]
    run = tape.end(tape.outcome("answered", "It says so.", evidence))
    assert [one["call"] for one in data(run)["answer"]["evidence"]] == [2, 4, 5, 1]


def test_a_failed_call_bears_nothing_out():
    """Its words are ours or the tool's own, and may repeat the model's."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "grep failed: the words", is_error=True), odd.grep("y", "a.py:1: the words"))
    run = tape.end(tape.outcome("answered", "So.", [odd.Evidence("", "the words", verified=True)]))
    assert [one["call"] for one in data(run)["answer"]["evidence"]] == [2]


def test_a_quote_that_cannot_be_marked_leads_to_its_result():
    """Of two that overlap one is marked, and the other leads to the beginning."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "a.py:1: one two three"))
    evidence = [odd.Evidence("", quote, verified=True) for quote in ("one two", "two three")]
    run = tape.end(tape.outcome("answered", "So.", evidence))
    assert [one["target"] for one in data(run)["answer"]["evidence"]] == ["quote-1", "result-1"]


def test_evidence_of_a_missing_answer_leads_to_its_calls():
    """The beginning of each result stands for the answer; its source is the call itself."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "[only a notice about 7 files]"), odd.grep("y", "[only a notice about 7 files]"))
    evidence = [odd.Evidence(f'grep {{"pattern": "{sign}"}}', "[only a notice", verified=True) for sign in "yx"]
    run = tape.end(tape.outcome("partial", "What was gathered.", evidence))
    assert [one["call"] for one in data(run)["answer"]["evidence"]] == [2, 1]


def test_calls_stand_in_order_with_what_became_of_each(full):
    """Finished, failed, repeated, cut and skipped calls, and the answer at the end."""
    calls = calls_of(full)
    assert [call["number"] for call in calls] == [*range(1, 21), None, None, None]
    assert {call["number"] for call in calls if call["state"] == "failed"} == {6, 11}
    assert [call["number"] for call in calls if call["repeated"]] == [9]
    assert [call["number"] for call in calls if call["whole"] and call["whole"] > call["characters"]] == [8]
    assert [call["state"] for call in calls[-3:]] == ["skipped", "skipped", "answer"]
    assert text_of(calls[-2]) == "Not run: limit reached, read skipped."
    assert [call["ending"] for call in calls[18:20]] == ["1 tool call remaining", "0 tool calls remaining"]
    assert not calls[0]["ending"]
    assert calls[7]["added"] == ["8 tool calls remaining"]
    assert text_of(calls[14]) == prompts.EMPTY_RESULT
    assert calls[14]["ending"] == "5 tool calls remaining"


def test_an_archived_result_is_shown_as_it_was_before_the_summary(full):
    """The page shows what the model read then, and not what stands in its place now."""
    assert "class Loop:" in text_of(calls_of(full)[3])


def test_our_last_words_in_a_result_are_told_from_the_result():
    """The order of a landing stands below the result, and is not taken for the countdown."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 2})
    done = [odd.grep("x", "a.py:1: x"), odd.grep("y", "a.py:2: y")]
    tape.ask("", done)
    tape.run(done, words="Answer now.")
    first, last = calls_of(data(tape.stored("running")))
    assert first["added"] == ["1 tool call remaining"]
    assert (text_of(last), last["ending"]) == ("a.py:2: y", "0 tool calls remaining")
    assert last["added"] == ["0 tool calls remaining", "Answer now."]


def test_a_note_of_several_lines_belongs_to_the_output():
    """It is shown once, and none of its lines is taken for what the run has to say."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 1})
    tape.turn("", odd.grep("x", "a.py:1: x\n[one]\n[two]"))
    tape.calls[0] = odd.replace(tape.calls[0], whole="a.py:1: x", characters=9, note="[one]\n[two]")
    (call,) = calls_of(data(tape.stored("running")))
    assert (text_of(call), call["note"], call["added"]) == ("a.py:1: x", "[one]\n[two]", ["0 tool calls remaining"])


def test_words_that_joined_a_result_after_a_summary_are_shown():
    """They are in the part that was sent, and not in the one before it."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "a.py:1: x"))
    tape.turn("", odd.grep("y", "a.py:2: y"))
    tape.summarise("- notes")
    last = tape.messages[-1]
    tape.messages[-1] = odd.replace(last, message=last.message.with_instruction("Answer now."))
    tape.ask("It is so.", stop="answered")
    assert calls_of(data(tape.stored("running")))[1]["added"] == ["Answer now."]


def test_a_result_in_json_fields_is_shown_whole():
    """Where a limit is told in fields, the output is inside an object and cannot be parted from them."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "a.py:1: x"))
    last, wrapped = tape.messages[-1], '{"output": "a.py:1: x", "limit_reached": true}'
    tape.messages[-1] = odd.replace(
        last, message=odd.Message.results([odd.ToolResult(tape.turns[0].calls[0].id, wrapped)])
    )
    (call,) = calls_of(data(tape.stored("running")))
    assert (text_of(call), call["added"]) == (wrapped, [])


def test_ids_that_come_twice_do_not_mix_up_results():
    """A result belongs to the call at its place, whatever id the server gave."""
    calls = calls_of(data(odd.odd_run()))
    assert [text_of(call).split()[0] for call in calls] == ["one", "two", "three", "four"]
    assert [call["number"] for call in calls] == [1, 2, 3, 4]


def test_turns_and_calls_that_repeat_each_other_keep_their_own_results():
    """What was said word for word twice, in one turn or in several, also when a summary came in between."""
    tape = odd.Tape({})
    same = [
        odd.Did("grep", {"pattern": "x"}, word, call_id="same")
        for word in ("one", "two", "three", "four", "five", "six")
    ]
    tape.turn("", *same[:2])
    tape.turn("", *same[2:4])
    tape.summarise("- notes")
    tape.turn("", *same[4:])
    calls = calls_of(data(tape.stored("running")))
    assert [text_of(call) for call in calls] == ["one", "two", "three", "four", "five", "six"]
    assert [call["number"] for call in calls] == [1, 2, 3, 4, 5, 6]


def test_an_answer_that_was_not_taken_is_told_from_one_that_was():
    """The result of `respond` says why it has to be called again."""
    tape = odd.Tape({})
    for why in (prompts.answer_does_not_fit("it is no list"), ""):
        tape.ask("", [odd.Did("respond", {"answer": "So."}, "")])
        call = tape.turns[-1].calls[0]
        tape.say(odd.Message.results([odd.ToolResult(call.id, why or prompts.DELIVERED, is_error=bool(why))]))
    calls = calls_of(data(tape.stored("running")))
    assert [call["state"] for call in calls] == ["not taken", "answer"]


def test_calls_that_the_process_did_not_finish_are_told_from_skipped_ones():
    """What was cut off has no figures; what returned meanwhile has its result."""
    shown = data(odd.interrupted_run())
    assert [(call["number"], call["state"]) for call in shown["turns"][1]["calls"]] == [
        (None, "unfinished"),
        (3, "finished"),
        (None, "unfinished"),
    ]
    assert text_of(shown["turns"][1]["calls"][1]) == "     1\tb"
    assert data(odd.pending_run())["turns"][1]["calls"][0]["state"] == "unfinished"


def test_a_long_result_is_cut_in_the_page_and_says_how_to_see_it_all():
    """Two hundred thousand characters are enough; the rest is counted."""
    run = odd.huge_run()
    (call,) = calls_of(data(run))
    assert (len(text_of(call)), call["left_out"]) == (200_000, 800_001)
    assert f"leaves out 800,001 characters. <code>specialists transcript {run.run_id}</code>" in report(run)


def test_what_happened_between_turns_stands_before_the_turn_that_followed(full):
    """A summary with its text, a resumption with what was said, a landing with its rung."""
    marks = {turn["number"]: [(mark["kind"], mark["text"]) for mark in turn["before"]] for turn in full["turns"]}
    assert {number: found for number, found in marks.items() if found} == {
        6: [("summarized", SUMMARY)],
        7: [("resumed", RESUMED)],
        12: [("landing", "")],
    }


def test_time_that_passed_before_a_resumption_is_no_working_time(full):
    """Two hours between two stretches are named and take no place on the axis."""
    assert full["seconds"] == pytest.approx(54.6, abs=0.1)
    assert [mark["words"] for mark in full["timeline"]["marks"]][1] == "Resumed after 2 h 10 min"
    begins = [turn["begin"] for turn in full["turns"]]
    assert begins == sorted(begins)
    assert begins[-1] < full["seconds"]


def test_the_chart_follows_each_limit_and_begins_anew_where_a_limit_is_raised(full):
    """Lines step up with what is spent; eleven calls are 69 % of 16 and 55 % of 20."""
    kinds = {kind["kind"]: kind for kind in full["budget"]["kinds"]}
    assert [kind for kind in kinds if kinds[kind]["lines"]] == ["tool_calls", "tokens", "time"]
    first, second = kinds["tool_calls"]["lines"]
    assert first[0] == [0.0, 0.0]
    assert (first[-1][1], second[0][1], second[-1][1]) == (0.6875, 0.55, 1.0)
    assert kinds["tool_calls"]["share"] == 1.0
    for kind in ("tokens", "time"):
        before, after = kinds[kind]["lines"]
        assert before[-1][1] == pytest.approx(after[0][1], abs=0.001)
    for kind in kinds.values():
        for line in kind["lines"]:
            assert line == sorted(line)
    assert kinds["tokens"]["lines"][1][-1][1] == pytest.approx(kinds["tokens"]["share"], abs=0.001)


def test_what_was_booked_counts_where_it_is_more_than_what_is_seen():
    """Children spend for their parent, and a run that died has done more than it had booked."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 10})
    tape.turn("", odd.grep("x", "x"))
    tape.budget = tape.budget.spend(4)
    tape.resume(10, "Go on.")
    shown = {kind["kind"]: kind for kind in data(tape.stored("running"))["budget"]["kinds"]}
    assert [line[0][1] for line in shown["tool_calls"]["lines"]] == [0, 0.5]
    assert shown["tool_calls"]["used"] == 5
    assert data(odd.interrupted_run())["facts"] | {"cost_usd": 0} == {
        "calls": 4,
        "limit": 10,
        "failed": 0,
        "skipped": 0,
        "turns": 2,
        "tokens": 14_787,
        "cost_usd": 0,
    }
    died = odd.replace(odd.interrupted_run(), standing=None)
    assert data(died)["budget"]["kinds"][0]["used"] == 2


def test_a_limit_of_nothing_is_spent_from_the_start():
    """Its line stands at the top."""
    (line,) = data(odd.odd_run())["budget"]["kinds"][0]["lines"]
    assert {share for _, share in line} == {1.0}


def test_a_summary_is_paid_for_too():
    """Its tokens and its price stand in the lines."""
    tape = odd.Tape({odd.Kind.TOKENS: 100_000, odd.Kind.COST: 1.0})
    tape.turn("", odd.grep("x", "x"))
    tape.turn("", odd.grep("y", "y"))
    tape.summarise("- notes")
    lines = {kind["kind"]: kind["lines"] for kind in data(tape.stored("running"))["budget"]["kinds"] if kind["lines"]}
    shares = {limit.kind.value: limit.share for limit in tape.budget.limits if limit.limit}
    assert {kind: found[-1][-1][1] for kind, found in lines.items()} == pytest.approx(shares, abs=0.0001)


def test_a_phase_that_lasts_no_time_is_left_out():
    """A run that is resumed in the moment in which it stopped was never seen to be spent."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 2})
    tape.turn("", odd.grep("x", "x"), odd.grep("y", "y"))
    tape.resume(100, "Go on.", tool_calls=20)
    tape.ask("Done.", stop="answered")
    assert [band["phase"] for band in data(tape.stored("running"))["budget"]["bands"]] == ["silent"]


def test_phases_and_the_landing_stand_where_they_were_told(full):
    """Silent to half of the calls, then the countdown, spent from the landing on."""
    bands = full["budget"]["bands"]
    assert [band["phase"] for band in bands] == ["silent", "countdown", "spent"]
    assert all(one["end"] == two["begin"] for one, two in pairwise(bands))
    (landing,) = full["budget"]["landings"]
    assert (landing["how"], landing["at"]) == ("force", bands[-1]["begin"])


def test_a_run_that_was_resumed_with_room_is_silent_again():
    """The phase after a resumption is reckoned from the new limits."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 2})
    tape.turn("", odd.grep("x", "x"), odd.grep("y", "y"))
    tape.land(odd.Kind.TOOL_CALLS, Rung.FORCE)
    tape.ask("So far.", choice="respond", stop="answered")
    tape.resume(100, "Go on.", tool_calls=20)
    tape.ask("Done.", stop="answered")
    run = tape.end(tape.outcome("answered", "Done."))
    assert [band["phase"] for band in data(run)["budget"]["bands"]] == ["silent", "spent", "silent"]


def test_a_run_without_limits_says_so():
    """There is no chart then, but what was used is told."""
    assert not data(odd.huge_run())["budget"]["limited"]
    assert "Nothing was limited in this run." in report(odd.huge_run())
    assert "Nothing was limited in this run." not in report(full_run())


def test_calls_that_ran_at_once_have_lanes_of_their_own(full):
    """Neighbours in one lane never overlap, and a call that fits takes a lane that is free."""
    rows = [row for group in full["timeline"]["groups"] for row in group["rows"]]
    assert [row["lanes"] for row in rows] == [3, 1, 3, 1, 1, 2, 4, 2, 1, 1, 1, 0]
    assert full["timeline"]["calling"] == pytest.approx(3.86)
    for row in rows:
        for one in row["calls"]:
            for two in row["calls"]:
                apart = two["begin"] >= one["begin"] + one["seconds"] or one["begin"] >= two["begin"] + two["seconds"]
                assert one is two or one["lane"] != two["lane"] or apart


def test_a_lane_is_taken_again_once_it_is_free():
    """Four calls, of which two run at once, take two lanes."""
    tape = odd.Tape({})
    tape.turn("", *[odd.grep(sign, sign, 1) for sign in "abcd"])
    for place in (2, 3):
        tape.calls[place] = odd.replace(tape.calls[place], at=tape.calls[place].at + 1)
    tape.now += 1
    tape.ask("Done.", stop="answered")
    (group,) = data(tape.stored("running"))["timeline"]["groups"]
    assert [call["lane"] for call in group["rows"][0]["calls"]] == [0, 1, 0, 1]
    assert group["rows"][0]["lanes"] == 2


def test_each_mark_stands_in_one_group_of_turns():
    """In a long run as in a short one."""
    shown = data(odd.many_turns(190, 10))["timeline"]
    assert [mark["before"] for group in shown["groups"] for mark in group["marks"]] == [62, 162]
    assert [len(group["rows"]) for group in shown["groups"]] == [25] * 7 + [16]


def test_where_the_cache_was_lost_is_said_with_the_reason(full):
    """A summary and a forced choice lose it by nature; after five minutes it is gone."""
    losses = {loss["turn"]: loss["words"] for loss in full["requests"]["losses"]}
    assert list(losses) == [6, 7, 12]
    assert "a summary stands in place" in losses[6]
    assert "it came 2 h 11 min after the one before" in losses[7]
    assert "with another tool choice" in losses[12]
    assert full["requests"]["sentences"] == [
        "10 of 12 requests read from the cache: 102,900 of 157,000 input tokens, 66%.",
        "3 requests lost what the one before had left there.",
    ]


def test_a_server_that_does_not_tell_what_it_writes_is_taken_to_keep_all():
    """But of little it may keep nothing, and that is no loss."""
    tape = odd.Tape({})
    for _ in range(4):
        tape.ask("Hm.", stop="paused")
    usages = [Usage(900, 0, 0, 9), Usage(5_000, 0, 0, 9), Usage(5_200, 0, 0, 9), Usage(200, 5_100, 0, 9)]
    tape.turns[:] = [odd.replace(turn, usage=usage) for turn, usage in zip(tape.turns, usages, strict=True)]
    losses = data(tape.stored("running"))["requests"]["losses"]
    assert [loss["turn"] for loss in losses] == [3]
    assert losses[0]["words"].startswith("read 0 of the 5,000 tokens")


def test_a_summary_that_no_request_followed_is_in_the_table():
    """It was paid for."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "x"))
    tape.turn("", odd.grep("y", "y"))
    tape.summarise("- notes")
    assert [row["name"] for row in data(tape.stored("running"))["requests"]["rows"]] == ["turn 1", "turn 2", "summary"]


def test_a_loss_that_nothing_explains_is_not_explained_away():
    """The reader is told that the run did nothing that would lose it."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "x"))
    tape.turn("", odd.grep("y", "y"), lost=0)
    (loss,) = data(tape.stored("running"))["requests"]["losses"]
    assert loss["words"].startswith("read 0 of the 6,596 tokens that were there: nothing that this run did explains it")


def test_the_table_of_requests_has_those_for_summaries_and_adds_up(full):
    """The sum is what the outcome says."""
    run = full_run()
    rows = full["requests"]["rows"]
    assert [row["name"] for row in rows][4:7] == ["turn 5", "summary", "turn 6"]
    total, usage = full["requests"]["total"], run.outcome["usage"]
    assert total["total"] == sum(usage.values()) == full["facts"]["tokens"]
    assert total["cost"] == pytest.approx(run.outcome["cost_usd"])


def test_an_unknown_price_stays_unknown():
    """One request without a price leaves the sum open."""
    tape = odd.Tape({})
    tape.ask("Done.", stop="answered")
    tape.turns[0] = odd.replace(tape.turns[0], cost_usd=None)
    run = odd.replace(tape.stored("running"), cost_usd=None)
    assert data(run)["requests"]["total"]["cost"] is None
    assert "price unknown" in report(run)


def test_a_run_without_an_answer_says_why_and_how_to_go_on():
    """The newest words of the model stand in its place."""
    page = report(odd.interrupted_run())
    assert "specialists resume 20261122-040000-5f3a9c" in page
    assert "I read three files at once." in page
    assert "under way" in report(odd.pending_run())


def test_structured_output_is_shown_as_json():
    """In place of the text, with its signs escaped."""
    page = report(odd.structured_run())
    assert "&#34;sure&#34;: true" in page
    assert "&#34;note&#34;: &#34;&lt;/pre&gt;&#34;" in page


def test_the_status_is_told_in_words(full):
    """With the limit that was reached and how the answer was had."""
    assert full["status_words"] == "the limit of 20 tool calls was reached, and the answer was forced in 1 request"
    tape = odd.Tape({})
    tape.land(odd.Kind.TOKENS, Rung.SALVAGE)
    words_of = data(tape.end(tape.outcome("partial", "So far.")))["status_words"]
    assert words_of.endswith("; the context was full, and the answer was salvaged from what was gathered")


def test_the_page_shows_all_that_its_data_holds():
    """Each of these stands somewhere in the page; what is missing would be missed by nobody else."""
    page = html.unescape(report(full_run()))
    for words_of in (
        "codebase-analyst",
        "2026-11-22 04:00 UTC",
        "20 of 20, 2 failed, 2 skipped",
        '<li dir="auto">Whether the thread pool waits',
        "was longer than summary_limit and was cut",
        "At 26.4 s the run was resumed, 2 h 10 min after it had stopped.",
        "I look for the loop and for what ends it.",
        "7 tool calls remaining</p>",
        '<b class="state">repeated</b>',
        '<b class="state">skipped</b>',
        "[cut at 20000 of",
        "The tool returned 40,",
        'class="written" x="',
        "You explain how existing code behaves.",
        "Deliver your answer.",
        '"landing": "force"',
        "sha256:4f1c0a7e",
        RESUMED,
        SUMMARY,
    ):
        assert words_of in page, words_of


def test_tools_in_the_shape_of_either_api_are_named():
    """Chat completions wraps a definition once more."""
    definition = {"name": "read", "description": "Read."}
    frozen = {"tools": [definition, {"type": "function", "function": definition}]}
    assert data(odd.replace(odd.empty_run(), frozen=frozen))["setup"]["tools"] == [definition] * 2


def test_line_ends_of_other_systems_are_line_ends():
    """A lone carriage return is none, and is shown."""
    assert formats.legible("a\r\nb\rc") == "a\nb⟨CR⟩c"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0042, "4 ms"),
        (1.25, "1.2 s"),
        (59.4, "59 s"),
        (59.9, "1 min"),
        (185, "3 min 5 s"),
        (3_599.9, "1 h"),
        (7_830, "2 h 10 min"),
        (273_600, "3 days 4 h"),
    ],
)
def test_lengths_of_time_are_rounded_to_two_units(seconds, text):
    """Nothing lasts 60 seconds and a minute."""
    assert formats.lasted(seconds) == text


def test_moments_on_the_axis_are_round_and_few():
    """For any length there are 2 to 6 of them, from 0 on, none beyond the end."""
    for seconds in (0.3, 1, 7, 42, 61, 600, 5_000, 90_000, 2_000_000):
        found = formats.ticks(seconds)
        assert found[0] == 0
        assert 2 <= len(found) <= 6
        assert found[-1] <= seconds
    assert formats.ticks(0) == [0]
    assert [formats.clock(at) for at in formats.ticks(100)] == ["0 s", "20 s", "40 s", "1:00", "1:20", "1:40"]


def test_a_line_has_no_needless_corners():
    """What goes on along an axis is one line; each corner stays."""
    assert path([(0, 0), (1, 0), (2, 0), (2, 0.5), (2, 1), (4, 1)], 4, 1) == "M0 1000 500 1000 500 0 1000 0"
    assert path([(0, 0.5), (0, 0.5)], 0, 1) == "M0 500"


def test_quotes_that_overlap_are_marked_once():
    """The first stays marked, the other leads to the call alone."""
    pieces = parted("one two three", [(1, "one two"), (2, "two three")])
    assert pieces == [{"text": "one two", "quote": 1}, {"text": " three", "quote": None}]
    assert parted("a\tb", [(3, "a b")]) == [{"text": "a\tb", "quote": 3}]
