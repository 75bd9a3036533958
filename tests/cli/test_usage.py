"""How the commands start: usage errors, `--help`, `--version`, flags, files that cannot work, and the question."""

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from run_specialist.budget import PRESETS, Kind
from run_specialist.cli import ask, manage
from run_specialist.cli.flags import SettingOptions
from run_specialist.store.reader import Store
from tests.cli.conftest import MAIN, limits_of
from tests.cli.specialists_command import call as specialists
from tests.docs.markdown import ROOT
from tests.forked_program import run_forked
from tests.screen import MAINS
from tests.wire.simulator.faults import ApiError
from tests.wire.simulator.replies import answers, refuses


@pytest.mark.exhaustive(one_in=9)
@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("run-specialist nobody What? --json", "usage", "no specialist named nobody"),
        ("run-specialist finder What? --json --nonsense", "usage", "No such option: --nonsense"),
        ("run-specialist finder --json --cost-limit much -- What?", "usage", "--cost-limit"),
        ("specialists show nobody --json", "usage", "no specialist named nobody"),
        ("specialists nonsense --json", "usage", "nonsense"),
        ("run-specialist nobody -- why --json", None, "no specialist named nobody"),
    ],
)
def test_t11_a_usage_error_is_an_object_with_json(program, write, words, kind, part):
    """Standard output is one object with kind and message, and empty where `--json` is a word behind `--`."""
    write("finder")
    name, *arguments = words.split()
    with program(*arguments, code=MAINS[name]) as process:
        out, err = process.communicate(timeout=60)
    error = json.loads(out)["error"] if kind else {"kind": None, "message": part + out}
    assert (process.returncode, error["kind"], part in err) == (2, kind, True)
    assert part in error["message"] if kind else out == ""


@pytest.mark.parametrize(
    ("replies", "kind", "code"),
    [([ApiError(401, "authentication_error", "invalid x-api-key")], "credentials", 3), ([refuses()], "no_answer", 4)],
)
def test_t11_a_failed_run_has_an_error(api, call, write, replies, kind, code):
    """The outcome has why there is no answer, beside all other keys; an answered one has null."""
    write("finder", "model: haiku", "patience: 0")
    api([answers("Owls."), *replies])
    answered = json.loads(call("finder", "What?", "--json").stdout)
    result = call("finder", "What?", "--json")
    outcome = json.loads(result.stdout)
    assert (result.exit_code, outcome["status"], outcome["error"]["kind"]) == (code, "failed", kind)
    assert outcome["error"]["message"] in result.stderr
    assert answered["error"] is None
    assert set(answered) == set(outcome)


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INTERRUPTED = """
import os, signal, sys
from run_specialist.cli import entry

class Interrupting:
    def find_spec(self, name, path, target=None):
        os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
entry.{program}()
"""
"""A program that is interrupted by the first import after its start."""


@pytest.mark.parametrize("program", ["run_specialist", "specialists"])
def test_ctrl_c_during_the_imports_ends_the_process_without_a_traceback(program):
    """The shell sees a process that was ended by the signal."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(program=program)], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
@pytest.mark.parametrize(("script", "command"), [("run-specialist", "ask"), ("specialists", "manage")])
def test_a_command_begins_with_the_handlers_as_they_were(monkeypatch, script, command, handler):
    """Commands handle Ctrl-C themselves, and one that is ignored stays ignored."""
    seen = []
    monkeypatch.setattr(f"run_specialist.cli.{command}.main", lambda: seen.append(signal.getsignal(signal.SIGINT)))
    module, _, name = PROJECT["scripts"][script].partition(":")
    before = signal.signal(signal.SIGINT, handler)
    try:
        getattr(import_module(module), name)()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [handler]


COMMANDS = [*manage.COMMANDS]


def help_of(app, words, width, flag="--help-all"):
    """Return the help text in so many columns; on a terminal, two columns are left free."""
    return CliRunner().invoke(app, [*words, flag], prog_name="specialists", terminal_width=width).stdout


DAYS = [(ask.app, (), 10), (manage.app, ("map",), 12), (manage.app, ("eval",), 12), (manage.app, (), 10)]


@pytest.mark.parametrize(("app", "words", "most"), DAYS)
def test_help_shows_what_people_use_every_day(app, words, most):
    """So many options or commands, each on one line, two examples; `--help-all` groups them; narrow, nothing is cut."""
    shown = help_of(app, words, 78, "--help")
    listed, examples = re.split(r"\n(?:Options|Commands):\n|\nExamples:\n", shown)[1:]
    rows = listed.rstrip().splitlines()
    assert len(rows) <= most + 1
    assert rows[-1].split() == ["--help-all", "Show", "all", rows[-1].split()[3], "in", "groups."]
    assert all(re.fullmatch(r"  \S.*\S  +\S.*\.", row) for row in rows)
    assert len(examples.strip().splitlines()) == 2
    whole, narrow = help_of(app, words, 78), help_of(app, words, 43, "--help")
    assert {row.split()[0].rstrip(",") for row in rows} <= set(re.findall(r"[\w-]+", whole))
    assert words or "--install-completion" in whole
    if app is ask.app:
        headings = [line for line in whole.splitlines() if line.endswith(":") and not line.startswith(" ")]
        assert headings[:3] + headings[-1:] == ["Arguments:", "Model:", "Limits of a run:", "Other options:"]
    assert "--install-completion" not in shown
    assert max(map(len, narrow.splitlines())) <= 43
    assert narrow.split() == shown.split()


@pytest.mark.parametrize("width", [50, 58, 78])
def test_the_list_of_commands_has_whole_summaries(width):
    """Each command is listed with the first sentence of its help, at any width."""
    listed = " ".join(help_of(manage.app, [], width).split("Specialist files:\n")[1].split())
    for name, (_, where) in manage.COMMANDS.items():
        module = import_module(f"run_specialist.cli.{where}")
        if command := getattr(module, name, None) or getattr(module, f"{name}_", None):
            first, *_ = command.__doc__.split("\n\n")
            assert f"{name} {' '.join(first.split())}" in listed


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("width", [58, 78])
@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS), ("fleet", "status")])
def test_help_texts_fit_the_terminal_and_name_no_python_type(words, width):
    """Every line fits into 60 and into 80 columns and ends with a whole word; arguments are shown as `NAME`."""
    for app in (manage.app, ask.app) if not words else (manage.app,):
        text = help_of(app, words, width)
        assert all(len(line) <= width and not line.endswith("-") for line in text.splitlines())
        assert not re.search(r"<\w+|\{[A-Z]+\}", text)


HERE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize("app", [ask.app, manage.app])
def test_both_commands_print_name_and_version(app):
    """Neither a specialist nor a command is needed."""
    result = CliRunner().invoke(app, ["--version"], catch_exceptions=False)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"run-specialist {HERE}\n", "")


@pytest.fixture
def job_of(write, prepared):
    """Return a function that asks with flags and lines of front matter, and returns the job of its run."""

    def job(flags, *lines):
        write("finder", *lines)
        return prepared(*flags.split())

    return job


LIMITS = {
    "--tool-calls-limit": (Kind.TOOL_CALLS, "7", 7),
    "--turns-limit": (Kind.TURNS, "50", 50),
    "--total-tokens-limit": (Kind.TOKENS, "1000000", 1_000_000),
    "--cost-limit": (Kind.COST, "0.25", 0.25),
    "--time-limit": (Kind.TIME, "1.5h", 5400),
    "--tool-chars-limit": (Kind.CHARACTERS, "100000", 100_000),
}
SAME = [f"{flag.removeprefix('--').replace('-', '_')}: 900" for flag in LIMITS]


def test_s3_4_s0_8_each_limit_flag_overrides_the_file(job_of):
    """Each flag overrides 900 in the file, the others are unchanged; `none` removes one, also of the preset."""
    flags = " ".join(f"{flag} {given}" for flag, (_, given, _) in LIMITS.items())
    assert limits_of(job_of(flags, *SAME)) == {kind: limit for kind, _, limit in LIMITS.values()}
    assert limits_of(job_of("--time-limit 90.5", *SAME)) == dict.fromkeys(Kind, 900) | {Kind.TIME: 90.5}
    flags = " ".join(f"{flag} none" for flag in LIMITS)
    assert limits_of(job_of(flags, *SAME, "preset: soft-warning")) == limits_of(job_of(flags)) == {}


def test_every_setting_flag_reaches_the_run(job_of):
    """Every flag of a setting has a test here, and those with a few values reach the run."""
    assert job_of("--landing order", "landing: stop").settings.landing == "order"
    assert job_of("--landing schema", "landing: stop").settings.landing == "schema"
    assert job_of("--evidence off", "evidence: require").settings.evidence == "off"
    assert job_of("--tool-calls native", "tool_calls: json").opening.tool_calls == "native"
    assert job_of("--first-search on").settings.first_search == "off", "the first call offline is that search"
    assert job_of("--patience 10m", "patience: 0").settings.patience == 600
    assert job_of("--patience none").settings.patience is None
    assert (job_of("--dry-run").patch is None, job_of("").patch is None) == (False, True)
    assert job_of("--server-tools").origin()["settings"]["server_tools"]
    tested = {flag.removeprefix("--").replace("-", "_") for flag in LIMITS}
    tested |= {"landing", "evidence", "tool_calls", "first_search", "preset", "patience", "server_tools"}
    assert {field.name for field in fields(SettingOptions)} == tested


@pytest.mark.exhaustive
def test_s3_4_the_preset_flag_overrides_the_file_and_flags_the_preset(job_of):
    """`finalize` sets its landing, one tool at a time and no notice; other settings of the file remain."""
    lines = ("landing: order", "parallel_tools_limit: 3", "tool_calls_limit: 9", "budget_notice: true")
    job = job_of("--preset finalize", *lines)
    assert (job.settings.landing, job.settings.parallel_tools_limit) == ("finalize", 1)
    assert job.budget[Kind.TOOL_CALLS].limit == 9
    assert "Tool budget" not in job.opening.system
    job = job_of("--preset finalize --landing force", *lines)
    assert (job.settings.landing, job.settings.parallel_tools_limit) == ("force", 1)


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
    (["finder", ""], "the question is empty", ""),
    (["findr", "What?"], "no specialist named findr; did you mean finder?", ""),
    (["./nowhere/finder.md", "What?"], "no such file: ./nowhere/finder.md", ""),
    (["finder", "What?", "--root", "nowhere"], "/nowhere is not a folder", ""),
    (["finder", "What?", "--json", "--events"], "--json and --events cannot be combined", ""),
    (["finder", "What?", "--tool-calls-limit", "-1"], f"'--tool-calls-limit': {WHOLE}, got '-1'", ""),
    (["finder", "What?", "--preset", "fast"], f"'--preset': must be {', '.join([*PRESETS][:-1])} or ", ""),
    (["finder", "What?", "--no-such-flag"], "--no-such-flag", ""),
    (["finder"], "there is no question: QUERY is missing, and standard input is empty", ""),
    (["--json"], "there is no question", ""),
    (["  "], "the question is empty", ""),
    (["explain", "the", "loop"], "no specialist named explain", ""),
    (["explain", "the", "loop"], "to ask without a NAME, put the question in quotes", ""),
    (["finder", "-", "-"], "`-` means standard input, which can be read only once", "x"),
    (["finder", ""], "the question is empty", "x"),
    (["finder", "why", "--fooo"], "quote the question, or put `--` before it", ""),
]


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(("arguments", "said", "given"), WRONG)
def test_an_invalid_argument_is_named(write, refused, arguments, said, given):
    """The error names the invalid argument and, if possible, suggests a correction; a question must be clear."""
    write("finder")
    assert said in refused(*arguments, input=given)


@pytest.mark.parametrize(
    ("words", "asked", "also"),
    [
        (["Why did the owls leave?"], "thoughts-analyzer", "codebase-analyst"),
        (["Which", "owls eat mice?"], "codebase-analyst", "change-impact"),
        (["how", "do", "owls", "hunt"], "codebase-analyst", "thoughts-analyzer"),
        (["Is it a toad?"], "toads", "codebase-analyst"),
        (["-"], "error-tracer", "change-impact"),
    ],
)
def test_a_question_without_a_name_is_put_to_the_specialist_that_fits(write, call, words, asked, also):
    """The description decides, else the default; judges are not asked offline. One line says so, unless --quiet."""
    write("toads")
    given = {"input": "error message: no such owl"}
    result = call(*words, "--model", "offline", **given)
    assert re.search(rf"^[\w.-]+: asking {asked} \(also: [\w-]+\)$", result.stderr, re.MULTILINE)
    quiet = call(*words, "--model", "offline", "--json", "--quiet", **given)
    assert (json.loads(quiet.stdout)["specialist"], "asking" in quiet.stderr) == (asked, False)


def test_without_a_word_specialists_are_listed_and_those_with_powers_asked_by_name_only(write, call, notes):
    """A line for each that works here; neither `--trust` nor a name that is a path lets a description choose one."""
    write("finder")
    write("broken", "tool_calls_limit: many")
    write("judge", "offline: refuse")
    result = call()
    listed = {line.split()[0] for line in result.stdout.splitlines()}
    assert {"finder", "codebase-analyst"} <= listed
    assert not {"broken", "judge", "fact-checker"} & listed
    assert (result.exit_code, "run-specialist [NAME] 'QUESTION'" in result.stderr) == (0, True)
    write("owls", "tools: [read, edit]", "writable: [notes]")
    own = notes.parent / "home/.config/run-specialist/specialists/mine.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: mine\ndescription: Owls and mice.\ntools: [read, bash]\n---\nYou hunt.\n")
    write("path").write_text(f"---\nname: {own}\ndescription: Owls and mice.\n---\nYou hunt.\n")
    result = call("Do owls eat mice?", "--model", "offline", "--trust", "--json")
    assert json.loads(result.stdout)["specialist"] == "codebase-analyst"


def test_the_default_is_asked_if_no_description_fits_better(write, call, user_file, project_file):
    """That of a project wins over the user's, but gains no power; one that does not exist is an error."""
    write("finder")
    write("editor", "tools: [read, edit]", "writable: [notes]")

    def asked(question="Who hunts?"):
        result = call(question, "--model", "offline")
        found = re.search(r"asking ([\w-]+)", result.stderr)
        return found[1] if found else result.stderr

    user_file("default_specialist = 'thoughts-locator'")
    assert asked() == "thoughts-locator"
    assert asked("Which error message is in the log?") == "error-tracer"
    project_file("default-specialist = 'finder'")
    assert asked() == "finder"
    project_file("default_specialist = 'editor'")
    assert "pyproject.toml:2: default_specialist: editor does more than read; ask it by its name" in asked()
    project_file("default_specialist = 'findr'")
    assert "pyproject.toml:2: default_specialist: no specialist named findr; did you mean finder?" in asked()
    project_file("default_specialist = '../finder.md'")
    assert "pyproject.toml:2: default_specialist: must be the name of a specialist" in asked()


def test_a_specialist_that_cannot_be_asked_is_refused_with_its_reason(write, refused, notes):
    """A missing one with the existing folders searched, one whose `paths` match no file with the remedies, a cycle."""
    write("finder", "paths: thoughts, plans")
    said = refused("zzz-not-there", "What?")
    assert (str(notes / "specialists") in said, ".claude" in said) == (True, False)
    said = refused("finder", "What?")
    assert f"no file under {notes} matches thoughts, plans; set another folder with --root" in said
    assert "`specialists new`" in said
    write("finder", "agents: checker")
    path = write("checker", "agents: finder")
    said = refused("checker", "What?")
    assert f"{path}:4:1: agents: calls form a cycle: checker -> finder -> checker; remove" in said


def test_strict_refuses_a_file_with_warnings(write, refused, call):
    """With `--strict` each warning is an error with its place, which --quiet does not hide; else the same file runs."""
    write("toads")
    path = write("finder", "colour_of_owls: brown", "tools: Grep, Telescope", "agents: toad")
    for quiet in ([], ["--quiet"]):
        said = refused("finder", "What?", "--strict", *quiet)
        assert f"{path}:4:1: colour_of_owls: unknown key" in said
        assert f"{path}:5:8: tools: not available here: Telescope" in said
    result = call("finder", "What?", "--model", "offline")
    assert result.exit_code == 0
    assert f"warning: {path}:4:1: colour_of_owls: unknown key" in result.stderr
    said = [line.partition(": ")[2] for line in result.stderr.splitlines() if "agents" in line]
    assert said == [f"warning: {path}:6:1: agents: no specialist named toad; did you mean toads?"]
    assert call("finder", "What do owls eat?", "--model", "offline", "--quiet").stderr == ""


@pytest.fixture
def project(notes, monkeypatch):
    """A project of code without notes, where only the specialists of the package are found."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    shutil.rmtree(notes / "notes")
    (notes / "pay.py").write_text("def retry():\n    return 3\n")
    return notes


WHERE = "thoughts/, else notes/, docs/, *.md"


def listed() -> dict[str, dict]:
    """Return the specialists of `list --json` by name."""
    result = specialists("list", "--json")
    assert result.exit_code == 0
    return {one["name"]: one for one in json.loads(result.stdout)["specialists"]}


def test_list_and_show_say_what_cannot_work_here(project, call):
    """Specialists without files are blocked: `list` has a line for the reason they share; asked, others are named."""
    result = specialists("list")
    rows = {line.split()[0]: line.split()[1] for line in result.stdout.splitlines() if line and "cannot" not in line}
    assert rows["codebase-analyst"] == rows["fact-checker"] == "ok"
    assert rows["thoughts-analyzer"] == rows["thoughts-locator"] == "blocked"
    reason = f"no file under {project} matches {WHERE}"
    told = [line for line in result.stdout.splitlines() if "cannot work" in line]
    assert (result.exit_code, told) == (0, [f"thoughts-analyzer, thoughts-locator cannot work here: {reason}"])
    assert f"\ncannot work here: {reason}\n\nKEY " in specialists("show", "thoughts-analyzer").stdout
    assert json.loads(specialists("show", "thoughts-analyzer", "--json").stdout)["unavailable"] == reason
    assert "cannot work" not in specialists("show", "codebase-analyst").stdout
    assert json.loads(specialists("show", "codebase-analyst", "--json").stdout)["unavailable"] is None
    result = call("thoughts-analyzer", "How are payments retried?")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{reason}; set another folder" in result.stderr
    named = result.stderr.strip().rpartition("; ")[2]
    assert (named.startswith("these work here: "), "thoughts-locator" in named) == (True, False)


def test_the_model_can_be_the_reason(write, notes, monkeypatch):
    """A judgement without a model, missing credentials and a required model are reasons, each with what to do."""
    write("judge", "offline: refuse")
    write("priced", "model: opus")
    write("chatting", "model: openai:gpt-5")
    write("local", "model: ollama:qwen")
    write("finder")
    found = {name: one["unavailable"] for name, one in listed().items()}
    assert "the answer is a judgement (offline: refuse) and needs a model" in found["judge"]
    assert found["priced"].startswith("no credentials for opus: set ANTHROPIC_API_KEY")
    assert found["chatting"].startswith("no credentials for openai:gpt-5: set OPENAI_API_KEY")
    assert (found["local"], found["finder"]) == (None, None)
    monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", "1")
    assert "a model is required (SPECIALIST_REQUIRE_MODEL)" in listed()["finder"]["unavailable"]
    assert listed()["local"]["unavailable"] is None


def test_without_thoughts_other_notes_are_read_and_named(notes, call):
    """Where there is no `thoughts/`, the first of the alternatives that exist are read, and a warning names them."""
    result = call("thoughts-analyzer", "What do owls eat at night?", "--model", "offline", "--json")
    assert json.loads(result.stdout)["evidence"][0]["source"] == "notes/owls.md:3"
    assert "paths: no file matches thoughts/; these are read instead: notes/\n" in result.stderr


OFFLINE = ("--model", "offline", "--json", "--quiet")
UNREAD = "warning: the text on standard input was not read"


@pytest.fixture
def asked(write, call, store):
    """Return a function that asks in this process, and returns the question of the run and the error output."""
    write("finder")

    def ask(*words, **options):
        result = call("finder", *OFFLINE, *words, **options)
        assert result.exit_code == 0, result.output
        run = json.loads(result.stdout)["run_id"]
        with Store(f"sqlite:///{store}") as opened:
            return opened.load(run).question

    return ask


def test_the_question_is_words_or_standard_input(asked, write, call, monkeypatch, capsys):
    """Options may stand between its words, after `--` all belong to it; input that is too long or closed is refused."""
    assert asked("what", "do", "--tool-calls-limit", "3", "owls", "eat?") == "what do owls eat?"
    assert asked("  What do\nowls eat? ") == "  What do\nowls eat? "
    assert asked("--", "what", "does", "--json", "-q") == "what does --json -q"
    assert asked("what", "--", "does", "--strict") == "what does --strict"
    assert asked(input="What do owls eat?\n") == asked("-", input="What do owls eat?\n") == "What do owls eat?\n"
    assert asked("what", "is", "-", "about?", input="owls\nmice\n") == "what is\n\nowls\nmice\n\nabout?"
    assert asked("what is this?", "-", input="owls") == "what is this?\n\nowls"
    monkeypatch.setattr(ask, "LARGEST", 9)
    assert asked(input="nine char") == "nine char"
    result = call("finder", *OFFLINE, input="ten charss")
    assert (result.exit_code, "standard input is longer than" in result.stderr) == (2, True)
    monkeypatch.setattr(sys, "stdin", None)
    assert ask.question_from(["why?"]) == "why?"
    for words, told in ((None, "there is no question; use:"), (["-"], "standard input is closed")):
        with pytest.raises(Exception) as ended:  # noqa: PT011 - typer's own exit
            ask.question_from(words)
        assert (ended.value.exit_code, told in capsys.readouterr().err) == (2, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("give", ["pipe", "file", "socket"])
def test_text_that_was_not_read_is_mentioned_once(write, program, tmp_path, give):
    """A question without `-` does not read the pipe, the file or the socket, and says so, but not with --quiet."""
    write("finder")
    for flags, times in (((), 1), (("--quiet",), 0)):
        ours, theirs = socket.socketpair()
        (tmp_path / "text").write_text("owls")
        read_end, write_end = os.pipe()
        os.write(write_end, b"owls")
        ours.sendall(b"owls")
        with (tmp_path / "text").open() as file, ours, theirs:
            stdin = {"pipe": read_end, "file": file, "socket": theirs}[give]
            process = program("finder", "What do owls eat?", "--model", "offline", *flags, stdin=stdin)
            told = process.communicate()[1]
        os.close(read_end)
        os.close(write_end)
        assert (process.returncode, told.count(UNREAD)) == (0, times)


@pytest.mark.exhaustive
def test_an_open_pipe_is_waited_for_only_without_a_question(write, program):
    """With one it is not mentioned; without one, and without input for a second, a line says what is awaited."""
    write("finder")
    read_end, write_end = os.pipe()
    process = program("finder", "what", "do", "owls", "eat?", "--model", "offline", stdin=read_end)
    out, told = process.communicate()
    os.close(read_end)
    os.close(write_end)
    assert (process.returncode, "mice" in out, UNREAD in told) == (0, True, False)
    process = program("finder", "--model", "offline", stdin=subprocess.PIPE)
    assert "waiting for the question on standard input" in process.stderr.readline()
    out, _ = process.communicate("What do owls eat?")
    assert (process.returncode, "mice" in out) == (0, True)


@pytest.mark.exhaustive
def test_a_terminal_without_a_question_gets_one_line(write, notes):
    """On a terminal nothing is read: one line says how to ask."""
    write("finder")
    ours, theirs = pty.openpty()
    done = run_forked([sys.executable, "-W", "error", "-c", MAIN, "finder"], stdin=theirs, capture_output=True)
    os.close(ours)
    os.close(theirs)
    told = done.stderr.decode().splitlines()
    assert (done.returncode, len(told)) == (2, 1)
    assert "there is no question; use: run-specialist NAME 'why" in told[0]
