"""The command `run-specialist`: every flag for a key of the file reaches the run and overrides the file."""

from dataclasses import fields

import pytest

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.cli.flags import SettingOptions


@pytest.fixture
def job_of(write, call, monkeypatch):
    """Return a function that calls the command with flags and lines of front matter, and returns the job of its run."""
    prepared, prepare = [], Runner.prepare

    async def recorded(*arguments, **options):
        prepared.append(await prepare(*arguments, **options))
        return prepared[-1]

    def job(flags, *lines):
        write("finder", *lines)
        monkeypatch.setattr(Runner, "prepare", recorded)
        result = call("finder", "What do owls eat?", "--model", "offline", *flags.split())
        assert (result.exit_code, result.stderr.count("Error")) == (0, 0)
        return prepared[-1].job

    return job


LIMITS = [
    ("--tool-calls-limit", Kind.TOOL_CALLS, "7", 7),
    ("--tool-calls-limit", Kind.TOOL_CALLS, "0", 0),
    ("--turns-limit", Kind.TURNS, "50", 50),
    ("--total-tokens-limit", Kind.TOKENS, "1000000", 1_000_000),
    ("--cost-limit", Kind.COST, "0.25", 0.25),
    ("--cost-limit", Kind.COST, "3", 3),
    ("--time-limit", Kind.TIME, "600", 600),
    ("--time-limit", Kind.TIME, "90s", 90),
    ("--time-limit", Kind.TIME, "10m", 600),
    ("--time-limit", Kind.TIME, "1.5h", 5400),
    ("--time-limit", Kind.TIME, "90.5", 90.5),
    ("--tool-chars-limit", Kind.CHARACTERS, "100000", 100_000),
]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(("flag", "kind", "given", "limit"), LIMITS, ids=str)
def test_s3_4_each_limit_flag_overrides_the_file(job_of, flag, kind, given, limit):
    """The flag overrides 900 in the file, and the other limits are unchanged."""
    key = flag.removeprefix("--").replace("-", "_")
    budget = job_of(f"{flag} {given}", f"{key}: 900").budget
    assert budget[kind].limit == limit
    assert {one.kind for one in budget.limits if one.limit is not None} == {kind, Kind.TOOL_CALLS}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("flag", "kind"), sorted({(flag, kind) for flag, kind, *_ in LIMITS}))
def test_s0_8_none_removes_the_limit_of_the_file(job_of, flag, kind):
    """`none` removes the limit, even if the file or its preset sets one."""
    key = flag.removeprefix("--").replace("-", "_")
    assert job_of(f"{flag} none", f"{key}: 900", "preset: soft-warning").budget[kind].limit is None
    assert job_of(f"{flag} none").budget[kind].limit is None


def test_every_setting_flag_reaches_the_run(job_of):
    """Every flag of a setting has a test here, and those with a few values reach the run."""
    assert job_of("--landing order", "landing: stop").settings.landing == "order"
    assert job_of("--landing schema", "landing: stop").settings.landing == "schema"
    assert job_of("--evidence off", "evidence: require").settings.evidence == "off"
    assert job_of("--tool-calls native", "tool_calls: json").opening.tool_calls == "native"
    assert job_of("--patience 10m", "patience: 0").settings.patience == 600
    assert job_of("--patience none").settings.patience is None
    assert (job_of("--dry-run").patch is None, job_of("").patch is None) == (False, True)
    assert job_of("--server-tools").origin()["settings"]["server_tools"]
    tested = {flag.removeprefix("--").replace("-", "_") for flag, *_ in LIMITS}
    tested |= {"landing", "evidence", "tool_calls", "preset", "patience", "server_tools"}
    assert {field.name for field in fields(SettingOptions)} == tested


def test_s3_4_the_preset_flag_overrides_the_file_and_flags_the_preset(job_of):
    """`finalize` sets its landing, one tool at a time and no notice; other settings of the file remain."""
    lines = ("landing: order", "parallel_tools_limit: 3", "tool_calls_limit: 9", "budget_notice: true")
    job = job_of("--preset finalize", *lines)
    assert (job.settings.landing, job.settings.parallel_tools_limit) == ("finalize", 1)
    assert job.budget[Kind.TOOL_CALLS].limit == 9
    assert "Tool budget" not in job.opening.system
    job = job_of("--preset finalize --landing force", *lines)
    assert (job.settings.landing, job.settings.parallel_tools_limit) == ("force", 1)
