"""The version of this package."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NAME = "run-specialist"

_CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"
"""The project file of a source checkout; does not exist in an installation."""


def release() -> str:
    """Return the installed version, or that of the source checkout; `0` if there is neither."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return _checked_out() or "0"


def _checked_out() -> str | None:
    import tomllib  # noqa: PLC0415 - only a checkout that is not installed needs it

    try:
        project = tomllib.loads(_CHECKOUT.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return None
    # Another project may have copied this package into its own `src` folder.
    return str(project.get("version")) if project.get("name") == NAME and "version" in project else None
