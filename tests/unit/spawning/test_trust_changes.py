"""Trust covers files used indirectly: a change to one of them requires trust again."""

import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest

from run_specialist.errors import NotTrusted
from run_specialist.spawning.extra_tools import wanted_by
from run_specialist.spawning.trust import Claim, RunContext, Trust
from run_specialist.specialist.loader import load
from run_specialist.tools import project_modules, python_tools
from tests.projects import Project


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    """Let Python look for compiled modules beside their source, as it usually does."""
    monkeypatch.setattr(sys, "pycache_prefix", None)


def claim_of(app: Project) -> Claim:
    """Return what the specialist's file would start and import at this moment."""
    file = load(app.root / "specialists" / "finder.md", app.root)
    return wanted_by(RunContext(file, file.specialist, app.root)).claim


def asking_again(app: Project, *paths: str) -> list[str]:
    """Return the files of which a change requires trust again; check that undoing the changes does not."""
    before, found = claim_of(app).fingerprint, []
    for path in paths:
        file = app.root / path.replace("PKG", app.package)
        data = file.read_bytes()
        file.write_bytes(data + b"\n# changed\n")
        if claim_of(app).fingerprint != before:
            found.append(path)
        file.write_bytes(data)
    assert claim_of(app).fingerprint == before
    return found


IMPORTS = {
    "import PKGside": ["PKGside.py"],
    "import PKG.deep.er": ["PKG/deep/__init__.py", "PKG/deep/er.py"],
    "from PKG import near": ["PKG/near.py"],
    "from . import near": ["PKG/near.py"],
    "from .deep import er as other": ["PKG/deep/er.py"],
    "from .deep.er import WORD": ["PKG/deep/er.py"],
    "from .deep import *": ["PKG/deep/er.py"],
    "from PKGdata.words import WORD": ["PKGdata/words.py"],
    "import json; import PKGside as x": ["PKGside.py"],
    "def later():\n    import PKGside": ["PKGside.py"],
    "try:\n    import PKGside\nexcept ImportError:\n    pass": ["PKGside.py"],
    "import importlib\nimportlib.import_module('PKGside')": ["PKGside.py"],
    "import importlib\nimportlib.import_module('.near', __package__)": ["PKG/near.py"],
    "__import__('PKGside')": ["PKGside.py"],
    "import PKGhop": ["PKGhop.py", "PKGside.py"],
    "import PKGone": ["PKGone.py", "PKGtwo.py"],
}


@pytest.fixture
def modules(app):
    """Create a package with modules inside and beside it, two of which import each other."""
    for path in ("PKG/__init__.py", "PKG/near.py", "PKG/deep/__init__.py", "PKG/deep/er.py", "PKGdata/words.py"):
        app.write(path, "WORD = 'x'")
    app.write("PKGside.py", "WORD = 'side'")
    app.write("PKGhop.py", "import PKGside")
    app.write("PKGone.py", "import PKGtwo")
    app.write("PKGtwo.py", "import PKGone")
    app.write("PKG/unused.py", "import PKGside")
    app.specialist("python_tools: ['PKG.tools:lookup']")
    return app


@pytest.mark.parametrize("source", IMPORTS)
def test_trust_covers_modules_imported_by_a_trusted_module(modules, source):
    """Absolute, relative, local, dynamic and transitive imports are covered; a module not imported may change."""
    modules.write("PKG/tools.py", source, "def lookup() -> str:", "    return ''")
    others = ["PKG/unused.py", *({"PKGside.py"} - {*IMPORTS[source]})]
    assert asking_again(modules, *IMPORTS[source], *others) == IMPORTS[source]


def test_a_module_without_project_imports_keeps_its_fingerprint(modules):
    """Without project imports the fingerprint is the digests of module and packages, so earlier trust stays valid."""
    modules.write("PKG/tools.py", "import json", "def lookup() -> str:", "    return ''")
    found = python_tools.find(f"{modules.package}.tools:lookup", modules.root)
    (demand,) = claim_of(modules).demands
    assert demand.fingerprint == " ".join([found.reference, *(module.digest for module in found.chain)])


def test_the_import_search_imports_nothing_and_survives_broken_files(modules):
    """Syntax errors, NULs and unresolvable names do not break the search, and no module is imported."""
    modules.write("PKG/broken.py", "def (")
    modules.write("PKG/raises.py", "raise SystemExit('ran')")
    (modules.root / modules.package / "nul.py").write_bytes(b"import os\0")
    modules.write(
        "PKG/tools.py",
        "from . import broken, raises, nul, nothing",
        "from .... import beyond",
        "from ....far import away",
        "import PKG.near.deeper, os.path, nowhere.at.all",
        "__import__('')",
        "__import__('..')",
        "__import__('a..b')",
        "__import__('\\0')",
        "def lookup() -> str: return ''",
    )
    found = python_tools.find(f"{modules.package}.tools:lookup", modules.root)
    names = [module.name.partition(".")[2] for module in found.imported]
    assert names == ["broken", "near", "nul", "raises"]


def test_installed_packages_are_not_followed(modules, monkeypatch):
    """Imports of the standard library and of a project's `.venv` are not followed."""
    modules.write(".venv/lib/site-packages/PKGinstalled/__init__.py", "import PKGinstalled.more")
    modules.write(".venv/lib/site-packages/PKGinstalled/more.py")
    monkeypatch.syspath_prepend(modules.root / ".venv" / "lib" / "site-packages")
    modules.write("PKG/tools.py", "import PKGinstalled, json", "def lookup() -> str:", "    return ''")
    for reference in (f"{modules.package}.tools:lookup", f"{modules.package}installed:it"):
        found = python_tools.find(reference, modules.root)
        assert (found.imported, found.is_whole) == ((), True)


@pytest.mark.parametrize("bound", ["MAX_MODULES", "MAX_SOURCE", "depth"])
def test_beyond_the_search_limits_trust_is_not_stored(modules, tmp_path, monkeypatch, bound):
    """Beyond the search limits trust is not stored: it holds for one runner, and the error says so."""
    source = "import PKGhop"
    if bound == "depth":
        source = f"WORD = {'+'.join(['1'] * 20_000)}"
    else:
        monkeypatch.setattr(project_modules, bound, 3)
    modules.write("PKG/tools.py", source, "def lookup() -> str:", "    return ''")
    asked = claim_of(modules)
    assert asked.demands[0].fingerprint is None
    trust = Trust(folder=tmp_path / "trusted", given=True)
    assert (trust.check(asked), trust.check(asked)) == ((), ())
    assert not (tmp_path / "trusted").exists()
    assert not trust.is_known(asked)
    with pytest.raises(NotTrusted, match=r"it must be allowed each time"):
        Trust(folder=tmp_path / "trusted").check(asked)


async def test_the_inspected_source_runs_and_not_a_compiled_copy(modules):
    """The inspected bytes of imported modules run, not a `__pycache__` file that a project may ship."""
    modules.write("PKGlazy.py", "WORD = 'looked at'")
    near = modules.write("PKG/near.py", "WORD = 'looked at'")
    modules.write(
        "PKG/tools.py",
        "from . import near",
        "def lookup() -> str:",
        "    import PKGlazy",
        "    return f'{near.WORD}, {PKGlazy.WORD}'",
    )
    found = python_tools.find(f"{modules.package}.tools:lookup", modules.root)
    for path in (near, modules.root / f"{modules.package}lazy.py"):
        looked = path.read_text()
        path.write_text("WORD = 'swapped'")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(path), importlib.util.cache_from_source(str(path)), invalidation_mode=mode)
        path.write_text(looked)
    made = python_tools.load(found, modules.root)
    near.write_text("WORD = 'changed'")
    (modules.root / f"{modules.package}lazy.py").write_text("WORD = 'changed'")
    assert (await made.call({})).text == "looked at, looked at"


COMMANDS = {
    "{command: python3, args: [server.py]}": ["server.py", "helper.py"],
    "{command: python3 -u server.py --port=1}": ["server.py"],
    "{command: ./run.sh}": ["run.sh"],
    "{command: node, args: [--require=./hook.js, tools/x.js]}": ["hook.js", "tools/x.js"],
    "{command: uv run tools/x.py}": ["tools/x.py"],
    "{command: uv, args: [run, --directory, tools, x.py]}": ["tools/x.py"],
    "{command: python3 -m PKG.serve}": ["PKG/__init__.py", "PKG/serve.py", "PKG/near.py"],
    "{command: python3, args: [-mPKG]}": ["PKG/__main__.py"],
    "{command: uv run python -m serve, env: {PYTHONPATH: 'lib:src'}}": ["src/serve.py"],
    "{command: x.py, cwd: tools, args: [x.js]}": ["tools/x.js"],
    "{command: sh, args: [-c, 'cd tools && exec ./x.js']}": ["tools/x.js"],
    "{command: node x, env: {NODE_OPTIONS: --require ./hook.js}}": ["hook.js"],
    "{command: '${RUN:-./run.sh}'}": ["run.sh"],
    "{command: {root}/run.sh}": ["run.sh"],
    "{command: ./linked.sh}": ["run.sh"],
    "{command: docker compose -f compose.yaml up}": ["compose.yaml"],
    "{command: python3 run.txt}": ["run.txt", "helper.py"],
    "{command: sh setup.md}": ["setup.md"],
    "{command: node, args: [x.json]}": ["x.json"],
    "{command: node --log x.json}": ["x.json"],
    "{command: node --title t --db x.json}": ["x.json"],
    "{command: env node --log=x.json x.json}": ["x.json"],
    "{command: sh, args: [-c, './run.sh --db x.json']}": ["run.sh", "x.json"],
    "{command: serve, env: {BASH_ENV: setup.md, NODE_OPTIONS: --require=./x.json}}": ["setup.md", "x.json"],
    "{command: python3 tools/x.py, env: {PYTHONPATH: src}}": ["tools/x.py", "src/serve.py", "src/deep/er.py"],
    "{command: env PYTHONPATH=src python3 tools/x.py}": ["src/serve.py", "src/deep/er.py"],
    "{command: sh, args: [-c, 'PYTHONPATH=src python3 tools/x.py']}": ["src/serve.py", "src/deep/er.py"],
    "{command: python3 app}": ["app/__main__.py", "app/beside.py"],
    "{command: python3 -c 'import helper'}": ["helper.py"],
    "{command: node js/server.js}": ["js/server.js", "js/lib.js", "js/deep/index.js", "js/more.mjs"],
    "{command: sh sourcing.sh}": ["sourcing.sh", "setup.md", "run.sh", "run.txt", "helper.py"],
    "{command: serve, env: {PYTHONPATH: linking}}": ["src/serve.py", "src/deep/er.py"],
    "{command: python3 shadowed/server.py}": ["shadowed/server.py", "shadowed/re.py", "shadowed/yaml/__init__.py"],
}
UNTOUCHED = ["notes/data.db", "other.py"]


@pytest.fixture
def scripts(app):
    """Create a project with various kinds of programs."""
    app.write("server.py", "import helper, json")
    for path in ("helper.py", "other.py", "tools/x.py", "src/serve.py", "PKG/__init__.py", "PKG/near.py"):
        app.write(path, "WORD = 1")
    app.write("PKG/serve.py", "from . import near")
    app.write("PKG/__main__.py", "")
    for path in ("run.sh", "hook.js", "tools/x.js", "notes/data.db", "compose.yaml"):
        app.write(path, "x")
    (app.root / "linked.sh").symlink_to("run.sh")
    app.write("run.txt", "import helper")
    app.write("app/__main__.py", "import beside")
    app.write("shadowed/server.py", "import json")
    for path in ("src/deep/er.py", "app/beside.py", "shadowed/re.py", "shadowed/yaml/__init__.py"):
        app.write(path, "WORD = 1")
    app.write("setup.md", "x")
    app.write(
        "js/server.js", "const a = require('./lib')", "import b from './deep'; const c = await import('./more.mjs')"
    )
    app.write("sourcing.sh", ". ./setup.md", "if true; then $HERE/run.sh; fi", "exec python3 run.txt")
    for path in ("js/lib.js", "js/deep/index.js", "js/more.mjs"):
        app.write(path, "x")
    (app.root / "linking").mkdir()
    (app.root / "linking" / "pkg").symlink_to("../src")
    app.write("x.json", "{}")
    return app


@pytest.mark.parametrize("entry", COMMANDS)
def test_trust_covers_project_files_named_by_a_command(scripts, entry):
    """Trust covers scripts, hooks, modules and their Python imports named by a command; other files may change."""
    scripts.specialist(f"mcp_servers: {{it: {entry.replace('{root}', str(scripts.root))}}}")
    assert asking_again(scripts, *COMMANDS[entry], *UNTOUCHED) == COMMANDS[entry]


def test_scripts_that_name_too_many_files_are_allowed_each_time(scripts, monkeypatch):
    """The limit counts all files that are still to be examined, not only those that one script names."""
    monkeypatch.setattr(project_modules, "MAX_FOUND", 5)
    for one in range(4):
        scripts.write(f"deep/{one}.sh", *(f". ./deep/{one}{two}.sh" for two in range(4)))
        for two in range(4):
            scripts.write(f"deep/{one}{two}.sh", "x")
    scripts.write("many.sh", *(f". ./deep/{one}.sh" for one in range(4)))
    scripts.specialist("mcp_servers: {it: {command: sh many.sh}}")
    assert claim_of(scripts).demands[0].fingerprint is None


@pytest.mark.parametrize(
    "entry",
    [
        "{command: npx -y files}",
        "{command: serve, args: [--db, notes/data.db]}",
        "{command: serve --log-file=x.json}",
        "{command: serve, env: {MEMORY_FILE_PATH: x.json}}",
        "{command: run.sh}",
        "{command: python3 -m json.tool, cwd: /}",
        "{url: 'http://localhost/server.py'}",
        "{command: '${NOT_SET_ANYWHERE}'}",
        '{command: ["a\\0b", "-m", "a\\0b"]}',
        '{command: [x, "don\'t"]}',
    ],
)
def test_a_command_without_project_files_keeps_its_fingerprint(scripts, entry):
    """Without executable project files the server's fingerprint is unchanged, so earlier trust stays valid."""
    scripts.specialist(f"mcp_servers: {{it: {entry}}}")
    file = load(scripts.root / "specialists" / "finder.md", scripts.root)
    wanted = wanted_by(RunContext(file, file.specialist, scripts.root))
    assert [demand.fingerprint for demand in wanted.claim.demands] == [wanted.servers["it"].fingerprint]


@pytest.mark.parametrize("bound", ["MAX_PATHS", "MAX_SIZE"])
def test_a_command_with_too_many_files_needs_trust_each_time(scripts, monkeypatch, bound):
    """A command with too many arguments or too large files needs trust each time."""
    monkeypatch.setattr(project_modules, bound, 1)
    scripts.specialist("mcp_servers: {it: {command: node hook.js run.sh compose.yaml}}")
    assert [demand.fingerprint for demand in claim_of(scripts).demands] == [None]


def test_data_that_a_trusted_script_is_given_may_change(scripts):
    """Data named by an option after the script is the script's own; the script stays covered."""
    scripts.specialist("mcp_servers: {it: {command: python3 -u server.py --db notes/data.db --log=setup.md}}")
    assert asking_again(scripts, "server.py", "notes/data.db", "setup.md") == ["server.py"]


@pytest.mark.parametrize("mode", ["UNCHECKED_HASH", "CHECKED_HASH"])
@pytest.mark.parametrize("where", ["helper.py", "src/serve.py"])
def test_trust_covers_compiled_modules_that_a_server_would_load(scripts, mode, where):
    """A compiled module whose source is not compared, or only by a hash that anyone can compute, is covered."""
    scripts.specialist("mcp_servers: {it: {command: python3 server.py, env: {PYTHONPATH: src}}}")
    before = claim_of(scripts).fingerprint
    source = scripts.root / where
    compiled = importlib.util.cache_from_source(str(source))
    py_compile.compile(str(source), compiled, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    assert claim_of(scripts).fingerprint == before
    py_compile.compile(str(source), compiled, invalidation_mode=py_compile.PycInvalidationMode[mode])
    planted = claim_of(scripts)
    assert planted.can_be_remembered
    assert planted.fingerprint != before


@pytest.mark.parametrize("entry", ["python3 planted.py", "python3 renamed.txt", "python3 -m helper2"])
def test_a_server_whose_imports_cannot_be_known_is_allowed_each_time(scripts, entry):
    """A module without source, under any name, and a computed import have to be allowed each time."""
    scripts.write("planted.py", "import helper2")
    compiled = py_compile.compile(str(scripts.root / "helper.py"), str(scripts.root / "helper2.pyc"))
    (scripts.root / "renamed.txt").write_bytes(Path(compiled).read_bytes())
    scripts.specialist(f"mcp_servers: {{it: {{command: {entry}}}}}")
    assert not claim_of(scripts).can_be_remembered


@pytest.mark.parametrize(
    "source",
    [
        "import importlib, sys\nimportlib.import_module(sys.argv[0])",
        "__import__('PKG' + 'side')",
        "import runpy\nrunpy.run_path('PKGside.py')",
        "import PKGcompiled",
    ],
)
def test_python_tools_whose_imports_cannot_be_known_are_allowed_each_time(modules, tmp_path, source):
    """Computed names, files run by their path and modules without source have to be allowed each time."""
    compiled = modules.root / f"{modules.package}compiled.pyc"
    py_compile.compile(str(modules.root / f"{modules.package}side.py"), str(compiled))
    modules.write("PKG/tools.py", source, "def lookup() -> str:", "    return ''")
    asked = claim_of(modules)
    assert not asked.can_be_remembered
    with pytest.raises(NotTrusted, match="not every file that it executes can be known and compared"):
        Trust(folder=tmp_path / "trusted").check(asked)


async def test_a_computed_import_runs_the_source_and_not_a_compiled_copy(modules):
    """A module that was not inspected, beside the tool or inside its package, is executed from its source."""
    modules.write(
        "PKG/tools.py",
        "import importlib",
        "def lookup() -> str:",
        "    names = ['PKGside', 'PKG.near']",
        "    return ', '.join(importlib.import_module(name).WORD for name in names)",
    )
    for path in ("PKGside.py", "PKG/near.py"):
        file = modules.root / path.replace("PKG", modules.package)
        looked = file.read_text()
        file.write_text("WORD = 'planted'")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(file), importlib.util.cache_from_source(str(file)), invalidation_mode=mode)
        file.write_text(looked)
    made = python_tools.load(python_tools.find(f"{modules.package}.tools:lookup", modules.root), modules.root)
    assert (await made.call({})).text == "side, x"


def test_a_fifo_in_place_of_a_script_is_skipped(scripts):
    """A FIFO in place of a script is skipped and does not block."""
    (scripts.root / "run.sh").unlink()
    os.mkfifo(scripts.root / "run.sh")
    scripts.specialist("mcp_servers: {it: {command: ./run.sh}}")
    assert len(claim_of(scripts).demands) == 1
    assert Path(scripts.root / "run.sh").is_fifo()
