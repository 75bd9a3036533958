"""Check that the optional packages for evals are installed."""

from importlib.util import find_spec

from run_specialist.errors import UsageError
from run_specialist.installation import adding


def check_extra() -> None:
    """Raise UsageError if the packages of the extra `eval` are missing; does not import them."""
    if find_spec("pydantic_evals") is None:
        raise UsageError(f"evals need the extra `eval`, run-specialist[eval]; {adding('eval')}")
