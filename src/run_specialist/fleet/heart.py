"""Send the heartbeats of a worker from a separate thread, because a busy event loop would delay them."""

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
from psycopg import RawCursor

from run_specialist.fleet.queue_connection import parameters
from run_specialist.fleet.queue_sql import BEAT

INTERVAL = 2.0
"""Interval of the heartbeats, of which three may be missing [s]."""
LOOP_PATIENCE = 60.0
"""Time without a sign of the event loop after which the worker counts as dead [s]."""


class Heartbeat:
    """Reports to the queue that the worker is alive, until it is stopped; a frozen process reports nothing."""

    def __init__(self, url: str, worker: UUID, held: Callable[[], Collection[int]]) -> None:
        """Prepare the thread.

        worker: the name of the worker in the queue.
        held: returns the ids of the jobs that it works on; called in the thread.
        """
        self._url, self._worker, self._held = url, worker, held
        self._stopped = threading.Event()
        self._responded = time.monotonic()
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._beat, name="run-specialist heart", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def respond(self) -> None:
        """Show that the event loop is alive; call it regularly from the event loop."""
        self._responded = time.monotonic()

    def stop(self) -> None:
        """Stop the thread, without waiting for a heartbeat in progress."""
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.wait(INTERVAL):
            if time.monotonic() - self._responded < LOOP_PATIENCE and (held := [*self._held()]):
                # A database that is away is the concern of the event loop; here the next heartbeat connects again.
                with suppress(Exception):
                    self._tell(held)
        self._drop()

    def _tell(self, held: list[int]) -> None:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(**parameters(self._url), autocommit=True)
            RawCursor(self._connection).execute(BEAT, (held, self._worker))
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
