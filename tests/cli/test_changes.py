"""What commands of `bash` do to files: events, outcome, report, `specialists undo`, and after Ctrl-C and kills."""

import json
import select
import signal
import stat

import pytest

from tests.cli.specialists_command import call as manage
from tests.unit.tools.sandboxed_commands import needs_bubblewrap, processes_with, unique_mark
from tests.wire.simulator.replies import answers, calls

pytestmark = needs_bubblewrap

SHOP = {f"out/shop/{name}": f"{name}\n" for name in ("a.py", "b.py", "deep/c.py", "deep/d.py", "e.py", "f.py")}


def bash(command):
    """Return a reply that calls the tool."""
    return calls("bash", {"command": command})


def files_of(root):
    """Return what is below a folder: the mode of each entry, with its target or content."""
    found = {}
    for path in root.rglob("*"):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            found[path] = path.readlink()
        elif not stat.S_ISDIR(info.st_mode):
            found[path] = info.st_mode, path.read_bytes() if stat.S_ISREG(info.st_mode) else None
    return found


@pytest.fixture
def shop(notes, write):
    """A specialist that may change `out`, which has six files, a link and a program; returns the folder."""
    write("cleaner", "model: haiku", "tools: [read, write, bash]", "writable: out")
    for name, text in SHOP.items():
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text(text)
    (notes / "out/link").symlink_to("shop/a.py")
    (notes / "out/run.sh").write_text("echo\n")
    (notes / "out/run.sh").chmod(0o755)
    return notes / "out"


@pytest.fixture
def ask(store, api, call, shop):
    """Return a function that lets the specialist run commands; returns the result."""

    def run(*commands, flags=()):
        api([*map(bash, commands), answers("done")])
        return call("cleaner", "Clean up.", "--trust", *flags)

    return run


def changes_of(result):
    """Return the changes in a printed outcome as kinds by path."""
    return {one["path"]: one["change"] for one in json.loads(result.stdout)["changes"]}


def test_p_5_a_folder_that_a_command_removed_comes_back(ask, shop):
    """Six files are removed: the outcome has them, the last line and the report say so, and undo restores all."""
    before = files_of(shop)
    result = ask("rm -rf out/shop")
    last = result.stderr.strip().splitlines()[-1]
    run = last.split()[-1]
    assert last.endswith(f": 6 files removed; to undo: specialists undo {run}")
    assert not (shop / "shop").exists()
    page = manage("report", run, "--output", "-").stdout
    assert page.count(">removed</b>") == 6
    undone = manage("undo", "last")
    assert (undone.exit_code, undone.stdout.count("restored  out/shop/")) == (0, 6)
    assert files_of(shop) == before
    result = ask("rm out/shop/a.py", flags=("--store", "none"))
    assert result.stderr.strip().endswith(": 1 file removed; this cannot be undone")


@pytest.mark.exhaustive
def test_p_5_every_kind_of_change_is_listed_and_taken_back(ask, shop):
    """Created, changed and removed files, modes, links, FIFOs, binary content, and names that are no UTF-8."""
    before = files_of(shop)
    command = (
        "cd out; echo new > new.md; echo more >> shop/a.py; rm shop/b.py; chmod 600 run.sh; ln -sf shop/e.py link;"
        r" mkfifo fifo; printf 'a\0b' > data; touch $'two\nlines\xff'; chmod 000 shop/e.py; mkdir -p x/y; echo > x/y/z;"
        " rm -r shop/deep; echo > shop/deep; mv shop/f.py g.py"
    )
    result = ask(command, flags=("--json",))
    assert changes_of(result) == {
        "out/new.md": "created",
        "out/shop/a.py": "changed",
        "out/shop/b.py": "removed",
        "out/run.sh": "changed",
        "out/link": "changed",
        "out/fifo": "created",
        "out/data": "created",
        r"out/two\nlines\xff": "created",
        "out/shop/e.py": "changed",
        "out/x/y/z": "created",
        "out/shop/deep/c.py": "removed",
        "out/shop/deep/d.py": "removed",
        "out/shop/deep": "created",
        "out/shop/f.py": "removed",
        "out/g.py": "created",
    }
    lines = {one["path"]: (one["added"], one["removed"]) for one in json.loads(result.stdout)["changes"]}
    assert [lines[f"out/{name}"] for name in ("new.md", "shop/a.py", "shop/b.py", "data")] == [
        (1, 0),
        (1, 0),
        (0, 1),
        (None, None),
    ]
    assert manage("undo", "last").exit_code == 0
    assert files_of(shop) == before
    assert not (shop / "x").exists()


@pytest.mark.exhaustive
def test_p_5_edits_and_commands_are_one_list(store, api, call, shop):
    """A file that `write` created and a command removed is no change, and undo takes back a chain of both."""
    api(
        [
            calls("write", {"path": "out/new.md", "content": "one\n"}),
            calls("write", {"path": "out/gone.md", "content": "one\n"}),
            bash("echo two >> out/new.md; rm out/gone.md"),
            answers("done"),
        ]
    )
    result = call("cleaner", "Clean up.", "--trust", "--events")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    changed = [(one["path"], one["change"], one["undoable"]) for one in events if one["event"] == "file_changed"]
    assert changed == [
        ("out/new.md", "created", True),
        ("out/gone.md", "created", True),
        ("out/gone.md", "removed", True),
        ("out/new.md", "changed", True),
    ]
    change = {"path": "out/new.md", "change": "created", "added": 2, "removed": 0, "undoable": True}
    assert events[-1]["outcome"]["changes"] == [change]
    assert manage("undo", "last").exit_code == 0
    assert not (shop / "new.md").exists()


def test_p_5_what_is_too_large_protected_or_changed_since_is_named(ask, shop):
    """Undo leaves it alone, and what others changed since; protected files of a command were undone with a warning."""
    with (shop / "large").open("wb") as file:
        file.truncate(1_000_000_000)
    command = "rm out/large out/shop/a.py; truncate -s 1G out/sparse; rm out/shop/b.py; echo > out/new.md"
    result = ask(f"{command}; echo evil > out/CLAUDE.md", flags=("--json",))
    outcome = json.loads(result.stdout)
    assert "a command changed protected files, which was undone: out/CLAUDE.md" in outcome["warnings"]
    kept = {one["path"]: (one["change"], one["undoable"]) for one in outcome["changes"]}
    (renamed,) = [path for path in kept if path.startswith("out/CLAUDE.md.undone-")]
    assert kept.pop(renamed) == ("created", True)
    assert [kept.pop(path) for path in ("out/shop/b.py", "out/new.md")] == [("removed", True), ("created", True)]
    removed = {"out/large": ("removed", False), "out/shop/a.py": ("removed", True)}
    assert kept == {**removed, "out/sparse": ("created", True)}
    for name in ("shop/b.py", "new.md"):
        (shop / name).write_text("mine\n")
    undone = manage("undo", "last")
    assert undone.exit_code == 4
    assert [(shop / name).read_text() for name in ("shop/b.py", "new.md")] == ["mine\n"] * 2
    assert not [*shop.glob("CLAUDE.md*")]
    assert "left alone  out/large: its content before was not kept: it is too large" in undone.stdout
    assert ((shop / "shop/a.py").exists(), (shop / "sparse").exists()) == (True, False)


@pytest.mark.exhaustive
def test_p_5_changes_before_an_interruption_are_in_the_outcome_of_the_resumed_run(shop, store, api, program):
    """Each file once, also those changed before; Ctrl-C ends what the command has started, and names `resume`."""
    mark = unique_mark()
    lasting = f"trap '' INT TERM; echo begun > out/log; setsid sleep 300 & sleep 300; : {mark}"
    api([bash("rm out/shop/a.py"), bash(lasting), bash("rm out/log"), answers("done")])
    process = program("cleaner", "Clean up.", "--trust")
    _, err = _stop(process, shop / "log", signal.SIGINT)
    assert (process.returncode, "specialists resume" in err) == (130, True)
    assert processes_with(mark) == []
    assert changes_of(manage("resume", "last", "--json")) == {"out/shop/a.py": "removed"}


@pytest.mark.exhaustive
def test_p_5_a_killed_command_can_be_undone(shop, store, api, program):
    """A kill -9 in the middle: undo finds the checkpoint, and a dry run of it changes nothing."""
    before = files_of(shop)
    api([bash("rm -r out/shop/deep; echo > out/CLAUDE.md; echo begun > out/log; sleep 300")])
    _stop(program("cleaner", "Clean up.", "--trust"), shop / "log", signal.SIGKILL)
    shown = manage("undo", "last", "--dry-run")
    assert "would be restored  out/shop/deep/c.py" in shown.stdout
    assert (shop / "CLAUDE.md").exists()
    undone = manage("undo", "last")
    assert undone.exit_code == 0, undone.output
    assert "was killed during a command" in undone.stderr
    assert files_of(shop) == before


@pytest.mark.exhaustive
def test_p_5_a_resumed_run_knows_what_its_killed_command_did(shop, store, api, program):
    """The command is not repeated, and the next one records its changes, so those of the user are not taken for it."""
    mark = unique_mark()
    first = f"rm out/shop/a.py; echo begun >> out/log; sleep 300; : {mark}"
    simulator = api([bash(first), bash("rm out/shop/b.py; echo again >> out/log"), answers("done")])
    _stop(program("cleaner", "Clean up.", "--trust"), shop / "log", signal.SIGKILL)
    resumed = manage("resume", "last", "--json")
    assert "Not finished: the process ended before bash returned." in str(simulator.requests[1].results)
    assert (shop / "log").read_text() == "begun\nagain\n"
    assert processes_with(mark) == []
    assert changes_of(resumed) == {"out/log": "created", "out/shop/a.py": "removed", "out/shop/b.py": "removed"}
    (shop / "shop/e.py").write_text("mine\n")
    assert manage("undo", "last").exit_code == 0
    assert [(shop / f"shop/{name}.py").read_text() for name in "abe"] == ["a.py\n", "b.py\n", "mine\n"]


@pytest.mark.exhaustive
def test_p_5_changes_of_a_child_run_are_those_of_its_parent(store, api, call, shop, write):
    """The parent's outcome has them, and undoing the parent takes them back, also where a file alone is `writable`."""
    write("boss", "model: haiku", "agents: [fixer]", "tools: [delegate]")
    write("fixer", "model: haiku", "tools: [bash]", "writable: [out/run.sh]")
    api(
        [
            calls("delegate", {"specialist": "fixer", "query": "Clean up."}),
            bash("echo more >> out/run.sh; rm -f out/run.sh"),
            answers("fixed"),
            answers("done"),
        ]
    )
    result = call("boss", "Have it cleaned.", "--trust", "--json")
    outcome = json.loads(result.stdout)
    assert changes_of(result) == {"out/run.sh": "changed"}
    assert [one["path"] for one in outcome["children"][0]["changes"]] == ["out/run.sh"]
    assert manage("undo", outcome["run_id"]).exit_code == 0
    assert (shop / "run.sh").read_text() == "echo\n"


def _stop(process, file, number):
    """Send a signal to a program once a file exists, and return its output."""
    while not file.exists() and process.poll() is None:
        select.select([], [], [], 0.01)
    process.send_signal(number)
    return process.communicate()


MODEL = ("--model", "haiku")


def test_a_command_is_run_and_its_output_is_quoted(api, notes, write, call):
    """Its result counts, has the exit code, and a quote from it is found, as do refusals; a dry run only reads."""
    write("finder", "tools: ['Bash(cat:*, wc:*)']", "tool_calls_limit: 3", "evidence: require")
    quote = {"source": "notes/owls.md", "quote": "Owls eat mice at night."}
    simulator = api([bash("cat notes/owls.md missing"), bash("rm -r notes"), answers("mice", evidence=[quote])])
    result = call("finder", "What do owls eat?", *MODEL, "--trust", "--json")
    outcome = json.loads(result.stdout)
    assert (outcome["status"], outcome["evidence"][0]["verified"]) == ("answered", True)
    assert outcome["tool_calls"] | {"used": 2, "failed": 1} == outcome["tool_calls"]
    first, second = (next(iter(request.results.values())) for request in simulator.requests[1:])
    lines = ["[r1 4 lines]", "1\t# Owls", "2\t", "3\tOwls eat mice at night.", "4\tcat: missing: No such file"]
    assert first.startswith("\n".join(lines))
    assert "[exit code 1]" in first
    assert "`rm -r notes` is not allowed. Only these commands may be run: `cat:*`, `wc:*`." in second
    (tool,) = (one for one in simulator.requests[0].body["tools"] if one["name"] == "bash")
    assert "Only these commands may be run" in tool["description"]
    (notes / "out").mkdir()
    write("finder", "tools: bash", "writable: out")
    simulator = api([bash("echo x > out/x"), answers("done")])
    call("finder", "What?", *MODEL, "--trust", "--dry-run")
    assert "Read-only file system" in str(simulator.requests[1].results)
    assert list((notes / "out").iterdir()) == []
