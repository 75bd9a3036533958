"""The version of this package."""

from importlib.metadata import PackageNotFoundError, version

NAME = "run-specialist"


def release() -> str:
    """Return the installed version; `0` if the package is not installed."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "0"
