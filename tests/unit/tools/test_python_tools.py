"""`python_tools`: functions are found without running code, and imported from the content that was found."""

import sys
import threading
from importlib.machinery import SourceFileLoader

import pytest

from run_specialist.errors import UsageError
from run_specialist.tools import python_tools
from tests.projects import project

LOOKUP = ("def lookup(word: str) -> str:", '    """Look up a word."""', "    return f'found {word}'")


@pytest.fixture
def app(tmp_path):
    """Create a project with one module."""
    with project(tmp_path / "project") as made:
        made.write("PKG/tools.py", *LOOKUP)
        yield made


def tool_of(app, reference):
    """Find a function by its reference, and import it."""
    return python_tools.load(python_tools.find(reference.replace("PKG", app.package), app.root), app.root)


@pytest.mark.parametrize("path", ["PKG.py", "PKG/__init__.py", "PKG/tools.py", "PKG/deep/er/tools.py"])
async def test_a_plain_function_of_the_project_is_a_tool(app, path):
    """It is found wherever Python would find it, and is a tool with its name, docstring and parameters."""
    app.write(path, *LOOKUP)
    made = tool_of(app, f"{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}:lookup")
    assert (made.name, made.description, made.input_schema["required"]) == ("lookup", "Look up a word.", ["word"])
    assert (await made.call({"word": "owl"})).text == "found owl"


def test_a_decorated_function_keeps_its_settings_inside_objects(app):
    """A decorated function keeps its `name=`; a dotted name refers to a function in a class or another object."""
    app.write(
        "PKG/made.py",
        "from run_specialist import tool",
        "@tool(name='find_word', timeout=3)",
        *LOOKUP,
        "class Desk:",
        "    @staticmethod",
        "    def look(word: str) -> str:",
        "        return word",
    )
    assert (tool_of(app, "PKG.made:lookup").name, tool_of(app, "PKG.made:lookup").timeout) == ("find_word", 3)
    assert tool_of(app, "PKG.made:Desk.look").name == "look"


async def test_a_module_can_import_its_neighbours(app):
    """A module can import its neighbours, at its import and within functions."""
    app.write("PKGside.py", "WORD = 'side'")
    app.write("PKGdata/words.py", "WORD = 'data'")
    app.write("PKG/near.py", "WORD = 'near'")
    app.write("PKGlazy.py", "WORD = 'lazy'")
    app.write(
        "PKG/more.py",
        "from . import near",
        "from PKGdata.words import WORD",
        "import PKGside",
        "def lookup() -> str:",
        "    import PKGlazy",
        "    return ' '.join([near.WORD, WORD, PKGside.WORD, PKGlazy.WORD])",
    )
    path = list(sys.path)
    assert (await tool_of(app, "PKG.more:lookup").call({})).text == "near data side lazy"
    assert sys.path == path, "the path of the program is left as it was"


def test_a_project_module_does_not_shadow_the_standard_library(app):
    """A project's `colorsys.py` does not shadow the standard library's."""
    app.write("colorsys.py", "raise RuntimeError('imported')")
    app.write("PKG/colours.py", "import colorsys", "def lookup() -> str:", "    return colorsys.__file__")
    sys.modules.pop("colorsys", None)
    assert str(app.root) not in tool_of(app, "PKG.colours:lookup")()


def test_finding_a_function_runs_no_code(app):
    """Finding a function reads its module and the packages around it, but runs neither."""
    app.write("PKG/__init__.py", "raise RuntimeError('package')")
    app.write("PKG/loud.py", "raise RuntimeError('module')")
    found = python_tools.find(f"{app.package}.loud:lookup", app.root)
    assert [module.data for module in found.chain] == [
        b"raise RuntimeError('package')\n",
        b"raise RuntimeError('module')\n",
    ]
    assert app.package not in sys.modules


def test_the_bytes_that_were_found_are_imported(app):
    """The bytes that were found and allowed are imported, even if the files change; this includes the packages."""
    app.write("PKG/__init__.py", "STATE = 'old'")
    file = app.write("PKG/late.py", "from . import STATE", "def lookup() -> str:", "    return 'old ' + STATE")
    found = python_tools.find(f"{app.package}.late:lookup", app.root)
    app.write("PKG/__init__.py", "STATE = 'new'")
    app.write("PKG/late.py", "from . import STATE", "def lookup() -> str:", "    return 'new ' + STATE")
    assert python_tools.load(found, app.root)() == "old old"
    assert file.read_text().endswith("'new ' + STATE\n")
    assert not list(app.root.rglob("late*.pyc"))


def test_a_module_is_imported_once_by_many_threads(app):
    """A module is imported once, even when many threads request it at the same time or later."""
    app.write("PKG/count.py", "import PKG.seen as seen", "seen.times += 1", *LOOKUP)
    app.write("PKG/seen.py", "times = 0")
    made = []
    threads = [threading.Thread(target=lambda: made.append(tool_of(app, "PKG.count:lookup"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.append(tool_of(app, "PKG.count:lookup"))
    assert len({one.function for one in made}) == 1
    assert (len(made), sys.modules[f"{app.package}.seen"].times) == (9, 1)


def test_a_module_imported_by_the_program_is_reused(app, monkeypatch):
    """A module that the program has already imported is reused, so its state is shared with its tools."""
    monkeypatch.syspath_prepend(str(app.root))
    own = __import__(f"{app.package}.tools").tools
    assert tool_of(app, "PKG.tools:lookup").function is own.lookup


def test_modules_of_one_name_in_two_projects_are_refused(app, tmp_path):
    """A module with the name of one loaded from another project is refused; the error names the other location."""
    tool_of(app, "PKG.tools:lookup")
    other = tmp_path / "other"
    (other / app.package).mkdir(parents=True)
    (other / app.package / "tools.py").write_text("def lookup() -> str:\n    return 'other'\n")
    with pytest.raises(UsageError, match=rf"{app.package}.* is already loaded|is ambiguous: it is also the name of"):
        python_tools.load(python_tools.find(f"{app.package}.tools:lookup", other), other)


def test_a_module_with_the_name_of_an_installed_one_is_refused(app):
    """A module with the name of an installed one is refused."""
    app.write("tabnanny.py", *LOOKUP)
    with pytest.raises(UsageError, match=r"tabnanny is ambiguous: it is also the name of .*tabnanny\.py; rename"):
        python_tools.find("tabnanny:lookup", app.root)


async def test_an_installed_module_can_be_named_too(app):
    """A module that is not in the project is searched among the installed packages."""
    found = python_tools.find("textwrap:dedent", app.root)
    assert not found.module.is_below(app.root)
    sys.modules.pop("tabnanny", None)
    python_tools.load(python_tools.find("tabnanny:check", app.root), app.root)
    assert type(sys.modules["tabnanny"].__spec__.loader) is SourceFileLoader, "imported as anybody would"
    assert (await python_tools.load(found, app.root).call({"text": "  a"})).text == "a"


WRONG = {
    "nowhere.tools:lookup": "nowhere.tools:lookup: no module nowhere in ",
    "PKG.nothing:lookup": "PKG.nothing:lookup: no module PKG.nothing in ",
    "PKG.tools:lokup": "PKG.tools:lokup: PKG.tools has no lokup; did you mean lookup?",
    "PKG.odd:starred": "starred: parameter *words cannot be passed by keyword",
    "PKG.fails:lookup": "importing PKG.fails failed: RuntimeError: first second (ROOT/PKG/fails.py:2)",
    "PKG.leaves:lookup": "importing PKG.leaves failed: SystemExit: 3 (",
    "PKG.wrong:lookup": "importing PKG.wrong failed: SyntaxError: ",
    "PKG.deep:lookup": "importing PKG.deep failed: ModuleNotFoundError: No module named 'PKG.side'",
    "PKG.lacks:lookup": "PKG.lacks failed: ModuleNotFoundError: No module named 'nowhere_at_all' (ROOT/PKG/lacks",
    "PKG.later:lookup": "PKG.later failed: ModuleNotFoundError: No module named 'nowhere_at_all' (ROOT/PKG/later",
}


@pytest.fixture
def odd(app):
    """Write modules that each contain an error."""
    app.write("PKG/odd.py", "def starred(*words): pass")
    app.write("PKG/fails.py", "", "raise RuntimeError('first\\n second')")
    app.write("PKG/leaves.py", "raise SystemExit(3)")
    app.write("PKG/wrong.py", "def :")
    app.write("PKG/lacks.py", "import nowhere_at_all")
    app.write("PKG/later.py", "import importlib", "importlib.import_module('nowhere_at_all')")
    # A module next to the package is not part of it.
    app.write("side.py", "")
    app.write("PKG/deep.py", "import PKG.side")
    return app


@pytest.mark.parametrize("reference", WRONG)
def test_an_invalid_reference_is_a_one_line_error(odd, reference):
    """An invalid reference is a one-line error with the reason, and the line of the module that raised it."""
    with pytest.raises(UsageError) as caught:
        tool_of(odd, reference)
    assert WRONG[reference].replace("PKG", odd.package).replace("ROOT", str(odd.root)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_corrected_module_is_imported_again(odd):
    """A module whose import failed is imported again after its file was corrected."""
    with pytest.raises(UsageError):
        tool_of(odd, "PKG.fails:lookup")
    odd.write("PKG/fails.py", *LOOKUP)
    assert tool_of(odd, "PKG.fails:lookup").name == "lookup"


def test_a_tool_name_that_is_taken_is_refused():
    """Names of built-in and of MCP tools and duplicate names are refused; those of newer tools still work."""
    for newer in ("fetch", "bash", "edit", "write", "memory", "todo", "think"):
        python_tools.check_name("app:it", newer, ["lookup"])
    builtin = ("respond", "search", "read", "delegate", "get_tool_response", "context_summarize", "mcp__web__get")
    refused = dict.fromkeys(builtin, "reserved; choose another one: @tool")
    for name, why in (refused | {"lookup": "already used by another function"}).items():
        with pytest.raises(UsageError, match=f"app:it: tool name {name} is {why}"):
            python_tools.check_name("app:it", name, ["lookup"])
