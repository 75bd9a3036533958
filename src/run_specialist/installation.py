"""Describe how to add an extra to this installation: a clone, a tool of uv or pipx, or another environment.

The package may be missing from the package index. So a command names the source from which the package was installed,
or only the packages of the extra.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlparse

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "run-specialist"

_UV_CACHE = re.compile(r"(archive|builds|environments)-v\d+")
"""Folders of the uv cache that contain environments."""


@dataclass(frozen=True, slots=True)
class _Installation:
    environment: Path
    """Folder of the environment that contains the package."""
    has_pip: bool
    project: Path | None
    """Folder of an editable installation; None for any other."""
    packages: Sequence[str]
    """Requirements of the extra."""


def adding(extra: str) -> str:
    """Return how to add an extra to this installation, as text after a semicolon; never raises.

    extra: a key of `[project.optional-dependencies]`.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - 30 ms, for errors only

    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        return f"install the extra `{extra}` of {PACKAGE}"
    installed = _installation(found, extra)
    ways: tuple[Callable[[_Installation, str], str | None], ...] = (_in_clone, _as_tool, _by_pipx, _in_cache)
    return next((way for one in ways if (way := one(installed, extra))), _in_environment(installed))


def _installation(found: "Distribution", extra: str) -> _Installation:
    packages = Path(str(found.locate_file("")))
    environment = next((one for one in packages.parents if (one / "pyvenv.cfg").is_file()), Path(sys.prefix))
    marker = re.compile(rf"""extra\s*==\s*["']{extra}["']""")
    needed = [one.partition(";") for one in found.requires or ()]
    return _Installation(
        environment,
        (packages / "pip").is_dir(),
        _editable_project(found),
        [requirement.strip() for requirement, _, markers in needed if marker.search(markers)],
    )


def _editable_project(found: "Distribution") -> Path | None:
    try:
        origin = json.loads(found.read_text("direct_url.json") or "{}")
    except ValueError:
        return None
    if not isinstance(origin, dict):
        return None
    url = str(origin.get("url", ""))
    if not (origin.get("dir_info") or {}).get("editable") or not url.startswith("file:"):
        return None
    path = unquote(urlparse(url).path)
    return Path(path.lstrip("/") if os.name == "nt" else path)


def _in_clone(installed: _Installation, extra: str) -> str | None:
    project = installed.project
    if project is None or not (project / "uv.lock").is_file():
        return None
    if os.path.realpath(installed.environment) != os.path.realpath(project / ".venv"):
        return None
    # Without `--inexact`, the packages of other extras would be removed.
    return _run("uv", "sync", "--project", str(project), "--inexact", "--extra", extra)


def _as_tool(installed: _Installation, extra: str) -> str | None:
    """Return the command that installs the tool again with one more extra, as its receipt describes it."""
    import tomllib  # noqa: PLC0415 - as above

    try:
        text = (installed.environment / "uv-receipt.toml").read_text(encoding="utf-8")
        receipt = tomllib.loads(text).get("tool", {})
    except (OSError, ValueError):
        return None
    requirements = receipt.get("requirements") or [{}]
    # Options name indexes, which the command would have to repeat.
    if requirements[0].get("name") != PACKAGE or receipt.get("options"):
        return None
    specs = [_requirement(one, (extra,) if one is requirements[0] else ()) for one in requirements]
    if None in specs:
        return None
    main, *others = map(str, specs)
    python = ["--python", str(receipt["python"])] if receipt.get("python") else []
    kept = [word for other in others for word in ("--with", other)]
    editable = ["--editable"] if "editable" in requirements[0] else []
    return _run("uv", "tool", "install", *python, *kept, *editable, main)


def _requirement(entry: Mapping[str, Any], more: Sequence[str]) -> str | None:
    """Return an entry of a receipt of uv as a requirement with more extras; None if its source no longer exists."""
    extras = ",".join(dict.fromkeys([*entry.get("extras", ()), *more]))
    extras = f"[{extras}]" if extras else ""
    local = next((entry[key] for key in ("path", "directory", "editable") if key in entry), None)
    if local is not None:
        return f"{local}{extras}" if Path(local).exists() else None
    name = f"{entry.get('name', '')}{extras}"
    if "git" in entry:
        url, _, query = str(entry["git"]).partition("?")
        given = parse_qs(query)
        revision = next((f"@{given[key][0]}" for key in ("rev", "tag", "branch") if key in given), "")
        folder = str(entry.get("subdirectory") or given.get("subdirectory", [""])[0])
        return f"{name} @ git+{url}{revision}{folder and f'#subdirectory={folder}'}"
    return f"{name} @ {entry['url']}" if "url" in entry else f"{name}{entry.get('specifier', '')}"


def _by_pipx(installed: _Installation, _: str) -> str | None:
    metadata = installed.environment / "pipx_metadata.json"
    if not metadata.is_file():
        return None
    return _run("pipx", "inject", installed.environment.name, *installed.packages)


def _in_cache(installed: _Installation, _: str) -> str | None:
    """Return an option for `uv run --with` and `uvx`, whose environments are in a cache and must not change."""
    for one in installed.environment.parents:
        if _UV_CACHE.fullmatch(one.name) and (one.parent / "CACHEDIR.TAG").is_file():
            options = (word for package in installed.packages for word in ("--with", package))
            return f"add to the command, after `uv run` or `uvx`: {_quoted(*options)}"
    return None


def _in_environment(installed: _Installation) -> str:
    if not installed.has_pip:
        return _run("uv", "pip", "install", "--python", str(installed.environment), *installed.packages)
    folder = installed.environment / ("Scripts" if os.name == "nt" else "bin")
    in_use = installed.environment == Path(sys.prefix)
    python = Path(sys.executable) if in_use else folder / ("python.exe" if os.name == "nt" else "python")
    return _run(str(python), "-m", "pip", "install", *installed.packages)


def _run(*words: str) -> str:
    return f"run: {_quoted(*words)}"


def _quoted(*words: str) -> str:
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
