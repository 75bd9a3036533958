"""Describe how to add an extra to this installation: a clone, a tool of pipx, or another environment.

The package may be missing from the package index. So a command names the source from which the package was installed,
or only the packages of the extra.
"""

import json
import os
import re
import shlex
import sys
from pathlib import Path

PACKAGE = "run-specialist"

# Folders of the uv cache that contain environments.
_UV_CACHE = re.compile(r"(archive|builds|environments)-v\d+")


def adding(extra: str) -> str:
    """Return how to add an extra to this installation, as text after a semicolon.

    extra: a key of `[project.optional-dependencies]`.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - 30 ms, for errors only
    from urllib.parse import urlparse  # noqa: PLC0415 - for errors only
    from urllib.request import url2pathname  # noqa: PLC0415 - for errors only

    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        return f"install the extra `{extra}` of {PACKAGE}"
    folder = Path(str(found.locate_file("")))
    environment = next((one for one in folder.parents if (one / "pyvenv.cfg").is_file()), Path(sys.prefix))
    marker = re.compile(rf"""extra\s*==\s*["']{extra}["']""")
    needed = [one.partition(";") for one in found.requires or ()]
    packages = [requirement.strip() for requirement, _, markers in needed if marker.search(markers)]
    source = json.loads(found.read_text("direct_url.json") or "{}")
    if source.get("dir_info", {}).get("editable"):
        clone = Path(url2pathname(urlparse(source["url"]).path))
        if (clone / "uv.lock").is_file() and os.path.realpath(environment) == os.path.realpath(clone / ".venv"):
            # Without `--inexact`, the packages of other extras would be removed.
            return _run("uv", "sync", "--project", str(clone), "--inexact", "--extra", extra)
    if (environment / "pipx_metadata.json").is_file():
        return _run("pipx", "inject", environment.name, *packages)
    for one in environment.parents:
        # `uv run --with` and `uvx` use environments in a cache, which must not change.
        if _UV_CACHE.fullmatch(one.name) and (one.parent / "CACHEDIR.TAG").is_file():
            options = (word for package in packages for word in ("--with", package))
            return f"add to the command, after `uv run` or `uvx`: {shlex.join(options)}"
    if not (folder / "pip").is_dir():
        return _run("uv", "pip", "install", "--python", str(environment), *packages)
    in_use = environment == Path(sys.prefix)
    return _run(sys.executable if in_use else str(environment / "bin/python"), "-m", "pip", "install", *packages)


def _run(*words: str) -> str:
    return f"run: {shlex.join(words)}"
