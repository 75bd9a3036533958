"""Warm up untimed, so that no lap has to write .pyc files or read libraries from a cold disk.

Failures are ignored here, because the measured laps report them again.
"""

from bench.lab import Lab

QUESTION = ("run-specialist", "thoughts-analyzer", "Why does the loop land softly?", "--model", "offline")


def commands(lab: Lab) -> None:
    """Start both commands."""
    with lab.failing("warm-up"):
        lab.command("run-specialist", "--help")
        lab.command("specialists", "list")


def offline(lab: Lab) -> None:
    """Answer a question offline, with a store."""
    with lab.failing("warm-up"):
        lab.command(*QUESTION)


def peers(lab: Lab) -> None:
    """Run each peer once."""
    with lab.failing("warm-up"):
        for peer in ("bare", "tool_runner", "ours_stored"):
            lab.lap(peer, "first", lab.new_run())


def everything(lab: Lab) -> None:
    """Warm up commands, the offline model and the peers."""
    commands(lab)
    offline(lab)
    peers(lab)
