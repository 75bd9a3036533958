"""The command `run-specialist`: what it refuses before anything is asked, and in which words."""

import pytest

KEPT_BY_NONE = ("turns_limit", "total_tokens_limit", "cost_limit", "time_limit", "tool_chars_limit", "summarize_at")


@pytest.fixture
def refused(call, api):
    """Return a function that calls the command, which must refuse with exit code 2, and returns what it said."""
    simulator = api([])

    def refuse(*arguments, **options):
        result = call(*arguments, **options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Traceback" not in result.stderr
        assert not simulator.requests
        return result.stderr

    return refuse


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("turns_limit", ["turns_limit: 5"]),
        ("total_tokens_limit", ["total_tokens_limit: 1000"]),
        ("cost_limit", ["cost_limit: 0.5"]),
        ("time_limit", ["time_limit: 10m"]),
        ("tool_chars_limit", ["tool_chars_limit: 0"]),
        ("preset", ["preset: soft-warning"]),
        ("preset", ["preset: finalize"]),
        ("preset", ["preset: budget-notice"]),
        ("preset", ["preset: openai-loop"]),
        ("summarize_at", ["summarize_at: 150000"]),
        ("output_schema", ["output_schema: answer.json"]),
        ("output_schema", ["output_schema:", "  type: object"]),
        ("countdown.warn_at", ["countdown:", "  from: 0.5", "  warn_at: 0.8"]),
        ("countdown.warn_at", ["countdown: {warn_at: 1}"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_this_version_cannot_keep_is_refused_at_its_place(write, refused, key, lines):
    """A promise of the file is never broken in silence: the line and the key are named."""
    path = write("finder", "tool_calls_limit: 3", *lines)
    said = refused("finder", "What?")
    assert f"{path}:5:" in said
    assert f" {key}: " in said
    assert "this version" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("line", [*(f"{key}: none" for key in KEPT_BY_NONE), "preset: soft-landing"])
def test_none_promises_nothing_and_runs(write, call, line):
    """A limit of `none` is kept by every version, and so is the preset that is the default."""
    write("finder", line)
    result = call("finder", "What do owls eat?", "--model", "offline", "--quiet", "--strict")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "mice" in result.stdout


WRONG = [
    (["finder", ""], "the question is empty"),
    (["finder", " \n\t"], "the question is empty"),
    (["findr", "What?"], "no specialist is called findr; did you mean finder?"),
    (["Finder ", "What?"], "did you mean finder?"),
    (["zzz-not-there", "What?"], "no specialist is called zzz-not-there"),
    (["./nowhere/finder.md", "What?"], "no specialist is called ./nowhere/finder.md"),
    (["finder", "What?", "--root", "nowhere"], "--root: there is no folder"),
    (["finder", "What?", "--root", "notes/owls.md"], "--root: there is no folder"),
    (["finder", "What?", "--dir", "nowhere"], "nowhere is no folder"),
    (["finder", "What?", "--json", "--events"], "--json and --events exclude each other"),
    (["finder", "What?", "--tool-calls-limit", "-1"], "'-1' is neither a whole number from 0 up nor `none`"),
    (["finder", "What?", "--tool-calls-limit", "2.5"], "'2.5' is neither a whole number"),
    (["finder", "What?", "--tool-calls-limit", "two"], "'two' is neither a whole number"),
    (["finder", "What?", "--tool-calls-limit", "٣"], "'٣' is neither a whole number"),
    (["finder", "What?", "--tool-calls-limit", ""], "'' is neither a whole number"),
    (["finder", "What?", "--landing", "soft"], "--landing"),
    (["finder", "What?", "--no-such-flag"], "--no-such-flag"),
    (["finder"], "QUERY"),
    ([], "NAME"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_arguments_are_named(write, refused, arguments, said):
    """What is wrong and, where it can be told, what was meant."""
    write("finder")
    assert said in refused(*arguments)


@pytest.mark.parametrize("given", ["", " \n"])
def test_an_empty_question_from_standard_input_is_refused(write, refused, given):
    """`-` with nothing to read asks nothing."""
    write("finder")
    assert "the question is empty" in refused("finder", "-", input=given)


def test_a_missing_specialist_tells_the_places_searched(write, refused, notes):
    """The folders that were searched, and only those that exist."""
    write("finder")
    said = refused("zzz-not-there", "What?")
    assert str(notes / "specialists") in said
    assert ".claude" not in said


def test_paths_that_are_not_there_name_the_ways_out(write, refused, notes):
    """A specialist for folders that this project lacks: the root is told, `--root`, and how to write another one."""
    write("finder", "paths: thoughts, plans")
    said = refused("finder", "What?")
    assert f"finder reads thoughts, plans, and there is nothing of it under {notes}" in said
    assert "--root" in said
    assert "`specialists new`" in said


def test_paths_that_lead_out_of_the_root_are_an_error_of_the_file(write, refused):
    """`..` is refused where it stands."""
    path = write("finder", "paths: ../elsewhere")
    assert f"{path}:4:8: paths: wanted folders or globs under the root" in refused("finder", "What?")


@pytest.mark.parametrize("pattern", [".", "./", "**", "notes/**", "./notes", "notes/**.md"])
def test_paths_of_every_spelling_run(write, call, pattern):
    """The root itself and any glob that git would take are no reason to break off."""
    write("finder", f'paths: ["{pattern}"]')
    result = call("finder", "What do owls eat?", "--model", "offline", "--quiet")
    assert (result.exit_code, "mice" in result.stdout) == (0, True)


def test_tools_of_which_none_exists_are_refused(write, refused):
    """The file's line is named, what it asks for, and what there is."""
    path = write("finder", "tools: Telescope, WebFetch")
    said = refused("finder", "What?")
    assert f"{path}:4:1: tools: none of Telescope, WebFetch exists here" in said
    assert "search" in said


def test_strict_refuses_a_file_with_warnings(write, refused, call):
    """Each warning is an error then, named with its place; without `--strict` the same file runs."""
    path = write("finder", "colour_of_owls: brown", "tools: Read, Telescope")
    said = refused("finder", "What?", "--strict")
    assert f"{path}:4:1: colour_of_owls: unknown key" in said
    assert f"{path}:5:8: tools: not available here: Telescope" in said
    result = call("finder", "What?", "--model", "offline")
    assert result.exit_code == 0
    assert f"warning: {path}:4:1: colour_of_owls: unknown key" in result.stderr


def test_quiet_keeps_warnings_back_and_never_errors(write, refused, call):
    """`--quiet` leaves stderr empty when there is an answer, and says what is wrong when there is none."""
    write("finder", "colour_of_owls: brown")
    result = call("finder", "What do owls eat?", "--model", "offline", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "colour_of_owls" in refused("finder", "What?", "--strict", "--quiet")


@pytest.mark.parametrize("line", ["agents: other", "mcp_servers: [files]", "python_tools: [app.tools:look]"])
def test_tools_that_this_version_does_not_offer_are_warned_about(write, call, line):
    """The run goes on without them and says so, with file and line."""
    path = write("finder", line)
    result = call("finder", "What do owls eat?", "--model", "offline")
    assert (result.exit_code, "mice" in result.stdout) == (0, True)
    assert f"warning: {path}:4:1: {line.split(':')[0]}: not offered by this version" in result.stderr
