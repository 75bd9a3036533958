"""Which release of this package runs."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """Return its version; `0` for a checkout that was never installed."""
    try:
        return version("run-specialist")
    except PackageNotFoundError:
        return "0"
