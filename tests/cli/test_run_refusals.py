"""The command `run-specialist`: arguments and files refused before any request, and the error messages."""

import pytest


@pytest.fixture
def refused(call, api):
    """Return a function that calls the command, which must exit with code 2, and returns its standard error."""
    simulator = api([])

    def refuse(*arguments, **options):
        result = call(*arguments, **options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Traceback" not in result.stderr
        assert not simulator.requests
        return result.stderr

    return refuse


WHOLE = "must be an integer of at least 0, or none"
WRONG = [
    (["finder", ""], "the question is empty"),
    (["findr", "What?"], "no specialist named findr; did you mean finder?"),
    (["zzz-not-there", "What?"], "no specialist named zzz-not-there"),
    (["./nowhere/finder.md", "What?"], "no such file: ./nowhere/finder.md"),
    (["finder", "What?", "--root", "nowhere"], "/nowhere is not a folder"),
    (["finder", "What?", "--dir", "nowhere"], "nowhere is not a folder"),
    (["finder", "What?", "--json", "--events"], "--json and --events cannot be combined"),
    (["finder", "What?", "--tool-calls-limit", "-1"], f"'--tool-calls-limit': {WHOLE}, got '-1'"),
    (["finder", "What?", "--tool-calls-limit", "9" * 5000], f"'--tool-calls-limit': {WHOLE}, got '999"),
    (["finder", "What?", "--cost-limit", "$5"], "'--cost-limit': must be an amount in USD of at least 0, or none"),
    (
        ["finder", "What?", "--time-limit", "soon"],
        "'--time-limit': must be a number of seconds, a duration like 90s, 10m or 1h",
    ),
    (
        ["finder", "What?", "--landing", "soft"],
        "'--landing': must be auto, force, order, schema, none, finalize or stop, got 'soft'",
    ),
    (
        ["finder", "What?", "--preset", "fast"],
        "'--preset': must be soft-landing, soft-warning, finalize, budget-notice or openai-loop, got 'fast'",
    ),
    (["finder", "What?", "--no-such-flag"], "--no-such-flag"),
    (["finder"], "QUERY"),
    ([], "NAME"),
]


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments)[:60] for arguments, _ in WRONG])
def test_an_invalid_argument_is_named(write, refused, arguments, said):
    """The error names the invalid argument and, if possible, suggests a correction."""
    write("finder")
    assert said in refused(*arguments)


def test_an_invalid_flag_value_is_one_line(write, refused):
    """Below the usual usage text, one line has the flag, the accepted values and the given value."""
    write("finder")
    said = refused("finder", "What?", "--preset", "fast").splitlines()
    wanted = "must be soft-landing, soft-warning, finalize, budget-notice or openai-loop, got 'fast'"
    assert [line for line in said if line][2:] == [f"Error: Invalid value for '--preset': {wanted}"]


@pytest.mark.parametrize("given", ["", " \n"])
def test_an_empty_question_from_standard_input_is_refused(write, refused, given):
    """`-` with empty standard input is refused."""
    write("finder")
    assert "the question is empty" in refused("finder", "-", input=given)


def test_a_missing_specialist_lists_the_folders_searched(write, refused, notes):
    """The error lists the folders that were searched, and only existing ones."""
    write("finder")
    said = refused("zzz-not-there", "What?")
    assert str(notes / "specialists") in said
    assert ".claude" not in said


def test_paths_without_files_name_the_remedies(write, refused, notes):
    """If no file matches `paths`, the error names the root, `--root` and `specialists new`."""
    write("finder", "paths: thoughts, plans")
    said = refused("finder", "What?")
    assert f"no file under {notes} matches thoughts, plans; set another folder with --root" in said
    assert "--root" in said
    assert "`specialists new`" in said


def test_paths_outside_the_root_are_refused(write, refused):
    """`..` is refused with its place in the file."""
    path = write("finder", "paths: ../elsewhere")
    assert f"{path}:4:8: paths: must be folders or globs under the root" in refused("finder", "What?")


def test_a_file_whose_tools_all_are_unknown_is_refused(write, refused):
    """The error has the place in the file, the requested tools and the available ones."""
    path = write("finder", "tools: Telescope, Microscope")
    said = refused("finder", "What?")
    assert f"{path}:4:1: tools: none of Telescope, Microscope exists; available: " in said
    assert "search" in said


def test_strict_refuses_a_file_with_warnings(write, refused, call):
    """With `--strict` each warning is an error with its place; without it the same file runs."""
    path = write("finder", "colour_of_owls: brown", "tools: Read, Telescope")
    said = refused("finder", "What?", "--strict")
    assert f"{path}:4:1: colour_of_owls: unknown key" in said
    assert f"{path}:5:8: tools: not available here: Telescope" in said
    result = call("finder", "What?", "--model", "offline")
    assert result.exit_code == 0
    assert f"warning: {path}:4:1: colour_of_owls: unknown key" in result.stderr


def test_quiet_suppresses_warnings_but_not_errors(write, refused, call):
    """`--quiet` keeps stderr empty if there is an answer, and does not suppress errors."""
    write("finder", "colour_of_owls: brown")
    result = call("finder", "What do owls eat?", "--model", "offline", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "colour_of_owls" in refused("finder", "What?", "--strict", "--quiet")


def test_unknown_agents_cause_one_warning(write, call):
    """The run continues without them, with one warning that has file, line and a suggestion."""
    write("toads")
    path = write("finder", "agents: toad")
    result = call("finder", "What do owls eat?", "--model", "offline")
    assert (result.exit_code, "mice" in result.stdout) == (0, True)
    said = [line.partition(": ")[2] for line in result.stderr.splitlines() if "agents" in line]
    assert said == [f"warning: {path}:4:1: agents: no specialist named toad; did you mean toads?"]


def test_a_cycle_of_agents_is_refused(write, refused):
    """Each specialist of the cycle is refused, with file, line and the cycle."""
    for name, other in (("finder", "checker"), ("checker", "finder")):
        path = write(name, f"agents: {other}")
        if name == "checker":
            said = refused(name, "What?")
            assert f"{path}:4:1: agents: calls form a cycle: checker -> finder -> checker; remove" in said


def test_an_mcp_server_without_command_and_url_causes_a_warning(write, call):
    """The run continues without the server, with a warning that has file and line."""
    path = write("finder", "mcp_servers: [files]")
    result = call("finder", "What do owls eat?", "--model", "offline")
    assert (result.exit_code, "mice" in result.stdout) == (0, True)
    assert f"warning: {path}:4:15: mcp_servers: files: has neither a command nor a url" in result.stderr
