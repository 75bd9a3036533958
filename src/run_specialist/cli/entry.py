"""The installed programs: while their modules are imported, Ctrl-C ends the process without a traceback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def run_specialist() -> None:
    """Run the command `run-specialist`."""
    with _ending_at_once():
        from run_specialist.cli.ask import main  # noqa: PLC0415 - the imports to be covered
    main()


def specialists() -> None:
    """Run the command `specialists`."""
    with _ending_at_once():
        from run_specialist.cli.manage import main  # noqa: PLC0415 - as above
    main()


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """Let SIGINT end the process immediately, unless it is ignored, as in the background of a shell."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
