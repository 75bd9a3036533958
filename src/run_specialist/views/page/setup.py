"""The setup section: the configuration that was fixed at the start of the run."""

from collections.abc import Mapping
from typing import Any

from run_specialist.store.stored import StoredRun

_FACTS = ("file", "digest", "root", "effort", "version")


def setup(run: StoredRun) -> dict[str, Any]:
    """Return the stored system prompt, tools, settings, and their sources."""
    frozen = run.frozen
    return {
        "system": str(frozen.get("system") or ""),
        "tools": [_tool(one) for one in frozen.get("tools") or ()],
        "settings": frozen.get("settings"),
        "facts": {key: str(frozen[key]) for key in _FACTS if frozen.get(key) is not None},
    }


def _tool(definition: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
    if not isinstance(definition, Mapping):
        return {"name": str(definition), "description": ""}
    inner = definition.get("function", definition)
    return {"name": str(inner.get("name", "")), "description": str(inner.get("description", ""))}
