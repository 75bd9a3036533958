"""The keys of config files; each corresponds to an option of the commands, without the leading hyphens."""

import difflib
from dataclasses import dataclass
from typing import Literal

from run_specialist.redaction.secret_names import ends_like_a_name
from run_specialist.specialist.origins import rule

ValueKind = Literal["setting", "model", "folder", "store", "on_lost", "switch", "count"]
TABLE = ("tool", "run-specialist")
"""Table of the keys in pyproject.toml; the user's file has them at the top level."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    name: str
    """Name in snake_case, as in JSON output; files may use hyphens instead."""
    kind: ValueKind
    """`setting` for a key of specialist files, with the same values."""
    variable: str = ""
    """Environment variable that overrides it; empty if there is none."""

    @property
    def personal(self) -> bool:
        """Whether only the user's own file may contain it."""
        return rule(self.name, "project") == "never"


_SETTINGS = (
    "tool_calls_limit",
    "turns_limit",
    "total_tokens_limit",
    "cost_limit",
    "time_limit",
    "patience",
    "tool_chars_limit",
    "landing",
    "evidence",
    "tool_calls",
    "preset",
)

KEYS = {
    key.name: key
    for key in (
        Key("model", "model", variable="SPECIALIST_MODEL"),
        *(Key(name, "setting") for name in _SETTINGS),
        Key("dir", "folder"),
        Key("strict", "switch"),
        Key("quiet", "switch"),
        Key("require_model", "switch", variable="SPECIALIST_REQUIRE_MODEL"),
        Key("store", "store", variable="SPECIALIST_STORE"),
        Key("on_lost", "on_lost"),
        Key("requests_at_once", "count", variable="SPECIALIST_REQUESTS_AT_ONCE"),
    )
}
"""All keys, by name."""

ONLY_OPTIONS = frozenset(
    {"root", "trust", "server_tools", "dry_run", "json", "events", "output", "raw", "force", "yes", "http", "no_token"}
)
"""Options that cannot be set in a file, because they are decided for each call."""

_ADDRESSES = ("base_url", "api_base", "endpoint", "host")
_LONGEST = 40


def canonical(name: str) -> str:
    """Return the name of a key in snake_case."""
    return name.strip().replace("-", "_").lower()


def unknown(name: str) -> str:
    """Return why a key cannot be used, and a similar key if there is one."""
    key = canonical(name)
    if key in ONLY_OPTIONS:
        return f"this cannot be set in a config file; use the option --{key.replace('_', '-')}"
    if ends_like_a_name(key):
        return "secrets do not belong in a config file; set an environment variable, see docs/configuration.md"
    if key.endswith(_ADDRESSES):
        return "addresses of servers are set by environment variables only, see docs/configuration.md"
    close = difflib.get_close_matches(key[:_LONGEST], KEYS, n=1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; known are {', '.join(KEYS)}"
