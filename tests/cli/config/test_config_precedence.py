"""Which value a setting has: an option, the specialist's file, the project, the user, or the default."""

import inspect

from run_specialist.api.config_files import KEYS, ONLY_OPTIONS
from run_specialist.budget import Kind
from run_specialist.cli.ask import run
from tests.cli.config.question import QUESTION


def limits(job):
    """Return the limits of a job that are set."""
    return {one.kind: one.limit for one in job.budget.limits if one.limit is not None}


def test_every_option_is_a_key_or_known_as_none():
    """A new option of the command must become a key, or be listed among those that are not."""
    options = {name.rstrip("_") for name in inspect.signature(run).parameters} - {"name", "query", "version"}
    assert options - set(KEYS) <= ONLY_OPTIONS
    assert set(KEYS) <= options


def test_the_order_of_precedence(write, prepared, project_file, user_file):
    """Option, then the specialist's file, then the project, then the user, then the default; limits only go down."""
    write("finder", "time_limit: 5")
    user_file("time_limit = 10", "turns_limit = 11", "tool_calls_limit = 12", "total-tokens-limit = 13000")
    project_file("time_limit = 8", "turns_limit = 9", "tool_calls_limit = 7")
    found = limits(prepared("--model", "offline", "--turns-limit", "31"))
    assert found == {Kind.TIME: 5, Kind.TURNS: 31, Kind.TOOL_CALLS: 7, Kind.TOKENS: 13_000}
    assert prepared().settings.landing == "auto"
    project_file("landing = 'stop'", "time_limit = 'none'", "tool_calls_limit = 'none'", "tool-chars-limit = 99")
    write("finder", "time_limit: 50")
    found = {Kind.TIME: 10, Kind.TURNS: 11, Kind.TOOL_CALLS: 12, Kind.TOKENS: 13_000, Kind.CHARACTERS: 99}
    job = prepared()
    assert (job.settings.landing, limits(job)) == ("stop", found)


def test_a_preset_of_a_config_file_is_the_weakest(write, prepared, project_file, user_file):
    """It holds below the keys of both files, and not beside a preset of the specialist or of the call."""
    write("finder")
    user_file("preset = 'openai-loop'", "tool_chars_limit = 500")
    project_file("preset = 'soft-warning'")
    assert limits(prepared()) == {Kind.TOOL_CALLS: 30, Kind.CHARACTERS: 500}
    user_file("")
    assert limits(prepared())[Kind.CHARACTERS] == 100_000
    assert Kind.CHARACTERS not in limits(prepared("--model", "offline", "--preset", "finalize"))
    write("finder", "preset: finalize")
    job = prepared()
    assert (Kind.CHARACTERS in limits(job), job.settings.landing) == (False, "finalize")


def test_the_model_of_the_files(write, call, project_file, user_file, monkeypatch):
    """After the option, the specialist's file and the environment; for `inherit`, too."""
    write("finder", "model: inherit")
    told = "no credentials for {}:"

    def model(*options):
        result = call("finder", *QUESTION, *options)
        return result.stderr if result.exit_code else "answered"

    user_file("model = 'opus'")
    assert told.format("opus") in model()
    project_file("model = 'haiku'")
    assert told.format("haiku") in model()
    monkeypatch.setenv("SPECIALIST_MODEL", "sonnet")
    assert told.format("sonnet") in model()
    write("finder", "model: fable")
    assert told.format("fable") in model()
    assert model("--model", "offline") == "answered"
