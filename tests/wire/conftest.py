"""A simulated Messages API for each test that wants one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.wire.simulator import MessagesSimulator

StartSimulator = Callable[..., MessagesSimulator]


@pytest.fixture
def messages_api() -> Iterator[StartSimulator]:
    """Return a function that starts a simulator; each is stopped and checked after the test."""
    with ExitStack() as running:

        def start(*arguments: Any, **options: Any) -> MessagesSimulator:
            return running.enter_context(MessagesSimulator(*arguments, **options))

        yield start
