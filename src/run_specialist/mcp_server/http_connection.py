"""One HTTP connection with time limits: for the head of a request, for its body, and for reading the answer.

uvicorn limits only how long a connection may be idle between two requests, and starts again with each byte.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

READ_SIZE = 16_384
"""Bytes parsed at a time, so that one connection cannot occupy the event loop with many tiny chunks [bytes]."""


class AwaitedPart(Enum):
    """The part of a request that a client has yet to send."""

    HEAD = auto()
    BODY = auto()
    CLOSE = auto()
    """Nothing more: the answer is sent, and the client should close its end."""


@dataclass(frozen=True)
class TimeLimits:
    """How long a client may take for each part of an exchange, in total: a slow drip gets no more time [s]."""

    head: float = 10.0
    """For a whole request line with all headers, from the connection or the last answer on."""
    body: float = 60.0
    """For a whole body, from the end of the headers on."""
    unread: float = 60.0
    """For reading what was sent to it. No limit for the time that a tool call or an event stream takes."""
    close: float = 2.0
    """For closing its end after an answer that came before the end of the request."""

    def of(self, awaited: AwaitedPart) -> float:
        """Return the limit for a part of a request."""
        return {AwaitedPart.HEAD: self.head, AwaitedPart.BODY: self.body, AwaitedPart.CLOSE: self.close}[awaited]


Watcher = Callable[["Connection", AwaitedPart | None], None]
"""Called whenever a connection begins to wait for its client, and with None when it waits no more."""


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """Parses requests with h11, and closes the connection of a client that exceeds a time limit."""

    def __init__(self, limits: TimeLimits, watcher: Watcher, **given: Any) -> None:  # noqa: ANN401 - as uvicorn gives it
        super().__init__(**given)
        self._limits = limits
        self._watcher = watcher
        self._buffer = bytearray(READ_SIZE)
        self._socket: asyncio.Transport
        self._awaited: AwaitedPart | None = None
        """What the client has yet to send; None while it is being answered."""
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Close the connection at once, whatever is under way."""
        self._socket.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        self._socket = cast("asyncio.Transport", transport)
        # With a limit of 0, `pause_writing` is called as soon as the client does not take all that was written.
        self._socket.set_write_buffer_limits(high=0)
        super().connection_made(cast("asyncio.Transport", _Courteous(self._socket, self._linger)))
        self._update()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - the protocol's signature
        """Return where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the bytes that came; after an answer that ended the exchange they are discarded."""
        if self._awaited is AwaitedPart.CLOSE:
            return
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))
        self._update()

    def on_response_complete(self) -> None:
        """Go on with the next request, or close where the client is still sending the one that was answered."""
        # Afterwards this would be the state of a request that was sent ahead.
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        """Start the time limit for reading the answer."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self._limits.unread, self.drop)

    def resume_writing(self) -> None:
        """End the time limit for reading the answer."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()
        self._update()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose last answer is still being read is not idle."""
        if not self.flow.write_paused:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Close the connection; an answer under way is finished first."""
        if self._awaited is not None:
            self.drop()
        elif self._is_answering:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self.resume_writing()
        self._wait_for(None)
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _update(self) -> None:
        if not self.transport.is_closing():
            # A client that still reads its answer is not expected to send the next request.
            parts = {} if self.flow.write_paused else {h11.IDLE: AwaitedPart.HEAD, h11.SEND_BODY: AwaitedPart.BODY}
            self._wait_for(parts.get(self.conn.their_state))

    def _wait_for(self, awaited: AwaitedPart | None) -> None:
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if awaited is not None:
            self._deadline = self.loop.call_later(self._limits.of(awaited), self._expire)
        self._watcher(self, awaited)

    def _expire(self) -> None:
        match self._awaited:
            case AwaitedPart.HEAD if self.conn.trailing_data[0]:
                self._answer_timeout(f"the headers of a request may take {self._limits.head:g} seconds")
            case AwaitedPart.BODY if self._is_answering and not self.cycle.response_started:
                # The application learns that the client is gone, and sends no second answer.
                self.cycle.disconnected = True
                self.cycle.message_event.set()
                self._answer_timeout(f"the body of a request may take {self._limits.body:g} seconds")
            case _:
                self.drop()

    def _answer_timeout(self, text: str) -> None:
        status, body = HTTPStatus.REQUEST_TIMEOUT, f"{text}; this one took longer\n".encode()
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        response = h11.Response(status_code=status.value, headers=headers, reason=status.phrase)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _linger(self) -> bool:
        """Keep the connection open for a moment where the client is still sending; return whether it is.

        Closing it with unread bytes would reset it, and the client might never see the answer.
        """
        if self.conn.their_state not in {h11.SEND_BODY, h11.ERROR} and not self.conn.trailing_data[0]:
            return False
        self._unset_keepalive_if_required()
        self._wait_for(AwaitedPart.CLOSE)
        return True


class _Courteous:
    """A transport that lets a client read the last answer before the connection is closed."""

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], bool]) -> None:
        self._transport = transport
        self._linger = linger
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all that is not changed here
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self._is_closing = True
        if self._linger():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
