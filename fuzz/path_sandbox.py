"""Fuzz the file tools: no path, glob, pattern or query exposes files outside the root."""

import os
import tempfile
from pathlib import Path

import atheris
import harness

with atheris.instrument_imports(include=["run_specialist.tools"]):
    from run_specialist.errors import RunSpecialistError
    from run_specialist.tools.files import file_tools
    from run_specialist.tools.sandbox import Sandbox

SECRET = "marzipan"  # noqa: S105 - a marker word
"""Word that must not be exposed; in names and contents of all files outside the root, and in its hidden files."""
_PIECES = (
    *("..", "../", "/", "//", "./", "~", "\\", "..\\", "\0", "\n", "\\n", "\\xff", "\udcff", "%2e%2e/", "file://", " "),
    *("a/", "a/b/", "x.md", "out", "out/", "up/", "up/up/", "in.md", "loop", "pipe", ".git", ".GIT", ".git/config"),
    *(".env", ".ENV", ".ssh/", ".ssh/config", "server.pem", "key.md"),
    *("hidden/", "hidden.log", "/proc/self/root/", "/proc/self/cwd/", "/proc/self/fd/", "/etc/passwd", "CON", "-rf"),
    *("*", "**", "**/", "?", "[a-z]", "[!a]", "[", "]", "{a,b}", "{", "}", "!", "#", "(?=x)", "(a+)+", "^", "$", "|"),
    *("\\d", "\\b", "NEAR(", "AND", '"', "NOT ", ":", "é", "e\u0301", "\u202e", "K"),
)


def tree(outer: Path) -> Path:
    """Create a root with symlinks of all kinds next to secrets, and return it."""
    root = outer / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "hidden").mkdir()
    (root / ".git").mkdir()
    (outer / SECRET).mkdir()
    secrets = [outer / f"{SECRET}.md", outer / "x.md", outer / SECRET / f"{SECRET}.md", outer / SECRET / "x.md"]
    secrets += [root / "hidden" / f"{SECRET}.md", root / "hidden.log", root / ".git" / "config"]
    (root / ".ssh").mkdir()
    secrets += [root / ".env", root / "a" / "server.pem", root / ".ssh" / "config"]
    for secret in secrets:
        secret.write_text(f"the word is {SECRET}\n")
    (root / ".gitignore").write_text("hidden/\n*.log\n")
    long = root / ("a" * 250)
    for inside in (root / "x.md", root / "a" / "x.md", root / "a" / "b" / "new\nline.md", root / "-rf", long):
        inside.write_text("# An almond\n\nneedle 1\nneedle 2 d\u00e9j\u00e0\n")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.md")).write_text("needle\n")
    links = {
        "out": f"../{SECRET}",
        "up": "..",
        "a/up": "../..",
        "in.md": "a/x.md",
        "loop": "loop",
        "hid": "hidden",
        "key.md": ".env",
    }
    links |= {"out.md": f"../{SECRET}.md", "abs": str(outer), "proc": "/proc/self/root", "chain": "a/up"}
    for link, target in links.items():
        (root / link).symlink_to(target)
    os.mkfifo(root / "pipe")
    return root


class Target:
    """Fuzz target that calls one tool per input."""

    def __init__(self, root: Path) -> None:
        """Create the tools once, so that search does not index for each input."""
        self._root = root
        self._tools = {tool.name: tool for tool in file_tools(root)}

    def __call__(self, data: bytes) -> None:
        """Call a tool and check its result."""
        choice, text = data[:1], data[1:].decode("utf-8", "surrogateescape")
        try:
            shown = self._call(choice[0] if choice else 0, text)
        except RunSpecialistError as error:
            shown = str(error)
        # Errors quote the input.
        if SECRET not in text:
            assert SECRET not in shown, shown

    def _call(self, choice: int, text: str) -> str:
        tools = self._tools
        match choice % 8:
            case 0:
                return str(tools["read"](path=text))
            case 1:
                return str(tools["ls"](path=text))
            case 2 | 3:
                return str(tools["glob"](pattern=text))
            case 4:
                return str(tools["search"](query=text))
            case 5:
                return self._limited(text)
            case 6:
                return self._opened(text)
            case _ if choice < 16:  # noqa: PLR2004 - rare, because it starts a process
                path, _, rest = text.partition("\n")
                return str(tools["grep"](pattern=rest or ".", path=path or None))
            case _:
                path, _, glob = text.partition("\n")
                return str(tools["grep"](pattern="ne{2}dle", path=path, glob=glob or None)) if path else ""

    def _opened(self, text: str) -> str:
        sandbox = Sandbox(self._root)
        try:
            with sandbox.open(sandbox.locate(text)) as file:
                return file.read().decode("utf-8", "replace")
        except OSError as error:
            return error.strerror or str(error)

    def _limited(self, text: str) -> str:
        """Use the input as the `paths` of a specialist."""
        tools = {tool.name: tool for tool in file_tools(self._root, text.split("\n"))}
        return str(tools["glob"](pattern="**")) + str(tools["ls"]())


def main() -> None:
    """Fuzz in a temporary tree."""
    with tempfile.TemporaryDirectory() as outer:
        harness.run("path_sandbox", Target(tree(Path(outer))), _PIECES)


if __name__ == "__main__":
    main()
