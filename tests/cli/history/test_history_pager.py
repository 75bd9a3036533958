"""`specialists transcript` on a terminal: rendered, and through a pager if it is longer than the screen."""

import stat

import pytest

from run_specialist.record.messages import Message, ToolResult
from tests.cli.history.commands import here, keep
from tests.screen import run_on_terminal, screen
from tests.unit.store.records import checkpointed, ended, opened

COMMAND = ["specialists", "transcript", "last"]


@pytest.fixture
def long(store):
    """A stored run whose transcript is longer than the screens of the tests."""
    answer = {
        "answer": "It is **three**.\n\n|a|b|\n|-|-|\n|c|d|",
        "evidence": [{"source": "n.md:3", "quote": "three mice"}],
        "gaps": ["what toads eat"],
    }
    calls = [
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"query": "word " * 30}},
        {"type": "tool_use", "id": "c2", "name": "respond", "input": answer},
    ]
    results = [ToolResult("c1", "".join(f"line {number}\n" for number in range(60))), ToolResult("c2", "ok")]
    said = [Message.user("What *is* it?"), Message("assistant", tuple(calls)), Message.results(results)]
    keep(run_a=[opened("run_a", frozen=here()), checkpointed(1, 0, said), *ended("run_a")])


@pytest.fixture
def recorder(tmp_path):
    """A pager that records its input and its settings."""
    path = tmp_path / "recorder"
    path.write_text(f'#!/bin/sh\ncat > {tmp_path}/paged\nprintf "%s" "$LESS" > {tmp_path}/less\necho "was paged"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_long_transcript_is_paged(long, recorder, tmp_path):
    """The pager gets the whole text, with colors, and the settings with which git runs `less`."""
    written, _, code = run_on_terminal(COMMAND, rows=20, PAGER=f"{recorder} -x")
    assert (written.replace("\r\n", "\n"), code) == ("was paged\n", 0)
    paged = (tmp_path / "paged").read_text("utf-8")
    assert paged.count("line 59") == 1
    assert "\x1b[1mthree\x1b[0m" in paged
    assert (tmp_path / "less").read_text() == "FRX"
    run_on_terminal(COMMAND, rows=20, PAGER=str(recorder), LESS="-i")
    assert (tmp_path / "less").read_text() == "-i"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_transcript_is_wrapped_and_its_answer_rendered(long, columns):
    """Messages are indented below their labels and broken at spaces; the answer is rendered with quotes and gaps."""
    written, _, code = run_on_terminal(COMMAND, rows=500, columns=columns)
    lines = screen(written, columns)
    assert code == 0
    assert [line for line in lines if len(line) > columns] == []
    assert [one for one in lines if one.startswith("call")][1] == "call 2  respond"
    for line in (
        "user",
        "  What *is* it?",
        "  It is three.",
        "  Evidence",
        "  • n.md:3",
        "      three mice",
        "  • what toads eat",
    ):
        assert line in lines
    assert not any("wor\n" in line or "**" in line for line in lines)


@pytest.mark.exhaustive
@pytest.mark.parametrize("environment", [{"PAGER": "cat"}, {"PAGER": ""}, {"TERM": "dumb", "PAGER": "false"}])
def test_no_pager_if_none_is_wanted(long, environment):
    """`cat`, an empty PAGER, and a dumb terminal mean no pager."""
    written, _, code = run_on_terminal(COMMAND, rows=20, **environment)
    assert (code, "line 59" in written) == (0, True)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("pager", ["/no/pager", "true", "head -1", "kill -9 $$", "kill -INT $PPID; cat > /dev/null"])
def test_a_pager_that_ends_early_is_no_failure(store, pager):
    """Leaving the pager, a killed pager, and Ctrl-C in it end the command quietly."""
    results = [ToolResult("c1", "x" * 70 + "\n" * 3_000 + "y" * 300_000)]
    calls = ({"type": "tool_use", "id": "c1", "name": "look", "input": {}},)
    keep(
        run_a=[
            opened("run_a", frozen=here()),
            checkpointed(1, 0, [Message.user("Q"), Message("assistant", calls), Message.results(results)]),
        ]
    )
    written, _, code = run_on_terminal(COMMAND, rows=20, PAGER=pager)
    assert (code, "Traceback" in written, "rror" in written) == (0, False, False)


def test_control_characters_do_not_reach_the_pager(store, recorder, tmp_path):
    """What a pager gets has only the colors of the command."""
    evil = "\x1b[2J\x07\u202e" + "line\n" * 60
    keep(
        run_a=[opened("run_a", question=evil, frozen=here()), checkpointed(1, 0, [Message.user(evil)]), *ended("run_a")]
    )
    run_on_terminal(COMMAND, rows=20, PAGER=str(recorder))
    paged = (tmp_path / "paged").read_text("utf-8")
    assert "\ufffd[2J\ufffd\ufffd" in paged
    assert ("\x1b[2J" in paged, "\x07" in paged, "\u202e" in paged) == (False, False, False)
