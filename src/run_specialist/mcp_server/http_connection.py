"""An HTTP connection with timeouts for the head of a request, its body, and reading the response.

uvicorn only has a keep-alive timeout between requests, which restarts with each byte.
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
"""Maximum bytes parsed per event loop iteration, so that many tiny chunks cannot block the loop [bytes]."""


class AwaitedPart(Enum):
    """The part of a request that the client has not sent yet."""

    HEAD = auto()
    BODY = auto()
    CLOSE = auto()
    """None: the response was sent, and the client should close the connection."""


@dataclass(frozen=True)
class TimeLimits:
    """Timeouts for each part of an exchange [s].

    Each is a total, which received bytes do not extend. Tool calls and event streams have no timeout.
    """

    head: float = 10.0
    """For the request line and all headers, from the connection or the last response on."""
    body: float = 60.0
    """For the body, from the end of the headers on."""
    unread: float = 60.0
    """For reading the response data that was sent."""
    close: float = 2.0
    """For closing the connection after a response that was sent before the end of the request."""

    def of(self, awaited: AwaitedPart) -> float:
        """Return the timeout for a part of a request [s]."""
        return {AwaitedPart.HEAD: self.head, AwaitedPart.BODY: self.body, AwaitedPart.CLOSE: self.close}[awaited]


Watcher = Callable[["HttpConnection", AwaitedPart | None], None]
"""Called when a connection starts to wait for its client, and with None when it stops waiting."""


class HttpConnection(H11Protocol, asyncio.BufferedProtocol):
    """Parses requests with h11, and closes the connection when a timeout expires."""

    def __init__(self, limits: TimeLimits, watcher: Watcher, **options: Any) -> None:  # noqa: ANN401 - uvicorn's options
        super().__init__(**options)
        self._limits = limits
        self._watcher = watcher
        self._buffer = bytearray(READ_SIZE)
        self._socket: asyncio.Transport
        self._awaited: AwaitedPart | None = None
        """The part that the client has not sent yet; None while the request is being answered."""
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def drop(self) -> None:
        """Close the connection immediately, without finishing a response."""
        self._socket.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for a request."""
        self._socket = cast("asyncio.Transport", transport)
        # With a limit of 0, `pause_writing` is called as soon as data stays in the write buffer.
        self._socket.set_write_buffer_limits(high=0)
        super().connection_made(cast("asyncio.Transport", _LingeringTransport(self._socket, self._linger)))
        self._update()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - the protocol's signature
        """Return the read buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the received bytes; discard them if the final response was already sent."""
        if self._awaited is AwaitedPart.CLOSE:
            return
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))
        self._update()

    def on_response_complete(self) -> None:
        """Continue with the next request, or close if the client is still sending the answered one."""
        # Checked first: afterwards this could be the state of a pipelined request.
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        """Start the timeout for reading the response."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self._limits.unread, self.drop)

    def resume_writing(self) -> None:
        """Cancel the timeout for reading the response."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()
        self._update()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; a connection whose last response is still being read is not idle."""
        if not self.flow.write_paused:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Close the connection after finishing the current response."""
        if self._awaited is not None:
            self.drop()
        elif self._is_answering:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self.resume_writing()
        self._wait_for(None)
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _update(self) -> None:
        if not self.transport.is_closing():
            # No timeout for the next request while the client is still reading the response.
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
                # Report a disconnect to the application, so that it does not send a second response.
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
        """If the client is still sending, keep the connection open for a short time; return whether it is sending.

        Closing a socket with unread data sends a TCP reset, and the client might never receive the response.
        """
        if self.conn.their_state not in {h11.SEND_BODY, h11.ERROR} and not self.conn.trailing_data[0]:
            return False
        self._unset_keepalive_if_required()
        self._wait_for(AwaitedPart.CLOSE)
        return True


class _LingeringTransport:
    """A transport that lets the client read the last response before the connection is closed."""

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], bool]) -> None:
        self._transport = transport
        self._linger = linger
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - delegates to the transport
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
