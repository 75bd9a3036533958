"""The commands with a PostgreSQL server that restarts, terminates sessions, loses its tables or is misconfigured."""

import json

import pytest

from run_specialist.store.postgresql import parsed
from tests.cli.specialists_command import call as specialists
from tests.postgres_server import postgres_server
from tests.stderr_lines import lines_before_summary
from tests.unit.store.records import ask, change, counts
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import answers, calls, says, tool_use

PATIENCE = 60
"""Timeout, after which a hanging program fails the test [s]."""
CUT_OWNERS = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'process %'"
"""Ends only the sessions that hold owners' locks."""


@pytest.fixture(scope="module")
def server():
    """A server that a test may stop."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server):
    """The URL of a database without a store."""
    change(server.url, "drop schema if exists run_specialist cascade")
    return server.url


@pytest.fixture
def held(api, write, program, database):
    """A function that starts a run which waits for its second reply, the gate that holds the reply, and the API."""
    write("finder")
    gate = Gate()
    second = says(tool_use("search", {"query": "toads"}), gate=gate)
    served = api([calls("search", {"query": "owls"}), second, answers("Owls eat mice.")], all_used=False)

    def start(*flags):
        process = program("finder", "What do owls eat?", "--store", database, *flags)
        gate.wait_for_request(PATIENCE)
        return process

    yield start, gate, served
    gate.open()


@pytest.mark.exhaustive
def test_a_server_restart_during_a_run_loses_nothing(held, server, database):
    """Every turn is stored once, and no warning is printed."""
    start, gate, served = held
    process = start()
    server.stop("immediate")
    # The reply arrives while no server can store it.
    gate.open()
    server.start()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, lines_before_summary(err)) == (0, "Owls eat mice.\n", [])
    assert len(served.requests) == 3
    found = counts(database)
    assert (found["runs"], found["turns"], found["calls"]) == (1, 3, 2)
    assert ask(database, "select status, tool_calls from runs") == [("answered", 2)]


@pytest.mark.exhaustive
def test_a_run_that_lost_only_its_lock_is_not_taken_over(held, database):
    """`resume` in another process refuses because the run is still running, and the run finishes with its answer."""
    start, gate, served = held
    process = start()
    change(database, CUT_OWNERS)
    refused = specialists("resume", "last", "--store", database)
    assert (refused.exit_code, f"is still running: process {process.pid} on " in refused.stderr) == (2, True)
    kept = specialists("runs", "--delete", "--all", "--yes", "--store", database)
    assert "1 run still running: not deleted" in kept.stderr
    gate.open()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, lines_before_summary(err)) == (0, "Owls eat mice.\n", [])
    assert (len(served.requests), counts(database)["turns"]) == (3, 3)


@pytest.mark.exhaustive
def test_a_run_taken_over_by_another_process_sends_no_more_requests(held, database):
    """The run stops so that two processes do not pay for it; the gathered evidence is printed, with exit code 4."""
    start, gate, served = held
    process = start()
    change(database, "update runs set owner = 'another'")
    gate.open()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, len(served.requests)) == (4, 2)
    assert "Owls eat mice at night." in out
    *_, line = err.splitlines()
    assert line.startswith("run-specialist: aborted: this run is not stored from turn 2 on: another process has ")
    assert line.endswith("; the run was stopped before its next request")
    assert counts(database)["turns"] == 1


@pytest.mark.exhaustive
def test_on_lost_abort_ends_the_run_when_the_store_is_lost(held, database):
    """The tables were dropped, so waiting would not help: with `--on-lost abort` the run ends with exit code 4."""
    start, gate, served = held
    process = start("--on-lost", "abort", "--json")
    change(database, "drop schema run_specialist cascade")
    gate.open()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, len(served.requests), json.loads(out)["status"]) == (4, 2, "aborted")
    assert err.count("\n") == 1
    assert 'relation "run_specialist.runs" does not exist' in err


COMMANDS = [
    ["runs"],
    ["runs", "--delete", "--all", "--yes"],
    ["transcript", "last"],
    ["report", "last"],
    ["resume", "last"],
    ["tune", "finder"],
]


@pytest.mark.exhaustive
def test_every_command_reports_a_server_problem_on_one_line(database, call, write):
    """Every command reports the problem on one line with exit code 2, without the password."""

    def odd(**query):
        """Return the URL with additional parameters."""
        url = parsed(database).update_query_dict(query)
        return url.set(drivername="postgresql").render_as_string(hide_password=False)

    def problem(url, command):
        """Check that a command reports the problem with a server."""
        done = specialists(*command, "--store", url)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), (url, command)
        assert "postgresql://tests:***@" in done.stderr
        assert parsed(database).password not in done.stderr

    write("finder")
    assert call("finder", "What do owls eat?", "--model", "offline", "--store", database).exit_code == 0
    for command in COMMANDS:
        problem(odd().replace(f":{parsed(database).port}/", ":1/"), command)
    problem(odd().replace("/postgres?", "/nowhere?"), ["runs"])
    wrong = ({"nonsense": "1"}, {"options": "-c nonsense=1"}, {"sslmode": "require"}, {"sslmode": "nonsense"})
    for query in wrong:
        problem(odd(**query), ["runs"])
    change(database, "alter table run_specialist.runs drop column question; drop table run_specialist.calls")
    problem(database, ["runs"])
