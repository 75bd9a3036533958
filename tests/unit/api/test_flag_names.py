"""Messages speak of arguments in Python, and of flags on the command line and over MCP."""

import pytest

from run_specialist.api.runner import run
from run_specialist.errors import UsageError, with_flags


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("check `model` and the URL", "check --model and the URL"),
        ("use `model=offline`", "use --model offline"),
        ("`model=local:my file.gguf`: there is no file", "--model local:my file.gguf: there is no file"),
        ("allow it once with `trust=True`", "allow it once with --trust"),
        ("add `force=True` to omit them", "add --force to omit them"),
        ("the store is `none`", "the store is `none`"),
        ("`models` and model=haiku", "`models` and model=haiku"),
    ],
)
def test_arguments_become_flags(message, shown):
    """Arguments in backticks become flags, with their values; all else stays."""
    assert with_flags(message) == shown


@pytest.mark.anyio
async def test_python_errors_name_arguments(tmp_path, monkeypatch):
    """A missing root and a missing model in Python are errors without a flag."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    calls = [{"root": tmp_path / "nowhere"}, {"model": "openai:"}, {"model": "openai:gpt-5"}]
    for arguments in calls:
        with pytest.raises(UsageError) as error:
            await run("thoughts-analyzer", "What?", store="none", **arguments)
        assert "--" not in str(error.value)
