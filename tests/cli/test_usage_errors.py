"""Usage errors are wrapped between words on a terminal, like all other messages."""

import io
import json
from types import SimpleNamespace

import pytest
import typer
from typer.main import get_command

from run_specialist.cli import ask, manage
from run_specialist.cli import help as usage_errors
from tests.cli import conftest, specialists_command
from tests.wire.simulator.faults import ApiError
from tests.wire.simulator.replies import answers, refuses

LONG = "'done' is not one of running, interrupted, answered, landed, partial, failed, aborted"
PROGRAMS = {"run-specialist": conftest.MAIN, "specialists": specialists_command.MAIN}
_USAGE_ERROR = typer.BadParameter.__mro__[1]  # of click, or of the copy of click in typer


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self):
        """Return True."""
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal with 40 columns."""
    monkeypatch.setattr(usage_errors, "sys", SimpleNamespace(stderr=Terminal()))
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("app", "words"),
    [
        (manage.app, ["runs", "--status", "done"]),
        (manage.app, ["lst"]),
        (manage.app, ["fleet", "pause"]),
        (manage.app, ["new", "--tool", "x"]),
        (ask.app, ["thoughts-analyzer", "Why", "--tool-call-limit", "3"]),
    ],
)
def test_a_usage_error_of_any_command_fits_the_terminal(app, words):
    """Each line fits into 40 columns, with its label."""
    with pytest.raises(_USAGE_ERROR) as caught:
        get_command(app).main(words, prog_name="specialists", standalone_mode=False)
    lines = f"Error: {caught.value.format_message()}".splitlines()
    assert len(lines) > 1 or words in (["lst"], ["fleet", "pause"])
    assert all(len(line) <= 40 for line in lines)


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("run-specialist nobody What? --json", "usage", "no specialist named nobody"),
        ("run-specialist finder What? --json --nonsense", "usage", "No such option: --nonsense"),
        ("run-specialist finder What? --json --output nowhere/x", "usage", "--output nowhere/x"),
        ("run-specialist finder What? --json --model haiku", "usage", "no credentials for haiku"),
        ("run-specialist finder --json --cost-limit much -- What?", "usage", "--cost-limit"),
        ("specialists list --json --root nowhere", "usage", "nowhere"),
        ("specialists show nobody --json", "usage", "no specialist named nobody"),
        ("specialists transcript nothing --json", "usage", "store"),
        ("specialists resume nothing --json", "usage", "store"),
        ("specialists map finder nowhere.txt --json", "usage", "nowhere.txt cannot be read"),
        ("specialists eval finder --json", "usage", "finder.evals.yaml"),
        ("specialists tune nobody --json --nonsense", "usage", "No such option"),
        ("specialists nonsense --json", "usage", "nonsense"),
    ],
)
def test_t11_a_usage_error_is_an_object_with_json(program, write, words, kind, part):
    """Standard output is one object with the kind and the message; standard error and the exit code are as before."""
    write("finder")
    name, *arguments = words.split()
    with program(*arguments, code=PROGRAMS[name]) as process:
        out, err = process.communicate(timeout=60)
    error = json.loads(out)["error"]
    assert (process.returncode, error["kind"], part in error["message"], part in err) == (2, kind, True, True)


def test_t11_a_word_of_the_question_is_not_the_flag(program, notes):
    """Without the flag standard output stays empty; behind `--`, the word belongs to the question."""
    with program("nobody", "--", "why", "--json") as process:
        assert process.communicate(timeout=60)[0] == ""
    assert notes.is_dir()


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
