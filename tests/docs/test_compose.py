"""The compose file of the docs: its commands exist, and its services agree with one another."""

from pathlib import Path

import pytest
import typer
import yaml

from run_specialist.cli import manage

SERVICES = yaml.safe_load((Path(__file__).parents[2] / "docs" / "compose.yaml").read_text())["services"]


def parsed(words):
    """Return the command that a command line names, and its values; an unknown option raises."""
    command, name = typer.main.get_command(manage.app), words[0]
    context, rest = command.make_context(name, [], resilient_parsing=True), words[1:]
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, rest)
    return name, command.make_context(name, rest).params


@pytest.mark.parametrize(("service", "command"), [("setup", "setup"), ("worker", "worker")])
def test_each_command_is_one_of_the_program(service, command):
    """The command line is accepted with its options."""
    words = SERVICES[service]["command"]
    assert words[0] == "specialists"
    assert parsed(words)[0] == command


def test_the_workers_have_the_folder_that_is_mounted():
    """The root of the workers is where their volume is, and they are stopped with patience."""
    worker = SERVICES["worker"]
    (root,) = parsed(worker["command"])[1]["root"]
    assert root.partition("=")[2] == worker["volumes"][0].split(":")[-2]
    assert worker["stop_grace_period"] == "2m"
    assert worker["deploy"]["replicas"] == 3


def test_the_store_is_the_database_of_the_file():
    """User, password and host in the URL are those of the database."""
    database, environment = SERVICES["database"]["environment"], SERVICES["worker"]["environment"]
    assert environment == SERVICES["setup"]["environment"]
    assert environment["SPECIALIST_STORE"] == (
        f"postgresql://{database['POSTGRES_USER']}:{database['POSTGRES_PASSWORD']}@${{DATABASE_HOST:-database}}:5432/fleet"
    )
