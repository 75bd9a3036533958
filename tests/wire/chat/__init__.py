"""A chat completions API to test against: a loopback server that refuses every request a strict server would refuse.

with ChatSimulator([calls("search", {"query": "owls"}), answers("42")]) as api:
    ...  # point a client at api.base_url
assert api.requests[1].results
"""

from . import faults, policies, replies
from .replies import ChatReply
from .simulator import ChatSimulator, Recorded

__all__ = ["ChatReply", "ChatSimulator", "Recorded", "faults", "policies", "replies"]
