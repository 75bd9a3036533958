"""Where the public agent files are that tests load, if they are there."""

import os
from pathlib import Path

SHARED = Path(os.environ.get("RUN_SPECIALIST_SHARED") or Path(__file__).resolve().parents[4] / "shared")
AGENTS = SHARED / "agents"
MANIFEST = AGENTS / "manifest.json"
