"""The command `specialists install`: register the MCP server with another program, or write a plugin for it.

A configuration is changed as text, so that everything else in it stays as it is, and only if the result, parsed again,
differs by nothing but the entry. In all other cases the lines to paste are printed.
"""

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, NamedTuple

import typer

from run_specialist.cli import console, flags
from run_specialist.installation import PACKAGE, adding
from run_specialist.safety import redact, safe_files
from run_specialist.tools.text_edit import diff_of
from run_specialist.version import release

NAME = "specialists"
"""Name of the entry, of the plugin, and of the program that serves the specialists."""
# Variables that decide about the model; only their names are ever written.
_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "SPECIALIST_MODEL")


class Client(NamedTuple):
    """Where a program reads its MCP servers, and the form of an entry."""

    file: str
    """Path from the project; `~/` = from the home folder, for all projects."""
    keys: tuple[str, ...]
    """Keys of the object that contains the servers by name."""
    fixed: Mapping[str, object]
    """Members of an entry beside its command and its variables."""
    reference: str
    """How an entry refers to an environment variable; empty if the program passes its environment on."""
    page: str
    """Documentation of this format."""


_STDIO, _CODEX = {"type": "stdio"}, {"startup_timeout_sec": 30, "tool_timeout_sec": 900}
_SERVERS, _VSCODE = ("mcpServers",), "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration"
CLIENTS = {
    "claude-code": Client(".mcp.json", _SERVERS, _STDIO, "", "https://code.claude.com/docs/en/mcp"),
    "codex": Client("~/.codex/config.toml", ("mcp_servers",), _CODEX, "{}", "https://developers.openai.com/codex/mcp"),
    "gemini": Client(".gemini/settings.json", _SERVERS, {"timeout": 900_000}, "${}", "https://geminicli.com/docs"),
    "vscode": Client(".vscode/mcp.json", ("servers",), _STDIO, "", _VSCODE),
    "cursor": Client(".cursor/mcp.json", _SERVERS, _STDIO, "${{env:{}}}", "https://cursor.com/docs/mcp"),
    "opencode": Client("opencode.json", ("mcp", "servers"), {"type": "local"}, "", "https://opencode.ai/docs"),
}


def install(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help=f"One of {', '.join(CLIENTS)}.")],
    plugin: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write a plugin of Claude Code there.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the entry that this command has written.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, and write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without confirmation.")] = False,
    root: flags.ProjectRoot = None,
) -> None:
    """Register the MCP server with another program.

    Shows the change as a diff and asks before it is written. Nothing else in the file changes; if that is not certain,
    the lines to paste are printed. API keys are never written. The plugin says when to ask which specialist.
    """
    with console.guarded():
        if client not in CLIENTS:
            console.fail(f"{client} is not known; name one of {', '.join(CLIENTS)}")
        known, top = CLIENTS[client], Path(os.path.realpath(console.project_folder(root)))
        # The configuration of a user is for all projects: the program starts the server in the current one.
        is_own, then = known.file.startswith("~"), f"start {client}, and allow the server if it asks"
        entry = {} if remove else _entry(known, _command(*(() if is_own else ("--root", str(top)))))
        if plugin is not None:
            if client != "claude-code" or remove:
                console.fail("--plugin is for claude-code; to remove a plugin, delete its folder")
            project, top, then = top, Path(os.path.realpath(plugin)), f"try it: claude --plugin-dir {plugin}"
            files = _plugin(top, project, entry, meant=root is not None)
        else:
            path = Path(known.file).expanduser()
            top = Path(os.path.realpath(os.environ.get("CODEX_HOME") or path.parent)) if is_own else top
            name = path.name if is_own else known.file
            try:
                files = {name: _edited(top, name, known, entry)}
            except (OSError, RecursionError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                if isinstance(error, json.JSONDecodeError):
                    why = f"it is no plain JSON, because of a comment or an error in line {error.lineno}"
                advice = f"add these lines ({known.page})" if entry else f"if it has `{NAME}`, delete that yourself"
                console.say(f"{console.relative(top / name)} was not changed: {why}; {advice}")
                if entry:
                    console.print_line(_toml(known, entry) if name.endswith(".toml") else _json(known.keys, entry))
                raise typer.Exit(2) from None
        _write(top, files, "" if remove else f"; next: {then}", dry_run=dry_run, yes=yes)


def _command(*options: str) -> list[str]:
    """Return the words that start the server, from any folder and with any PATH; exit if they would not work."""
    environment = Path(sys.prefix)
    clone, program = environment.parent, environment / f"bin/{NAME}"
    # In a clone uv adds the extra again if `uv sync` has removed it.
    if (uv := shutil.which("uv")) and (clone / "uv.lock").is_file() and Path(__file__).is_relative_to(clone / "src"):
        return [uv, "run", "--project", str(clone), "--extra", "mcp", NAME, "mcp", *options]
    if find_spec("mcp_types") is None or find_spec("mcp") is None or not program.is_file():
        console.fail(f"the server needs the extra `mcp`; {adding('mcp')}")
    return [str(program), "mcp", *options]


def _entry(client: Client, words: Sequence[str], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the entry of the server as a client reads it.

    names: variables that it refers to; None = those that are set, if the client does not pass all on.
    """
    names = [one for one in _VARIABLES if client.reference and os.environ.get(one)] if names is None else names
    is_one_list, is_toml = client.fixed.get("type") == "local", client.file.endswith(".toml")
    command = {"command": [*words]} if is_one_list else {"command": words[0], "args": [*words[1:]]}
    passed = {"env_vars": [*names]} if is_toml else {"env": {name: client.reference.format(name) for name in names}}
    return {**command, **(passed if names else {}), **client.fixed}


def _is_ours(found: Any, client: Client) -> bool:  # noqa: ANN401 - any value of a file
    """Return whether an entry has the form that this command writes, whatever the installation and the project."""
    try:
        words = found["command"] if isinstance(found["command"], list) else [found["command"], *found["args"]]
        names = [*found.get("env_vars", found.get("env", ()))]
        head = words[:-2] if words[-2] == "--root" else words
        return [Path(word).stem for word in head[-2:]] == [NAME, "mcp"] and found == _entry(client, words, names)
    except (AttributeError, LookupError, TypeError):
        return False


def _edited(top: Path, name: str, client: Client, entry: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return the content of a configuration before and after; None = there is no file.

    entry: empty removes it.
    Raises OSError, RecursionError and ValueError if nothing can be edited safely.
    """
    is_toml = name.endswith(".toml")
    parse, candidates = (tomllib.loads, _toml_edits) if is_toml else (json.loads, _json_edits)
    if any((top / part).is_symlink() for part in (Path(name), *Path(name).parents)):
        raise ValueError("it is a symlink, or behind one")
    content = safe_files.read_content(top, name, safe_files.LARGEST)
    before = None if content is None else content.decode()
    text = before if before is not None else "" if is_toml else "{}\n"
    data: Any = parse(text)
    held = data
    for key in client.keys:
        held = held.setdefault(key, {}) if isinstance(held, dict) else None
    if not isinstance(held, dict):
        raise ValueError(f"`{'.'.join(client.keys)}` in it is no table")  # noqa: TRY004 - the file is wrong
    if NAME in held and not _is_ours(held[NAME], client):
        raise ValueError(f"its entry `{NAME}` was not written by this command, or was edited since")
    found = held.pop(NAME, {})
    if found == entry:
        return before, before
    held.update({NAME: entry} if entry else {})
    for after in candidates(text, client, found, entry):
        with suppress(ValueError):
            # In TOML a table that has become empty is no longer there.
            if parse(after) in (data, {key: value for key, value in data.items() if value or key not in client.keys}):
                return before, after
    raise ValueError("its layout does not allow a change of this entry alone")


def _json(keys: Sequence[str], entry: object, indent: str | None = "  ") -> str:
    """Return an entry below its keys as JSON."""
    for key in (NAME, *reversed(keys)):
        entry = {key: entry}
    return json.dumps(entry, ensure_ascii=False, indent=indent)


def _json_edits(text: str, client: Client, found: object, entry: object) -> Iterator[str]:
    """Yield JSON texts, one of which may have the entry added, replaced or removed, and all else unchanged.

    A key can also occur elsewhere, or in a string; what a place means shows when the text is parsed.
    """
    newline, step = "\r\n" if "\r\n" in text else "\n", re.search(r"\n([ \t]+)", text)
    is_flat, unit = "\n" not in text.strip() and text.strip() != "{}", step[1] if step else "  "
    without = [] if found else [text]
    for place in re.finditer(rf'"{NAME}"\s*:\s*', text) if found else ():
        end = json.JSONDecoder().raw_decode(text, place.end())[1]
        head, before, after = text[: place.start()], text[: place.start()].rstrip(), text[end:].lstrip()
        last = before.removesuffix(",") + (text[end:] if before.endswith(",") else after)
        without.append(head + after[1:].lstrip() if after.startswith(",") else last)
    if not entry:
        yield from without
        return
    for base, depth in product(without, range(len(client.keys), -1, -1)):
        opening = rf'"{client.keys[depth - 1]}"\s*:\s*\{{' if depth else r"\A\s*\{"
        lines = _json(client.keys[depth:], entry, None if is_flat else unit)[1:-1].rstrip()
        for place in re.finditer(opening, base):
            rest, closing = base[place.end() :], "" if is_flat else newline + unit * depth
            rest = closing + rest.lstrip() if rest.lstrip().startswith("}") else f",{' ' if is_flat else ''}{rest}"
            yield base[: place.end()] + lines.replace("\n", newline + unit * depth) + rest


def _toml(client: Client, entry: Mapping[str, object]) -> str:
    """Return an entry as a table of TOML; strings, numbers and lists are written as in JSON."""
    values = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items())
    return f"[{'.'.join(client.keys)}.{NAME}]\n{''.join(values)}"


def _toml_edits(text: str, client: Client, found: Mapping[str, object], entry: Mapping[str, object]) -> Iterator[str]:
    """Yield the TOML text without a table that has the layout of `_toml`, or with one at the end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if found:
        before, _, after = text.partition(_toml(client, found).replace("\n", newline))
        text = (before.removesuffix(newline) if before.endswith(2 * newline) else before) + after
    apart = "" if not text else newline if text.endswith("\n") else 2 * newline
    yield text + apart + _toml(client, entry).replace("\n", newline) if entry else text


def _plugin(
    top: Path, project: Path, entry: Mapping[str, object], *, meant: bool
) -> dict[str, tuple[str | None, str | None]]:
    """Return the files of a plugin, after https://code.claude.com/docs/en/plugins-reference.

    Exits if no specialist can work, or if the folder belongs to something else.
    """
    from run_specialist.cli.show import unavailable  # noqa: PLC0415 - fast `--help`

    registry, _, defaults = flags.configured_project(project, None, meant=meant)
    usable = [file for file in registry.nearest() if file.specialist and not file.specialist.disable_model_invocation]
    reasons = unavailable(usable, project, defaults.model)
    offered = {file.name: file.description for file in usable if file.path not in reasons}
    about = {"name": NAME, "version": release(), "description": f"Asks specialists: {', '.join(offered)}."}
    # Makes the folder a marketplace, from which the plugin can be installed permanently.
    shop = {"name": PACKAGE, "owner": {"name": PACKAGE}, "plugins": [{"name": NAME, "source": "./"}]}
    skill = Path(__file__).with_name("ask-specialists.md").read_text(encoding="utf-8")
    # The specification allows a description of 1,024 characters.
    names = shorten(", ".join(offered), 850, placeholder=" ...")
    listed = (f"- `{name}`: {' '.join(description.split())}" for name, description in offered.items())
    texts = {
        ".claude-plugin/plugin.json": json.dumps(about, ensure_ascii=False, indent=2) + "\n",
        ".claude-plugin/marketplace.json": json.dumps(shop, indent=2) + "\n",
        ".mcp.json": _json(_SERVERS, entry) + "\n",
        "skills/ask-specialists/SKILL.md": skill.format(names=names, listed="\n".join(listed)),
    }
    found = {name: safe_files.read_content(top, name, safe_files.LARGEST) for name in texts if top.is_dir()}
    if (
        top.is_dir()
        and any(top.iterdir())
        and f'"name": "{NAME}"'.encode() not in (found[".claude-plugin/plugin.json"] or b"")
    ):
        console.fail(f"{console.relative(top)} is not empty, and no plugin of this command; name another folder")
    return {name: ((found.get(name) or b"").decode(errors="replace") or None, text) for name, text in texts.items()}


def _write(
    top: Path, files: Mapping[str, tuple[str | None, str | None]], then: str, *, dry_run: bool, yes: bool
) -> None:
    """Show what would change below a folder, ask, and write; exit if nothing is to be written.

    files: content before and after by path; None = there is no such file.
    then: what follows in the line that says what was written.
    """
    changed = {name: pair for name, pair in files.items() if pair[0] != pair[1]}
    for name, pair in changed.items():
        # Lines around the change may contain keys of other servers.
        console.print_diff(redact.redact(diff_of(str(console.relative(top / name)).lstrip("/"), *pair).text))
    shown = ", ".join(str(console.relative(top / name)) for name in changed or files)
    if dry_run or not changed:
        console.fail("nothing was written" if changed else f"nothing to change in {shown}", 0)
    console.confirm(f"Write {shown}?", "nothing was written", yes=yes, default=True)
    top.mkdir(parents=True, exist_ok=True)
    for name, (before, after) in changed.items():
        expected = None if before is None else safe_files.digest_of(before.encode())
        safe_files.replace_file(top, name, (after or "").encode(), expected=expected)
    console.say(f"written: {shown}{then}")
