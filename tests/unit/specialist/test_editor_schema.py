"""The JSON Schema of the front matter, for editors."""

import jsonschema
import pytest

from run_specialist.specialist.fields import CANONICAL, json_schema

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_every_key_is_described() -> None:
    """The schema is valid, describes each canonical key and allows other keys."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert tuple(schema["properties"]) == CANONICAL
    assert all(entry["description"] for entry in schema["properties"].values())
    assert schema["additionalProperties"] is True


@pytest.mark.parametrize(
    "front",
    [
        {"tool_calls_limit": "none", "tools": "Read, Grep", "color": "red"},
        {"tool_calls_limit": 0, "tools": ["Read"], "time_limit": "90s", "cost_limit": 0.5},
        {"countdown": {"from": 3, "style": "budget", "warn_at": 0.9}, "landing": "none"},
        {"countdown": "none"},
        {"python_tools": "app.tools:look", "agents": "finder, checker", "mcp_servers": {"owls": {"command": "owls"}}},
        {"python_tools": ["app.tools:look"], "agents": ["finder"], "mcp_servers": ["owls"], "share_budget": False},
        {"countdown": {"from": "none", "style": "json", "warn_at": "none"}, "preset": "openai-loop"},
    ],
)
def test_valid_front_matter_is_accepted(front: dict[str, object]) -> None:
    """The schema accepts front matter that the loader accepts."""
    VALIDATOR.validate(front)


@pytest.mark.parametrize(
    "front",
    [
        {"tool_calls_limit": -1},
        {"tool_calls_limit": "x"},
        {"landing": "soon"},
        {"countdown": {"form": 1}},
        {"countdown": "off"},
        {"preset": "fast"},
    ],
)
def test_invalid_front_matter_is_refused(front: dict[str, object]) -> None:
    """The schema refuses front matter that the loader refuses."""
    assert not VALIDATOR.is_valid(front)
