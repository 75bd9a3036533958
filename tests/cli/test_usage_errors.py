"""With `--json`, errors are an object on standard output."""

import json

import pytest

from tests.cli import conftest, specialists_command
from tests.wire.simulator.faults import ApiError
from tests.wire.simulator.replies import answers, refuses

PROGRAMS = {"run-specialist": conftest.MAIN, "specialists": specialists_command.MAIN}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("run-specialist nobody What? --json", "usage", "no specialist named nobody"),
        ("run-specialist finder What? --json --nonsense", "usage", "No such option: --nonsense"),
        ("run-specialist finder What? --json --output nowhere/x", "usage", "--output nowhere/x"),
        ("run-specialist finder --json --cost-limit much -- What?", "usage", "--cost-limit"),
        ("specialists show nobody --json", "usage", "no specialist named nobody"),
        ("specialists transcript nothing --json", "usage", "store"),
        ("specialists map finder nowhere.txt --json", "usage", "nowhere.txt cannot be read"),
        ("specialists eval finder --json", "usage", "finder.evals.yaml"),
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


@pytest.mark.exhaustive
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
