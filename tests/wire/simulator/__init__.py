"""A Messages API to test against: a loopback server that is as strict as the real one.

with MessagesSimulator([calls("search", {"query": "owls"}), answers("42")]) as api:
    ...  # point a client at api.base_url
assert api.requests[1].results
"""

from . import faults, policies, replies
from .cache import billed
from .gates import Gate
from .models import MODELS, Model, find_model
from .replies import Reply
from .rules.table import ALL_RULES, RULES
from .script import Recorded
from .served import ScriptError
from .simulator import MessagesSimulator

__all__ = [
    "ALL_RULES",
    "MODELS",
    "RULES",
    "Gate",
    "MessagesSimulator",
    "Model",
    "Recorded",
    "Reply",
    "ScriptError",
    "billed",
    "faults",
    "find_model",
    "policies",
    "replies",
]
