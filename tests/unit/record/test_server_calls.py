"""Blocks of tools that the API runs, read as calls and results; whatever a server sends is read without an error."""

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.record.messages import (
    Reply,
    Stop,
    counted,
    has_server_calls,
    is_result,
    searches,
    server_calls,
    text_of,
)

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


def test_other_blocks_are_no_server_calls():
    """Texts, and calls and results of this program, are none."""
    content = [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "a"}, {"type": "tool_result"}]
    assert not has_server_calls(content)
    assert server_calls(content) == ()
    assert not any(map(is_result, content))


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


@settings(max_examples=25)
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
