"""Lead each conversation to the gate of its endpoint and key; all conversations of a process share the gates."""

import hashlib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from run_specialist.providers.admission.gate import Gate
from run_specialist.providers.admission.gated_request import GatedRequest
from run_specialist.providers.admission.policy import MINUTE, OVERLOADED, RateLimitRefusal
from run_specialist.providers.admission.rate_headers import quotas
from run_specialist.providers.admission.windows import Cost
from run_specialist.providers.base import Queueing, Request
from run_specialist.providers.endpoint import Endpoint
from run_specialist.providers.knowledge import InformedProvider
from run_specialist.providers.sdk_errors import fault_of

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

BYTES_PER_TOKEN = 4
MOST_GATES = 256
"""Number of gates above which unused ones are dropped."""
_SALT = os.urandom(16)


class Gates:
    """The gates of this process, by a digest of base URL and key."""

    def __init__(self) -> None:
        self._gates: dict[bytes, Gate] = {}
        self._lock = threading.Lock()

    def of(self, client: "AsyncAnthropic | AsyncOpenAI") -> Gate:
        """Return the gate of a client's endpoint and key."""
        keys = [getattr(client, name, None) for name in ("api_key", "auth_token")]
        told = repr((str(client.base_url).rstrip("/"), keys)).encode("utf-8", "surrogatepass")
        # It distinguishes gates, but cannot be compared with the digest of a key from elsewhere.
        digest = hashlib.blake2b(told, key=_SALT, digest_size=16).digest()
        with self._lock:
            found = self._gates.get(digest)
            if found is None:
                if len(self._gates) >= MOST_GATES:
                    self._gates = {key: gate for key, gate in self._gates.items() if not gate.is_idle}
                found = self._gates[digest] = Gate()
            return found

    @property
    def waiting(self) -> int:
        """Number of requests that wait at any of the gates."""
        with self._lock:
            return sum(gate.waiting for gate in self._gates.values())

    def clear(self) -> None:
        """Drop all gates; running requests end at their own gate."""
        with self._lock:
            self._gates.clear()


GATES = Gates()


class Entrance:
    """Admits the requests of one conversation."""

    def __init__(self, provider: InformedProvider, endpoint: Endpoint) -> None:
        self._provider = provider
        self._endpoint = endpoint
        self._gate = GATES.of(provider.client)

    def gated(self, request: Request, cost: Cost) -> GatedRequest:
        """Return a request at its gate, to be entered before it is sent and left once it is answered."""
        queueing = request.queueing or Queueing()
        return GatedRequest(
            self._gate, self._provider.model, cost, self._provider.requests_at_once, queueing, self._blame
        )

    def _blame(self, error: Exception) -> RateLimitRefusal | None:
        """Return the refusal in an error if it reports too many requests; otherwise None."""
        if not hasattr(error, "body"):
            # Neither of the SDKs' errors about a reply: a broken connection, an unreadable reply.
            return None
        fault = fault_of(error, self._endpoint, self._provider.client)
        if fault.status not in OVERLOADED:
            return None
        # Waiting does not restore an exhausted quota, unless the API says how long to wait.
        if not fault.may_pass and (fault.wait or 0) <= MINUTE:
            return None
        response = getattr(error, "response", None)
        return RateLimitRefusal(
            fault.status, fault.wait, fault.reason, () if response is None else quotas(response.headers)
        )


def tokens_in(pieces: Sequence[bytes]) -> int:
    """Return the estimated number of tokens in parts of a request."""
    return sum(map(len, pieces)) // BYTES_PER_TOKEN
