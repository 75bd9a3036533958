"""The fixtures of the commands, of the simulated APIs and of nested runs, for scenarios that need several of them."""

from tests.cli.conftest import api, call, notes, serving, store, write
from tests.loop.conftest import run_lead
from tests.wire.conftest import ask_chat, ask_once, chat_api, messages_api, project

__all__ = [
    "api",
    "ask_chat",
    "ask_once",
    "call",
    "chat_api",
    "messages_api",
    "notes",
    "project",
    "run_lead",
    "serving",
    "store",
    "write",
]
