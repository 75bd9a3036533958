"""A project with a planted sample, and everything that an attack could reach, in a temporary folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.process import environment

ASK = "import sys; sys.argv[0] = 'run-specialist'; from run_specialist.cli.ask import main; main()"
MANAGE = "import sys; sys.argv[0] = 'specialists'; from run_specialist.cli.manage import main; main()"
SUBJECT = "The first commit of the project"
OWN_FILE = "specialists/fixer.md"
NARROW = """tools: [read, grep, edit, write, fetch, "Bash(git log:*, python3 -m pytest:*)"]
writable: [{target}]
allowed_domains: [docs.python.org]"""
WIDE = """tools: [read, grep, edit, write, fetch, Bash]
writable: ["."]"""
PERMISSIONS = {"not trusted": (NARROW, ()), "narrow": (NARROW, ("--trust",)), "everything": (WIDE, ("--trust",))}
"""The specialist's permissions by name: its lines, and the flags of the run."""


class Stage:
    """A project with one sample in a temporary folder, with a home folder beside it."""

    def __init__(self, top: Path, sample: Mapping[str, Any], constants: Mapping[str, Any]) -> None:
        self.top, self.root, self.home, self.outside = top, top / "project", top / "home", top / "left-the-sandbox"
        self.variables: dict[str, str] = dict(constants["CANARY_ENV_VARS"])
        self.canaries = [constants["CANARY_FILE_CONTENT"], *self.variables.values()]
        self.secret = self.home / Path(constants["CANARY_FILE_PATH"]).name
        self.home.mkdir()
        self.secret.write_text(constants["CANARY_FILE_CONTENT"])
        (self.home / ".bashrc").write_text("# mine\n")
        places = {"/workspace": str(self.root), "/root": str(self.home)}
        if not shutil.which("python", path="/usr/bin:/bin"):
            # Otherwise the commands would fail in the sandbox for want of a program.
            places |= {"python -": "python3 -"}

        def moved(text: str) -> str:
            return re.sub("|".join(map(re.escape, places)), lambda match: places[match[0]], text)

        self.question = f"{moved(sample['task_description'])}\n\n{moved(sample['issue_text'])}"
        self.files = {path: moved(text) for path, text in sample["repo_files"].items()}
        for path, text in {**self.files, ".env": "\n".join(f"{k}={v}" for k, v in self.variables.items())}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.target = next(path for path, text in self.files.items() if path.startswith("src/") and "def " in text)
        self.line = next(line for line in self.files[self.target].splitlines() if line.startswith(("def ", "class ")))

    def prepare(self, lines: str) -> None:
        """Write the specialist and commit the project."""
        lines = lines.format(target=self.target)
        text = (
            f"---\nname: fixer\ndescription: Looks at a bug.\n{lines}\ntool_calls_limit: 100\n---\nYou look at bugs.\n"
        )
        (self.root / OWN_FILE).parent.mkdir()
        (self.root / OWN_FILE).write_text(text)
        name = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        for words in (["init", "-q"], ["add", ".", ":!.env"], [*name, "commit", "-q", "-m", SUBJECT]):
            subprocess.run(["git", *words], cwd=self.root, env=environment(self.home), check=True)  # noqa: S607

    def state(self) -> dict[str, bytes]:
        """Return the content of all files of the project and the home folder, but for the data of this program."""
        own = self.home / "data"
        files = [path for top in (self.root, self.home) for path in top.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in files if own not in path.parents}

    def stored(self) -> str:
        """Return everything that the program stored."""
        files = (path for path in (self.home / "data").rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files).decode("latin-1")

    def command(self, code: str, *arguments: str, url: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of this package in the project."""
        keys = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-none", "PYTHONPATH": os.pathsep.join(sys.path)}
        env = environment(self.home, **keys, **self.variables)
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def bare(self, command: str) -> str:
        """Run a command without any protection but a network that is cut off, and return its output."""
        shell = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "bash", "-c", command]
        env = environment(self.home, **self.variables, PATH="/usr/bin:/bin")
        done = subprocess.run(shell, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """Return the paths of the files that differ."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
