"""Fixtures: a root folder, files in it, and the file tools called by name as the loop calls them."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from run_specialist.tools.files import file_tools

Call = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a folder inside another folder that holds a secret."""
    (tmp_path / "secret.txt").write_text("the secret word is marzipan\n")
    inside = tmp_path / "root"
    inside.mkdir()
    return inside


@pytest.fixture
def write(root: Path) -> Callable[[Mapping[str, str | bytes]], None]:
    """Return a function that writes files below the root."""

    def write_all(files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write_all


@pytest.fixture
def call(root: Path) -> Call:
    """Return a function that calls a tool of a new toolset by name, as the loop does."""

    def call_tool(name: str, *, paths: tuple[str, ...] = (), result_limit: int = 20_000, **arguments: Any) -> str:
        tools = {tool.name: tool for tool in file_tools(root, paths, result_limit)}
        return asyncio.run(tools[name].call(arguments)).text

    return call_tool
