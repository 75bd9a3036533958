"""The installed programs: while their modules are imported, Ctrl-C ends the process without a traceback."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def run_specialist() -> None:
    """Run the command `run-specialist`."""
    with _starting():
        from run_specialist.cli.ask import main  # noqa: PLC0415 - the imports to be covered
    main()


def specialists() -> None:
    """Run the command `specialists`."""
    with _starting():
        from run_specialist.cli.manage import main  # noqa: PLC0415 - as above
    main()


@contextmanager
def _starting() -> Iterator[None]:
    """Let SIGINT end the process immediately, unless it is ignored, as in the background of a shell.

    From here on the collector runs less often: modules are no garbage, but by default it searches them a hundred times.
    """
    gc.set_threshold(100_000)
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
