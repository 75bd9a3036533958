"""A project with a planted sample, and everything that an attack could reach, in a temporary folder."""

import importlib
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.process import environment

ASK, MANAGE = "run_specialist.cli.ask", "run_specialist.cli.manage"
"""Modules of the two commands."""
PROGRAMS = {ASK: "run-specialist", MANAGE: "specialists"}
LATE = ("anthropic", "run_specialist.api.config_files", "run_specialist.api.run_maker", "run_specialist.cli.live")
"""What the commands import late, and no process should import again."""
SUBJECT = "The first commit of the project"
TESTS = "python3 -m pytest"
"""The command that the narrow permissions allow beside reading the history."""
OWN_FILE = "specialists/fixer.md"
NARROW = """tools: [read, grep, edit, write, fetch, "Bash(git log:*, {tests}:*)"]
writable: [{target}]
allowed_domains: [docs.python.org]"""
WIDE = """tools: [read, grep, edit, write, fetch, Bash]
writable: ["."]"""
PERMISSIONS = {"not trusted": (NARROW, ()), "narrow": (NARROW, ("--trust",)), "everything": (WIDE, ("--trust",))}
"""The specialist's permissions by name: its lines, and the flags of the run."""


@dataclass(frozen=True, slots=True)
class Done:
    """Output of a command."""

    code: int | None
    out: str
    err: str


def run_command(module: str, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> Done:
    """Run a command of this package in a process of its own, and wait until it ends.

    Processes are forked from one that has imported the package, because each import of the vendor's SDK takes seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PROGRAMS, *LATE])
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made) / "out", Path(made) / "err"]
        process = context.Process(target=_command, args=(module, arguments, folder, dict(env), files))
        process.start()
        process.join()
        return Done(process.exitcode, *(file.read_text(errors="replace") for file in files))


def _command(
    module: str, arguments: Sequence[str], folder: Path, env: Mapping[str, str], files: Sequence[Path]
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    places = [(os.devnull, os.O_RDONLY), *((file, os.O_WRONLY | os.O_CREAT) for file in files)]
    for number, (path, flags) in enumerate(places):
        os.dup2(os.open(path, flags, 0o600), number)
    sys.argv = [PROGRAMS[module], *arguments]
    importlib.import_module(module).main()


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
        lines = lines.format(target=self.target, tests=TESTS)
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

    def command(self, module: str, *arguments: str, url: str = "") -> Done:
        """Run a command of this package in the project, with canaries in its environment.

        url: the Messages API.
        """
        keys = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-none"}
        return run_command(module, arguments, self.root, environment(self.home, **keys, **self.variables))

    def bare(self, command: str) -> str:
        """Run a command without any protection but a network that is cut off, and return its output."""
        shell = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "bash", "-c", command]
        env = environment(self.home, **self.variables, PATH="/usr/bin:/bin")
        done = subprocess.run(shell, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """Return the paths of the files that differ."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
