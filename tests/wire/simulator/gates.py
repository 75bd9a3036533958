"""A gate that holds a reply back until the test opens it, to order events without sleeping."""

import threading


class Gate:
    """Let a test see that a request has arrived, and decide when it continues."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        """Set when a request waits at the gate."""
        self.opened = threading.Event()
        """Set when requests may pass."""

    def open(self) -> None:
        """Let every request pass, now and later."""
        self.opened.set()

    def wait_for_request(self, timeout: float = 10.0) -> None:
        """Return when a request waits at the gate; raise TimeoutError if none comes."""
        if not self.reached.wait(timeout):
            message = f"no request reached the gate within {timeout} s"
            raise TimeoutError(message)
