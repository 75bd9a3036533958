"""A chat completions API to test against: a loopback server that refuses what a careful server would.

with ChatSimulator([calls("search", {"query": "owls"}), answers("42")]) as api:
    ...  # point a client at api.base_url
assert api.requests[1].results
"""

from . import faults, policies, replies
from .replies import ChatReply
from .simulator import ChatSimulator, Recorded

__all__ = ["ChatReply", "ChatSimulator", "Recorded", "faults", "policies", "replies"]
