"""`--vary` and `--file`: all combinations, each with a name, and one line for what cannot be varied."""

from pathlib import Path

import pytest

from run_specialist.errors import UsageError
from run_specialist.evals.plan import subjects, varied
from run_specialist.specialist.loader import load_text

FILE = load_text("---\nname: a\ndescription: b\n---\nYou look.\n", Path("specialists/a.md"))
OTHER = load_text("---\nname: a\ndescription: b\n---\nYou look well.\n", Path("other.md"))


def test_all_combinations_are_made_with_names_and_settings():
    """Two files and two keys with two values each are eight variants; common settings are in all of them."""
    vary = varied(["model=haiku,sonnet", "tool-calls-limit=8,none"])
    found = subjects([FILE, OTHER], {"time_limit": 60}, vary)
    assert [one.variant.name for one in found][:2] == [
        "model=haiku, tool_calls_limit=8",
        "model=haiku, tool_calls_limit=none",
    ]
    assert found[4].variant.name == "other.md, model=haiku, tool_calls_limit=8"
    assert found[3].settings == {"time_limit": 60, "model": "sonnet", "tool_calls_limit": "none"}
    assert found[3].variant.settings == {"model": "sonnet", "tool_calls_limit": "none"}
    assert len({one.variant.name for one in found}) == 8


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("model", "--vary: model must be KEY=VALUE,VALUE..., e.g. tool_calls_limit=8,15"),
        ("model=haiku,", "--vary: model=haiku, must be KEY=VALUE"),
        ("model=haiku,haiku", "--vary: model must be given once, with each of its values once"),
        ("model=haiku model=opus", "--vary: model must be given once"),
        ("tool_call_limit=3", "--vary: unknown setting: tool_call_limit; did you mean tool_calls_limit?"),
        ("tool_calls_limit=-3", "--vary: tool_calls_limit: must be"),
        ("landing=hard", "--vary: landing: must be"),
    ],
)
def test_what_cannot_be_varied_is_one_line(text, error):
    """The flag, the key and the reason."""
    with pytest.raises(UsageError) as caught:
        varied(text.split())
    assert str(caught.value).startswith(error)
