"""`--requests-at-once`, its variable and its key: the gate of the run gets the number, and wrong numbers end with 2."""

import pytest

from run_specialist.providers.admission import Gate
from tests.wire.simulator.replies import answers

QUESTION = "What do owls eat?"


@pytest.fixture
def ceilings(monkeypatch):
    """The ceilings of all requests."""
    found, enter = [], Gate.enter

    def spy(gate, turn):
        found.append(turn.ceiling)
        return enter(gate, turn)

    monkeypatch.setattr(Gate, "enter", spy)
    return found


@pytest.fixture
def config(tmp_path):
    """Return a function that writes the config file of the user."""
    path = tmp_path / "home/.config/run-specialist/config.toml"
    path.parent.mkdir(parents=True)
    return path.write_text


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("flag", "variable", "key", "number"),
    [(None, None, None, None), (None, None, 5, 5), (None, 4, 5, 4), (3, 4, 5, 3)],
    ids=["nothing", "config file", "variable", "flag"],
)
def test_r3_the_flag_comes_before_the_variable_before_the_file(
    call, write, api, config, ceilings, monkeypatch, flag, variable, key, number
):
    """As with the other options of the user."""
    write("finder")
    api([answers("mice")])
    if variable:
        monkeypatch.setenv("SPECIALIST_REQUESTS_AT_ONCE", str(variable))
    if key:
        config(f"requests-at-once = {key}\n")
    result = call("finder", QUESTION, *([f"--requests-at-once={flag}"] if flag else []))
    assert result.exit_code == 0, result.stderr
    assert set(ceilings) == {number}


@pytest.mark.parametrize("value", ["0", "-2", "true", "1.5", "'4'", "'none'"])
def test_r3_a_wrong_key_is_a_usage_error(call, write, config, value):
    """The line names file, line and key."""
    write("finder")
    config(f"requests_at_once = {value}\n")
    result = call("finder", QUESTION)
    assert result.exit_code == 2
    assert "config.toml:1: requests_at_once: must be an integer of at least 1, got " in result.stderr


def test_r3_a_project_cannot_decide_it(call, write, notes):
    """What one key may do is the matter of its owner."""
    write("finder")
    (notes / "pyproject.toml").write_text("[tool.run-specialist]\nrequests_at_once = 500\n")
    result = call("finder", QUESTION)
    assert result.exit_code == 2
    assert "SPECIALIST_REQUESTS_AT_ONCE or --requests-at-once" in result.stderr
