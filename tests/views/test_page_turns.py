"""Turns, calls, results and evidence on the page of a run."""

import html
import json
import re

import pytest

from run_specialist import prompts
from run_specialist.views.report import data, report
from tests.views import odd
from tests.views.full import full_run

ODD_RUNS = [
    odd.odd_run,
    odd.huge_run,
    odd.interrupted_run,
    odd.pending_run,
    odd.empty_run,
    odd.failed_run,
    odd.structured_run,
]


def calls_of(shown):
    """Return all calls in order."""
    return [call for turn in shown["turns"] for call in turn["calls"]]


def text_of(call):
    """Return the full text of a result."""
    return "".join(piece["text"] for piece in call["result"])


@pytest.mark.parametrize("run", ODD_RUNS)
def test_unusual_runs_have_a_page_and_json_data(run):
    """Every unusual run can be written as a page, and its data can be serialized to JSON."""
    kept = run()
    assert json.loads(json.dumps(data(kept)))["run_id"] == kept.run_id
    page = report(kept)
    assert page.startswith("<!doctype html>")
    page.encode("utf-8")


def test_untrusted_text_is_escaped():
    """Text from tools, model, user and file is escaped, and its odd characters are made visible."""
    page = report(odd.odd_run())
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page
    assert "&lt;/script&gt;" in page
    assert "⟨ESC⟩[31mred⟨ESC⟩[0m ⟨NUL⟩ ⟨BEL⟩ ⟨DEL⟩ ⟨U+009B⟩" in page
    assert "⟨U+202E⟩desrever⟨U+202C⟩" in page
    assert "⟨U+D83D⟩ half ⟨U+FEFF⟩ שלום" in page
    assert "{{ 7*7 }}" in page
    assert not set(page) & {*map(chr, range(32)), "\x7f", "\x9b", "\u202e"} - {"\n", "\t"}


def test_the_policy_of_the_page_forbids_all_connections():
    """The page's policy forbids all connections, and the page contains no addresses."""
    page = html.unescape(report(full_run()))
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "unsafe" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_evidence_links_to_its_place_in_the_result(full):
    """Each verified quote names its call and is marked in the result, also across numbered lines."""
    first, second, third, unfound = full["answer"]["evidence"]
    assert [one["call"] for one in (first, second, third)] == [4, 5, 12]
    assert [one["target"] for one in (first, second, third)] == ["quote-1", "quote-2", "quote-3"]
    assert unfound["target"] is None
    assert not unfound["verified"]
    marked = {piece["quote"]: piece["text"] for call in calls_of(full) for piece in call["result"] if piece["quote"]}
    assert marked[1] == first["quote"]
    assert marked[2].startswith("with ThreadPoolExecutor() as pool:\n    27\t        return [")
    assert marked[3] == "only finished runs are written"


@pytest.mark.parametrize(
    ("verified", "said"), [(True, ">verified"), (False, "not found in what"), (None, "not looked up")]
)
def test_g_5_the_page_says_whether_a_quote_was_found_or_looked_up_at_all(verified, said):
    """With `evidence: off` a quote is neither verified nor unfound."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "a.py:3: other words"))
    page = report(tape.end(tape.outcome("answered", "So.", [odd.Evidence("a.py:3", "the words", verified=verified)])))
    checks = re.findall(r'<span class="check">.*?</span>', page)
    assert [said in check for check in checks] == [True]


def test_calls_are_listed_in_order_with_their_state(full):
    """Calls are listed in order with their state: finished, failed, repeated, cut or skipped; the answer is last."""
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


def test_a_landing_instruction_is_shown_below_the_result():
    """A landing instruction is shown below the result and is not taken for the countdown."""
    tape = odd.Tape({odd.Kind.TOOL_CALLS: 2})
    done = [odd.grep("x", "a.py:1: x"), odd.grep("y", "a.py:2: y")]
    tape.ask("", done)
    tape.run(done, words="Answer now.")
    first, last = calls_of(data(tape.stored("running")))
    assert first["added"] == ["1 tool call remaining"]
    assert (text_of(last), last["ending"]) == ("a.py:2: y", "0 tool calls remaining")
    assert last["added"] == ["0 tool calls remaining", "Answer now."]


def test_identical_turns_and_calls_keep_their_own_results():
    """Identical turns and calls keep their own results, also with a summary between them."""
    tape = odd.Tape({})
    same = [
        odd.Did("grep", {"pattern": "x"}, word, call_id="same")
        for word in ("one", "two", "three", "four", "five", "six")
    ]
    tape.turn("", *same[:2])
    tape.turn("", *same[2:4])
    tape.summarize("- notes")
    tape.turn("", *same[4:])
    calls = calls_of(data(tape.stored("running")))
    assert [text_of(call) for call in calls] == ["one", "two", "three", "four", "five", "six"]
    assert [call["number"] for call in calls] == [1, 2, 3, 4, 5, 6]


def test_a_failed_call_is_not_used_as_evidence():
    """A failed call is not used as evidence, because its error text may repeat the model's."""
    tape = odd.Tape({})
    tape.turn("", odd.grep("x", "grep failed: the words", is_error=True), odd.grep("y", "a.py:1: the words"))
    run = tape.end(tape.outcome("answered", "So.", [odd.Evidence("", "the words", verified=True)]))
    assert [one["call"] for one in data(run)["answer"]["evidence"]] == [2]
