"""Convert model names of other programs to the names that this program's endpoints use."""

import os
import re

_FAMILY = "opus|sonnet|haiku|fable|mythos"
_IN_PARENTHESES = re.compile(r"\s*\([^()]*\)\s*$")
_ROUTER = re.compile(r"(?:openrouter|github-copilot|copilot|opencode|vercel)/(?=[^/]+)", re.IGNORECASE)
_VENDORS = {"anthropic/": "", "openai/": "openai:", "ollama/": "ollama:", "lmstudio/": "lmstudio:"}
"""Vendor prefixes in opencode and in routers, with their replacements."""
_CLAUDE = re.compile(
    rf"claude-(?:(?P<before>{_FAMILY})-)?(?P<major>\d{{1,2}})(?:-(?P<minor>\d{{1,2}}))?"
    rf"(?:-(?P<after>{_FAMILY}))?(?:-thinking)?"
)
_OF_CHAT = re.compile(r"(?:gpt|chatgpt|codex)-[a-z0-9.-]+|o[1-9](?:-[a-z0-9-]+)?")
_OF_OTHERS = re.compile(
    r"(?:gemini|gemma|grok|deepseek|mistral|magistral|devstral|codestral|qwen|llama|kimi|glm|minimax)(?:[-\d. ].*)?"
)
_REORDERED_SINCE = 4
"""First version whose ids have the family before the number."""


def served_name(model: str) -> str:
    """Return the name of a model in this program; a name that no other program uses stays unchanged.

    Display names such as `Claude Sonnet 4.5 (copilot)`, and prefixes of vendors such as `anthropic/`, are replaced.
    """
    bare = _IN_PARENTHESES.sub("", model.strip())
    if _has_own_endpoint():
        # An id has no blanks, so only a display name has.
        return _claude_id(bare) or model if " " in bare else model
    name = _ROUTER.sub("", bare)
    vendor = next((prefix for prefix in _VENDORS if name.lower().startswith(prefix)), "")
    if vendor:
        name = name[len(vendor) :]
        return f"{_VENDORS[vendor]}{name}" if _VENDORS[vendor] else _claude_id(name) or name
    if claude := _claude_id(name):
        return claude
    folded = "-".join(name.lower().split())
    return f"openai:{folded}" if _OF_CHAT.fullmatch(folded) else model


def unserved(model: str) -> str:
    """Return why no endpoint here can serve a model, in one clause; empty if one may.

    model: as `served_name` returns it.
    """
    if _has_own_endpoint():
        return ""
    if not _OF_OTHERS.fullmatch(model.strip().lower()) and not _is_routed(model):
        return ""
    return (
        "the vendor's Messages API does not serve it; name another one, e.g. sonnet, openai:ID or ollama:NAME, or set "
        "ANTHROPIC_BASE_URL to a server that does"
    )


def _has_own_endpoint() -> bool:
    """Return whether requests go to a server that the user has set, which may serve any model under any name."""
    return bool(os.environ.get("ANTHROPIC_BASE_URL", "").strip())


def _is_routed(model: str) -> bool:
    """Return whether a name has a vendor before a slash; names with this program's prefixes may have slashes, too."""
    return re.match(r"[a-z][\w-]*/", model, re.IGNORECASE) is not None


def _claude_id(name: str) -> str | None:
    """Return the id of a Claude model from any spelling of family and version; None for other models."""
    folded = "-".join(name.lower().replace(".", "-").split())
    found = _CLAUDE.fullmatch(folded)
    if found is None or bool(found["before"]) == bool(found["after"]) or int(found["major"]) < _REORDERED_SINCE:
        return None
    major, minor = int(found["major"]), found["minor"]
    if minor is None and major == _REORDERED_SINCE:
        minor = "0"
    return f"claude-{found['before'] or found['after']}-{major}{f'-{minor}' if minor else ''}"
