"""Rules 6 to 9 of lenient loading: limits, tools, unreadable files, and unknown keys."""

import os
from pathlib import Path

import pytest

from run_specialist.specialist.loader import load
from run_specialist.specialist.registry import Registry
from tests.unit.specialist.front_matter import HEAD, file_of, lines_of

INVALID = ["twelve", "-5", "2.5", "1e2", "true", "[3]", ".inf", "1_000", "1:30", "unlimited", "'x'", "٣"]


@pytest.mark.parametrize("written", [*INVALID, "!calls 3", "9" * 5000])
def test_rule_6_an_invalid_limit_is_an_error(written: str) -> None:
    """Rule 6: a limit that is not an integer is an error at its place, and the file is still listed."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.name, file.description, file.specialist, file.tool_calls_limit) == ("agent", "Finds notes", None, None)
    assert [(p.line, p.column, p.key, p.level) for p in file.problems] == [(4, 19, "tool_calls_limit", "error")]
    assert file.problems[0].text.startswith("must be an integer of at least 0, or none, got ")


@pytest.mark.parametrize(
    ("written", "limit"), [("0", 0), ("30", 30), ("+7", 7), ("007", 7), ("0x1e", 30), ("9" * 40, 10**40 - 1)]
)
def test_rule_6_every_nonnegative_integer_is_a_limit(written: str, limit: int) -> None:
    """Rule 6: every non-negative integer is a limit, including 0 and very large ones."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.problems) == (limit, ())


def test_rule_6_a_number_in_quotes_is_read_with_a_warning() -> None:
    """Rule 6: a number in quotes is that number, with a warning."""
    file = file_of(HEAD + 'tool_calls_limit: "30"')
    assert (file.tool_calls_limit, lines_of(file)) == (30, ['4:19: tool_calls_limit: "30" is text; read as 30'])


@pytest.mark.parametrize("written", ["none", "None", "'none'"])
def test_rule_6_none_is_no_limit(written: str) -> None:
    """Rule 6: `none` is an explicit value that means no limit."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.status) == ("none", "ok")
    assert file.specialist is not None
    assert file.specialist.tool_calls_limit is None
    assert "tool_calls_limit" in file.specialist.model_fields_set


@pytest.mark.parametrize("written", ["", "~", "null", "# later"])
def test_rule_6_an_empty_limit_counts_as_not_given(written: str) -> None:
    """Rule 6: an empty key counts as not given, with a warning."""
    file = file_of(HEAD + f"tool_calls_limit: {written}")
    assert (file.tool_calls_limit, file.status) == (None, "warning")
    assert file.specialist is not None
    assert file.specialist.tool_calls_limit == 30
    assert "tool_calls_limit" not in file.specialist.model_fields_set


def test_rule_6_all_errors_at_once() -> None:
    """Rule 6: each bad value is reported at its own place."""
    file = file_of(HEAD + "tool_calls_limit: x\ncost_limit: $5\nlanding: soon\ncountdown:\n  from: 1.5\n  form: 2")
    assert lines_of(file) == [
        "4:19: tool_calls_limit: must be an integer of at least 0, or none, got x",
        "5:13: cost_limit: must be an amount in USD of at least 0, or none, got $5",
        "6:10: landing: must be auto, force, order, schema, none, finalize or stop, got soon",
        "8:9: countdown.from: must be a share from 0.0 to 1.0, an integer number of calls left, or none, got 1.5",
        "9:9: countdown.form: unknown key",
    ]


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read, Bash(git log:*, git show:*), Agent(a, b)", ("Read", "Bash(git log:*, git show:*)", "Agent(a, b)")),
        ("[Read, 'Agent(a, b)']", ("Read", "Agent(a, b)")),
        ("[Read, Agent(a, b)]", ("Read", "Agent(a, b)")),
        ("Read, Grep]", ("Read", "Grep")),
        ("[Read, Grep, Bash(git log:*)", ("Read", "Grep", "Bash(git log:*)")),
        ("Read Grep Bash(git log)", ("Read", "Grep", "Bash(git log)")),
        ("|\n  Read\n  Grep", ("Read", "Grep")),
        ("{read: true, bash: false}", ("read",)),
        ("{bash: false}", None),
        ("{'*': false}", ()),
        ("{'*': false, read: true}", ("read",)),
        ("*", None),
        ("['*']", None),
        ("[]", ()),
        ("''", ()),
        ("", None),
    ],
)
def test_rule_7_tools_are_read_in_every_form(written: str, tools: tuple[str, ...] | None) -> None:
    """Rule 7: lists in every form; a comma inside parentheses does not split; names stay as written."""
    assert file_of(HEAD + f"tools: {written}").tools == tools


def test_rule_7_a_map_that_only_disables_tools_restricts_nothing_else() -> None:
    """Rule 7: a map that only turns tools off restricts nothing else."""
    file = file_of(HEAD + "tools: {bash: false}\ndisallowed_tools: Grep")
    assert file.specialist is not None
    assert (file.specialist.tools, set(file.specialist.disallowed_tools)) == (None, {"bash", "Grep"})


@pytest.mark.parametrize("written", ["model:\n  - {a: opus}", "tools:\n  - Painter", "tools:\n  read: true"])
def test_rule_7_problems_with_a_block_point_at_its_key(written: str) -> None:
    """Rules 4 and 7: a problem with a complete list or map points at the line of its key."""
    assert [(p.line, p.column) for p in file_of(HEAD + written).problems] == [(4, 1)]


def test_rule_7_unavailable_tools_cause_a_warning() -> None:
    """Rule 7: a warning names unavailable tools, and says when no tool is left."""
    assert lines_of(file_of(HEAD + "tools: Read, Painter, Telescope")) == [
        "4:8: tools: not available here: Painter, Telescope"
    ]
    assert lines_of(file_of(HEAD + "tools: Painter")) == [
        "4:8: tools: not available here: Painter; no tool is left, so the specialist cannot be run"
    ]
    assert file_of(HEAD + "tools: mcp__web__fetch\nmcp_servers: {web: http://localhost/}").status == "ok"


def test_s0_9_an_invalid_file_is_reported_and_the_others_load(tmp_path: Path) -> None:
    """S0.9 and rule 8: a file that cannot be run is still listed and does not affect other files."""
    (tmp_path / "bad.md").write_text("---\nname: bad\ndescription: d\ntool_calls_limit: twelve\n---\nBody\n")
    (tmp_path / "binary.md").write_bytes(bytes(range(256)))
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "good.md").write_text("---\nname: good\ndescription: d\n---\nBody\n")
    files = {file.name: file for file in Registry([tmp_path]).files()}
    assert sorted(files) == ["bad", "binary", "gone", "good"]
    assert (files["good"].status, files["bad"].status, files["gone"].status) == ("ok", "error", "error")
    assert str(files["bad"].problems[0]) == (
        f"{tmp_path}/bad.md:4:19: tool_calls_limit: must be an integer of at least 0, or none, got twelve"
    )
    assert files["good"].specialist is not None


@pytest.mark.parametrize("make", ["folder", "missing", "fifo"])
def test_rule_8_an_unreadable_path_is_an_error(make: str, tmp_path: Path) -> None:
    """Rule 8: a folder, a missing file and a pipe are reported as problems, not raised."""
    path = tmp_path / "x.md"
    if make == "folder":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    file = load(path)
    assert (file.name, file.status, file.specialist) == ("x", "error", None)
    assert (file.problems[0].line, file.problems[0].column) == (1, 1)


def test_rule_9_limits_of_other_programs_set_only_the_turns_limit() -> None:
    """Rule 9: other programs' limits, such as `steps`, set only the turns limit."""
    file = file_of(HEAD + "steps: 7")
    assert file.tool_calls_limit is None
    assert file.specialist is not None
    assert (file.specialist.turns_limit, file.specialist.tool_calls_limit) == (7, 30)


def test_g8_a_number_of_tool_calls_is_probably_their_limit() -> None:
    """`tool_calls: 30` is an error that names `tool_calls_limit`."""
    (problem,) = file_of(HEAD + "tool_calls: 30").problems
    assert problem.text == "must be native or json (tool_calls_limit limits their number), got 30"


def test_rule_7_a_map_that_disables_all_keeps_the_enabled_tools() -> None:
    """Rule 7: a map that turns everything off keeps only the tools that it turns on."""
    file = file_of(HEAD + "tools:\n  '*': false\n  read: true\n  bash: false")
    assert file.specialist is not None
    assert (file.specialist.tools, file.specialist.disallowed_tools) == (("read",), ("bash",))
