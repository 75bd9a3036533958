"""Run once untimed what will be timed, so that no lap has to write .pyc files or fetch libraries from a cold disk.

What fails here fails once more where it is timed, and is told there.
"""

from bench.lab import Lab

QUESTION = ("run-specialist", "thoughts-analyzer", "Why does the loop land softly?", "--model", "offline")


def commands(lab: Lab) -> None:
    """Start both commands."""
    with lab.failing("warm-up"):
        lab.command("run-specialist", "--help")
        lab.command("specialists", "list")


def offline(lab: Lab) -> None:
    """Have a question answered without a model, and stored."""
    with lab.failing("warm-up"):
        lab.command(*QUESTION)


def peers(lab: Lab) -> None:
    """Have each peer answer once."""
    with lab.failing("warm-up"):
        for peer in ("bare", "tool_runner", "ours_stored"):
            lab.lap(peer, "first", lab.new_run())


def everything(lab: Lab) -> None:
    """Do all of it."""
    commands(lab)
    offline(lab)
    peers(lab)
