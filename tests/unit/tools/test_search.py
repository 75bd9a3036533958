"""Ranked search finds passages, whatever the wording and characters of the query."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.tools import search as index_module
from run_specialist.tools.files import file_tools
from run_specialist.tools.search import content_terms, passages, stem


def paths_of(result: str) -> list[str]:
    """Return the paths of the hits in order, each once."""
    lines = [line for line in result.split("\n") if line and not line.startswith("[")]
    return list(dict.fromkeys(line.split(":")[0] for line in lines))


@pytest.fixture(params=["by passages", "by files"])
def form(request, monkeypatch):
    """Run the test with both index forms, by passages and by files, regardless of the size of the root."""
    if request.param == "by files":
        monkeypatch.setattr(index_module, "LARGEST_CUT", 0)


@pytest.fixture
def notes(write):
    """Write a few notes on different subjects."""
    write(
        {
            "cache.md": "# Cache\n\nIt was removed because it grew without bound.\n\n## Size\n\nIt held 40 GB.\n",
            "release.md": "# Release\n\nWe shipped v0.3 on Monday. The parser lives in parse.rs:207.\n",
            "api.md": "# API\n\nSet `tool_choice` to force a tool. See HttpServerConfig and the time-out tests.\n",
            "lunch.md": "# Lunch\n\nOn Monday there is soup.\n",
        }
    )


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.usefixtures("notes", "form")
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("Why did we remove the cache?", "cache.md"),
        ("how large was it, in gigabytes? caches sizes", "cache.md"),
        ("tool_choice", "api.md"),
        ("tool choice forcing", "api.md"),
        ("v0.3", "release.md"),
        ("parse.rs:207", "release.md"),
        ("http server config", "api.md"),
        ("httpserverconfig", "api.md"),
        ("timeout", "api.md"),
        ("LUNCH", "lunch.md"),
    ],
)
def test_questions_and_identifiers_find_their_note(call, query, path):
    """Stop words, word endings, identifiers, versions and other spellings are handled."""
    assert paths_of(call("search", query=query))[0] == path


@pytest.mark.usefixtures("notes")
def test_hits_have_their_heading_path_and_line_number(call):
    """A hit shows its heading and lines with path and line number; a final note explains how to see more."""
    assert call("search", query="gigabytes GB", limit=1).split("\n") == [
        "cache.md:5: ## Size",
        "cache.md:7: It held 40 GB.",
        "[passages per word: GB 1]",
        "[in no file: gigabytes]",
        "[1 best of 1 passages; read(path, offset=line-10, limit=40) shows more]",
    ]


@pytest.mark.usefixtures("notes", "form")
def test_a_search_without_matches_names_the_missing_words(call):
    """A search without matches lists the words that are in no file and suggests what to try."""
    assert call("search", query="What about Terraform?").split("\n") == [
        "[in no file: Terraform]",
        "[nothing found in 4 files; use other words, or grep for a part of one]",
    ]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.usefixtures("notes", "form")
@pytest.mark.parametrize(
    "query", ["", "?", "the of and", '"', "NEAR(", "a AND", "*", "col:x", "-", "'", "x" * 5000, "😀"]
)
def test_no_query_breaks_the_search(call, query):
    """Query syntax of the search engine is treated as ordinary text."""
    assert call("search", query=query).endswith("]")


@pytest.mark.usefixtures("notes", "form")
def test_file_names_are_searched(call, write):
    """A word that occurs only in a file's name finds the file."""
    write({"2026-01-02_postmortem.md": "All was fine."})
    assert paths_of(call("search", query="postmortem")) == ["2026-01-02_postmortem.md"]


@pytest.mark.usefixtures("form")
def test_at_most_three_passages_of_a_file_are_shown(call, write):
    """At most three passages of a file are shown."""
    write({"a.md": "\n".join(f"# Part {number}\nneedle needle\n" for number in range(20)), "b.md": "one needle in hay"})
    result = call("search", query="needle")
    assert paths_of(result) == ["a.md", "b.md"]
    assert result.count("needle needle") == 3


@pytest.mark.usefixtures("form")
def test_accents_are_ignored_and_ideographs_found(call, write):
    """Accents are ignored, and a word inside a run of ideographs is found."""
    write({"a.md": "Der Überlauf im Café", "b.md": "今天讨论了机器学习的结果"})
    assert paths_of(call("search", query="uberlauf cafe")) == ["a.md"]
    assert paths_of(call("search", query="机器学习")) == ["b.md"]


@pytest.mark.usefixtures("form")
def test_only_the_matching_part_of_a_long_line_is_shown(call, write):
    """For a match in a very long line, only the matching part is shown, marked as cut."""
    write({"a.md": "Nothing here. " * 300 + "The needle is here. " + "Nothing there. " * 300})
    result = call("search", query="needle", limit=1)
    assert result.startswith("a.md:1: … ")
    assert "The needle is here." in result
    assert len(result) < 1000


@pytest.mark.usefixtures("form")
def test_threads_share_one_index(root, write, monkeypatch):
    """Parallel searches build the index once and get equal results."""
    write({f"{number}.md": f"needle {number}\n" for number in range(50)})
    built = []
    really_build = index_module.SearchIndex._build
    monkeypatch.setattr(index_module.SearchIndex, "_build", lambda self: built.append(1) or really_build(self))
    search = {tool.name: tool for tool in file_tools(root)}["search"].function
    barrier = threading.Barrier(4)

    def together(_: int) -> str:
        barrier.wait()
        return search("needle")

    with ThreadPoolExecutor(4) as pool:
        results = set(pool.map(together, range(4)))
    assert len(results) == 1
    assert built == [1]


@pytest.mark.usefixtures("form")
def test_the_index_closes_its_connection(root, write):
    """Releasing the tools closes the database; otherwise a ResourceWarning would fail this test."""
    write({"a.md": "needle"})
    tools = {tool.name: tool for tool in file_tools(root)}
    asyncio.run(tools["search"].call({"query": "needle"}))
    del tools
    gc.collect()


def test_a_full_index_reports_the_omitted_files(call, write, monkeypatch):
    """Files that do not fit into the index are counted, with an example."""
    monkeypatch.setattr(index_module, "LARGEST_INDEX", 10)
    write({"a.md": "needle", "b.md": "needle"})
    assert "[large files not searched: 1, such as b.md; use grep]" in call("search", query="needle")


def cut(text: str, *, prose: bool = True) -> list[tuple[list[str], list[str]]]:
    """Return the headings and the lines of each passage."""
    found = passages(text.split("\n"), prose=prose)
    return [([heading for _, heading in item.headings], [line for _, line in item.lines]) for item in found]


def test_both_kinds_of_headings_are_recognized():
    """Headings with # and underlined headings are recognized, except in code and front matter."""
    text = "---\ntitle: x\n---\n# A\na\n## B\n```\n# no\n```\n# C\nc\nUnder\n-----\nu"
    assert cut(text) == [
        ([], ["---", "title: x", "---"]),
        (["# A"], ["a"]),
        (["# A", "## B"], ["```", "# no", "```"]),
        (["# C"], ["c"]),
        (["# C", "Under"], ["u"]),
    ]
    assert cut("# comment\nx = 1", prose=False) == [([], ["# comment", "x = 1"])]


def test_a_heading_without_text_is_a_passage():
    """A heading without text below is a passage, so no line is lost."""
    assert cut("# A\n## B\n## C\ntext\n## D") == [
        (["# A"], ["## B"]),
        (["# A", "## C"], ["text"]),
        (["# A", "## D"], ["## D"]),
    ]


@given(st.text("# ab\n-=`~\t.", max_size=200))
def test_passages_keep_every_line_and_its_number(text):
    """In any text, the lines of passages and headings keep their line numbers."""
    lines = text.split("\n")
    held = {}
    for passage in passages(lines, prose=True):
        held.update([*passage.headings, *passage.lines])
    assert all(lines[number - 1] == line for number, line in held.items())


def test_stop_words_are_dropped_only_beside_other_words():
    """Stop words are dropped unless the query has no other words; identifiers stay in one piece."""
    assert content_terms("Why was the HttpServer retry loop in parse.rs:207 (v0.3) there?") == [
        "HttpServer",
        "retry",
        "loop",
        "parse.rs:207",
        "v0.3",
    ]
    assert content_terms("What is it?") == ["What", "is", "it"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("caches", "cache"), ("planned", "plan"), ("running", "run"), ("stories", "story"), ("tests", "test")),
        *(("retried", "retry"), ("retries", "retried")),
    ],
)
def test_inflections_have_the_same_stem(one, other):
    """Plural, past and -ing forms have the same stem as the base word."""
    assert stem(one) == stem(other)
