"""The commands that start, resume and show runs of the specialist `finder`."""

import json

from tests.cli.specialists_command import call
from tests.wire.simulator.replies import calls

GREP = [calls("grep", {"pattern": word}) for word in ("mice", "winter", "bats")]
MODEL = ("--model", "haiku")


def rows(run="last"):
    """Return the rows of a transcript."""
    return json.loads(call("transcript", run, "--json").stdout)["messages"]
