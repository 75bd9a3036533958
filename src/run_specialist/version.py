"""The installed version of this package."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """Return the installed version; `0` if the package is not installed, e.g. in a source checkout."""
    try:
        return version("run-specialist")
    except PackageNotFoundError:
        return "0"
