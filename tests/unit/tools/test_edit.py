"""The tools `edit` and `write`: what must have been read, what they report, dry runs, undoing, and what is closed."""

import asyncio
import os
import random
import shutil
import socket
import subprocess
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.budget import Budget
from run_specialist.errors import ToolError, UsageError
from run_specialist.record.journal import FileChanging
from run_specialist.safety import safe_files
from run_specialist.safety.safe_files import digest_of, temporary_name
from run_specialist.specialist.fields import Specialist
from run_specialist.tools import text_edit as subject
from run_specialist.tools.base import Context
from run_specialist.tools.edit import RESULT_DIFF, Patch, WorkingCopy, editing_offers, undo
from run_specialist.tools.file_checkpoint import EVENT_DIFF
from run_specialist.tools.files import file_tools
from run_specialist.tools.text_edit import MOST, Replacement, diff_of, edited, rewritten
from tests.link_swapper import can_swap, swapped


class Log:
    """Keeps what tools report, and stores their records as long as it `works`."""

    is_stored = works = True

    def __init__(self):
        self.events, self.records = [], []
        self.notify, self.before_storing = self.events.append, bool

    async def stored(self, record) -> bool:
        """Keep a record, unless the store does not work."""
        self.before_storing()
        await asyncio.sleep(0)
        if self.works:
            self.records.append(record)
        return self.works


class EditingRun:
    """The tools of one run."""

    def __init__(self, root: Path, *writable: str, dry_run: bool = False, closed: tuple[Path, ...] = ()) -> None:
        """Offer all file tools, `edit` and `write` below a root."""
        self.root, self.log = root, Log()
        self.patch = Patch() if dry_run else None
        copy = WorkingCopy(root, self.patch, lambda: closed)
        settings = Specialist(name="x", description="x", prompt="x", tools=("edit", "write"), writable=writable)
        tools = [offer.make(settings, root) for offer in editing_offers(copy)]
        self.tools = {tool.name: tool for tool in (*file_tools(root, copy=copy), *tools)}

    async def calling(self, name: str, **arguments) -> str:
        """Call a tool, and return the text of its result."""
        context = Context("run", "call_1", Budget(()), 60.0, log=self.log)
        return (await self.tools[name].call(arguments, context)).text

    def call(self, name: str, **arguments) -> str:
        """Call a tool, and return the text of its result."""
        return asyncio.run(self.calling(name, **arguments))


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def apply_patch(folder: Path, patch: str) -> None:
    """Let git apply a patch to the files of a folder."""
    command = [str(shutil.which("git")), "apply"]
    subprocess.run(command, cwd=folder, input=patch.encode(), check=True, capture_output=True)


@pytest.fixture
def run(root, write):
    """Return a run that may change what is below `docs`."""
    write({"docs/a.md": "one\ntwo\n", "other.md": "one\n"})
    return EditingRun(root, "docs/")


def refused(run, name="write", **arguments):
    """Return why a call fails, after which nothing is recorded and no file was made."""
    records, events, files = [*run.log.records], [*run.log.events], sorted(run.root.rglob("*"))
    with pytest.raises(ToolError) as error:
        run.call(name, **arguments)
    assert (run.log.records, run.log.events, sorted(run.root.rglob("*"))) == (records, events, files)
    return str(error.value)


def test_a_change_is_a_diff_in_the_result_and_in_the_event(run):
    """Both have path and diff; the record, stored before, has the content so far."""
    run.call("read", path="docs/a.md")
    shown = run.call("edit", path="docs/a.md", old="two", new="2")
    diff = "diff --git a/docs/a.md b/docs/a.md\n--- a/docs/a.md\n+++ b/docs/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert shown == f"Changed docs/a.md (+1 -1 lines)\n{diff}"
    (event,), (record,) = run.log.events, run.log.records
    assert event.as_json() == {
        "event": "file_changed",
        "call_id": "call_1",
        "path": "docs/a.md",
        "diff": f"{diff}\n",
        "added": 1,
        "removed": 1,
        "is_new": False,
        "dry_run": False,
        "change": "changed",
        "undoable": True,
    }
    assert (record.path, record.content, record.folders) == ("docs/a.md", "one\ntwo\n", 0)
    assert (run.root / "docs/a.md").read_bytes() == b"one\n2\n"


def test_a_file_must_be_read_first_and_again_after_a_change(run, write):
    """Neither an unread file nor one that others have changed since is changed; one's own changes are known."""
    edit = {"path": "docs/a.md", "old": "two", "new": "2"}
    assert "read it first" in refused(run, "edit", **edit)
    assert "read it first" in refused(run, "write", path="docs/a.md", content="x")
    run.call("search", query="two")
    run.call("grep", pattern="two")
    with pytest.raises(ToolError, match="ends before line 9"):
        run.call("read", path="docs/a.md", offset=9)
    assert "read it first" in refused(run, "edit", **edit)
    run.call("read", path="docs/a.md", limit=1)
    write({"docs/a.md": "one\nTWO\n"})
    assert "was changed since you read it; read it again" in refused(run, "edit", **edit)
    run.call("read", path="docs/a.md")
    run.call("edit", path="docs/a.md", old="TWO", new="two")
    run.call("edit", **edit)
    assert "one\n     2\t2" in run.call("read", path="docs/a.md")
    assert [record.content for record in run.log.records] == ["one\nTWO\n", "one\ntwo\n"]


def test_a_new_file_is_written_with_its_folders(run):
    """By `write`, or by `edit` with nothing to replace; an existing one must have been read."""
    assert "Created docs/new/deep/b.md (+1 -0 lines)" in run.call("write", path="docs/new/deep/b.md", content="b\n")
    run.call("edit", path="docs/c.md", old="", new="c\n")
    run.call("write", path="docs/c.md", content="d\n")
    assert [(record.before is None, record.folders) for record in run.log.records] == [(True, 2), (True, 0), (False, 0)]
    assert (run.root / "docs/c.md").read_text() == "d\n"
    assert "no such file" in refused(run, "edit", path="docs/none.md", old="a", new="b")
    assert "has this content already" in refused(run, "write", path="docs/c.md", content="d\n")


def test_several_edits_are_made_all_or_none(run):
    """If one of them fails, the file stays as it is; each one sees what those before it have changed."""
    run.call("read", path="docs/a.md")
    wrong = [{"old": "one", "new": "1"}, {"old": "three", "new": "3"}]
    assert "docs/a.md: edit 2 of 2: `old` is not in the file" in refused(run, "edit", path="docs/a.md", edits=wrong)
    assert "either" in refused(run, "edit", path="docs/a.md", old="a", new="b", edits=wrong)
    assert "are required" in refused(run, "edit", path="docs/a.md", old="a")
    run.call(
        "edit", path="docs/a.md", edits=[{"old": "one", "new": "oo"}, {"old": "o", "new": "0", "replace_all": True}]
    )
    assert (run.root / "docs/a.md").read_text() == "00\ntw0\n"


def test_mode_and_line_ends_stay(run, write, tmp_path):
    """The permissions, the byte order mark and CRLF of a file, also below a root that is a link."""
    write({"docs/w.txt": b"\xef\xbb\xbfone\r\ntwo\r\n"})
    (run.root / "docs/w.txt").chmod(0o750)
    (tmp_path / "link").symlink_to(run.root)
    through = EditingRun(tmp_path / "link", "docs/")
    through.call("read", path="docs/w.txt")
    through.call("edit", path="docs/w.txt", old="one\ntwo", new="1\n2\n3")
    assert (run.root / "docs/w.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert (run.root / "docs/w.txt").stat().st_mode & 0o777 == 0o750
    assert names_in(run.root / "docs") == ["a.md", "w.txt"]


def test_without_a_store_that_works_nothing_is_changed(run):
    """What could not be taken back is not done."""
    run.call("read", path="docs/a.md")
    run.log.works = False
    assert "the store of runs cannot be written" in refused(run, "edit", path="docs/a.md", old="two", new="2")
    assert (run.root / "docs/a.md").read_text() == "one\ntwo\n"


def test_long_diffs_are_shortened(run):
    """In the result and in the event; what is stored to undo them is whole."""
    run.call("write", path="docs/long.md", content="line of text\n" * 9_000)
    shown, (event,) = run.call("read", path="docs/long.md"), run.log.events
    shown = run.call("edit", path="docs/long.md", old="line", new="row", replace_all=True)
    assert RESULT_DIFF < len(shown) < RESULT_DIFF + 200
    assert shown.endswith("more lines of the diff are left out]")
    assert EVENT_DIFF - 50 < len(event.diff) < EVENT_DIFF + 200
    assert (event.added, len(run.log.records[1].content)) == (9_000, 117_000)


def test_a_dry_run_changes_nothing_and_git_applies_its_patch(run):
    """`read` shows the new content; the patch has each file once."""
    dry = EditingRun(run.root, "docs/", dry_run=True)
    dry.call("read", path="docs/a.md")
    assert "in the patch of this dry run only" in dry.call("edit", path="docs/a.md", old="two", new="2")
    dry.call("edit", path="docs/a.md", old="one", new="1")
    dry.call("write", path="docs/b c.md", content="new")
    dry.call("write", path="docs/b c.md", content="newer")
    assert dry.call("read", path="docs/a.md") == "     1\t1\n     2\t2\n[lines 1-2 of 2]"
    assert "newer" in dry.call("read", path="docs/b c.md")
    assert (dry.log.records, {event.dry_run for event in dry.log.events}) == ([], {True})
    assert names_in(run.root / "docs") == ["a.md"]
    assert (run.root / "docs/a.md").read_text() == "one\ntwo\n"
    apply_patch(run.root, dry.patch.text())
    assert [(run.root / "docs" / name).read_text() for name in ("a.md", "b c.md")] == ["1\n2\n", "newer"]


def test_a_search_after_a_change_finds_the_new_text(run):
    """Its index is built again; and no identical call is answered from the record."""
    assert "in no file: walrus" in run.call("search", query="walrus")
    run.call("write", path="docs/w.md", content="A walrus.\n")
    assert "docs/w.md:1: A walrus." in run.call("search", query="walrus")
    assert not any(tool.repeatable for tool in run.tools.values())


async def test_a_cancelled_change_is_made_or_not_but_never_half(run, monkeypatch):
    """Before it is recorded nothing happens; after that the file is replaced and reported, then the call ends."""
    await run.calling("read", path="docs/a.md")
    replace = safe_files.replace_file
    tasks = []

    def replacing(*given, **named):
        tasks[0].get_loop().call_soon_threadsafe(tasks[0].cancel)
        replace(*given, **named)

    monkeypatch.setattr(safe_files, "replace_file", replacing)
    tasks.append(asyncio.ensure_future(run.calling("edit", path="docs/a.md", old="two", new="2")))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert ((run.root / "docs/a.md").read_text(), len(run.log.events)) == ("one\n2\n", 1)
    tasks[0] = asyncio.ensure_future(run.calling("edit", path="docs/a.md", old="2", new="two"))
    run.log.before_storing = tasks[0].cancel
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert ((run.root / "docs/a.md").read_text(), len(run.log.events)) == ("one\n2\n", 1)


async def test_parallel_edits_of_one_file_are_made_in_turn(run):
    """None of them is lost."""
    await run.calling("read", path="docs/a.md")
    await asyncio.gather(
        run.calling("edit", path="docs/a.md", old="one", new="1"),
        run.calling("edit", path="docs/a.md", old="two", new="2"),
        run.calling("write", path="docs/b.md", content="b"),
    )
    assert (run.root / "docs/a.md").read_text() == "1\n2\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("one two", "two", "2", "one 2"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2", "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2\r\n3", "1\r\n2\r\n3\r\n"),
        ("a\nb\r\nc\n", "b\nc", "x\ny", None),
        ("a\nb\r\nc\r\n", "b\nc\n", "x\ny\n", "a\nx\r\ny\r\n"),
        ("a\nb\r\nc\n", "a\nb", "x\ny", "x\ny\r\nc\n"),
        ("\ufeffone", "one", "two", "\ufefftwo"),
        ("a\u2028b", "\u2028", "\n", "a\nb"),
    ],
)
def test_line_ends_and_marks_stay(text, old, new, result):
    """A passage is found whatever its line ends, unless the file has both kinds within it."""
    if result is None:
        result = "a\nx\r\ny\n"
        old, new = "b\r\nc", "x\r\ny"
    assert edited(text, [Replacement(old, new)]) == result


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        (Replacement("x", "y"), "is not in the file"),
        (Replacement("a", "b"), "occurs 2 times; add lines around it"),
        (Replacement("aa", "b"), "is not in the file"),
        (Replacement("b b", "c"), "occurs 2 times"),
        (Replacement("", "b"), "`old` is empty"),
        (Replacement("a", "a"), "are the same"),
        (Replacement("     1\ta\n", "b"), "omit the line numbers"),
        (Replacement("c", "[redacted]"), "stands for a secret"),
    ],
)
def test_what_cannot_be_replaced_says_why(replacement, reason):
    """Each refusal names the reason, and which of several edits it is; none of them is made."""
    with pytest.raises(ToolError, match=reason.replace("[", r"\[")):
        edited("a c a\nb b b", [replacement])
    with pytest.raises(ToolError, match="edit 2 of 2"):
        edited("a c a\nb b b", [Replacement("c", "d"), replacement])


def test_a_whole_file_keeps_its_mark_and_line_ends():
    """What a model writes in place of a file has its byte order mark and CRLF; a new file is as written."""
    assert rewritten("\ufeffa\r\nb\r\n", "c\nd\n") == "\ufeffc\r\nd\r\n"
    assert rewritten("a\n", "c\r\n") == "c\r\n"
    assert rewritten(None, "c\r\nd\n") == "c\r\nd\n"
    with pytest.raises(ToolError, match="stands for a secret"):
        rewritten("password = x\n", "password = [redacted]\n")
    assert rewritten("[redacted]", "see [redacted]") == "see [redacted]"


def test_what_others_have_touched_is_left_alone(root, write):
    """A file with another content, a deleted one, and one that became a link."""
    write({"a.md": "mine\n", "c.md": "c\n"})

    def undone():
        (one,) = undo(root, [_record("a.md", "zero\n", "one\n")], dry_run=False)
        return one.result, one.reason

    assert undone() == ("left", "changed since")
    assert (root / "a.md").read_text() == "mine\n"
    (root / "a.md").unlink()
    assert undone() == ("left", "deleted since")
    (root / "a.md").symlink_to("c.md")
    assert undone() == ("left", "changed since")


def test_changes_after_those_of_others_are_taken_back_alone(root, write):
    """Others have changed the file between two changes of the run: it gets what they have left."""
    write({"a.md": "three\n"})
    records = [_record("a.md", "zero\n", "one\n"), _record("a.md", "two\n", "three\n")]
    (one,) = undo(root, records, dry_run=False)
    assert (one.result, one.reason) == ("partly", "changed in between, so older changes stay")
    assert (root / "a.md").read_text() == "two\n"


@pytest.mark.parametrize(
    "path", ["../secret.txt", ".git/config", "specialists/a.md", "docs/.env", "/etc/passwd", "a/../b"]
)
def test_paths_of_a_store_are_not_believed(root, write, path):
    """Others may have written to a store: undo changes nothing that a run could not have changed."""
    write({".git/config": "b\n", "specialists/a.md": "b\n", "docs/.env": "b\n", "b": "b\n"})
    (root.parent / "secret.txt").write_text("b\n")
    (one,) = undo(root, [_record(path, "a\n", "b\n")], dry_run=False)
    assert one.result == "left"
    assert "a\n" not in {each.read_text() for each in root.parent.rglob("*") if each.is_file()}


def _record(path, before, after):
    digests = digest_of(before.encode()), digest_of(after.encode())
    return FileChanging(f"{before}{after}", path, *digests, before, temporary_name())


@pytest.mark.exhaustive
@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6), st.booleans())
def test_any_sequence_of_contents_leads_back_to_the_first(tmp_path_factory, contents, last_is_made):
    """Also if a content occurs again, and if the last change was not made."""
    root = tmp_path_factory.mktemp("root")
    steps = [one for one, before in zip(contents, [None, *contents], strict=False) if one != before]
    records = [_record("x.md", before, after) for before, after in pairwise(["start", *steps])]
    (root / "x.md").write_text(["start", *steps][-1 if last_is_made else -2])
    (one,) = undo(root, records, dry_run=False)
    assert (one.result in {"restored", "unchanged"}, (root / "x.md").read_text()) == (True, "start")


LINES = ["a", "b", "c", "", "\r", "@@ -1 +1 @@", "-x", "\\ y"]


def some_text(chance):
    """Return a text of some lines, with or without an end of the last one."""
    return "\n".join(chance.choices(LINES, k=chance.randrange(1, 14))) + "\n" * chance.randrange(2)


CASES = {
    "plain.md": ("one\ntwo\nthree\n", "one\n2\nthree\n"),
    "with blanks.md": ("".join(f"{n}\n" for n in range(40)), "".join(f"{n}\n" for n in range(40) if n not in {3, 30})),
    "crlf.txt": ("one\r\ntwo\r\n", "one\r\n2\r\n"),
    "no-end.txt": ("one\ntwo", "one\ntwo\n"),
    "lost-end.txt": ("one\ntwo\n", "one\ntwo"),
    'odd "name\\.md': ("a\n", "b\n"),
    "ümlaut.md": ("a\n", "ä\u2028b\n"),
    "emptied.md": ("a\n", ""),
    "folder/new.md": (None, "new\n"),
    "empty.md": (None, ""),
}


@pytest.mark.parametrize("most", [0, subject._MOST_COMPARED])
def test_git_applies_a_patch_of_many_files(tmp_path, monkeypatch, most):
    """Files with CRLF, without a last line end, with blanks and quotes in their names, new and empty ones, and others.

    Also where the lines are too many to be compared with each other.
    """
    monkeypatch.setattr(subject, "_MOST_COMPARED", most)
    chance = random.Random(1)  # noqa: S311 - no secret
    cases = CASES | {f"{number}.md": (some_text(chance), some_text(chance)) for number in range(60)}
    for name, (before, _) in cases.items():
        if before is not None:
            (tmp_path / name).write_bytes(before.encode())
    diffs = [diff_of(name, before, after) for name, (before, after) in cases.items()]
    apply_patch(tmp_path, "".join(diff.text for diff in diffs))
    assert {name: (tmp_path / name).read_bytes().decode() for name in cases} == {
        name: after for name, (_, after) in cases.items()
    }
    assert diff_of("x.md", "a", "a").text == ""


def test_long_texts_are_compared_quickly():
    """Twenty thousand lines of which each second one changed; and two that have nothing in common."""
    before = "".join(f"line {n}\n" for n in range(20_000))
    after = "".join(f"line {n}{'!' * (n % 2)}\n" for n in range(20_000))
    assert (diff_of("x", before, after).added, diff_of("x", before, "y\n" * 30_000).counts) == (10_000, "+30000 -20000")


TRIES = int(os.environ.get("EDIT_TRIES", "10"))
"""Tries against links that are swapped in."""

CLOSED = """
    .git/config .git/hooks/pre-commit sub/.git/x .GIT/config .git./config .g\u200cit/config GIT~1/config
    .git::$INDEX/x .gitignore sub/.gitignore .gitattributes .gitmodules .Gitignore .env .ENV sub/.env.local .env.
    id_rsa ID_RSA key.pem KEY.PEM .ssh/x .aws/credentials .npmrc x.evals.yaml specialists/a.md Specialists/a.md
    sub/specialists/a.md .claude/agents/a.md .claude/settings.json .CLAUDE/x .github/agents/a.agent.md
    .github/workflows/ci.yml .gemini/agents/a.md .opencode/agent/a.md .codex/config.toml .cursor/agents/a.md
    .agents/skills/x/SKILL.md skills/x/skill.md AGENTS.md sub/agents.md CLAUDE.md claude.local.md GEMINI.md
    pyproject.toml .mcp.json opencode.json .cursorrules .vscode/tasks.json .husky/pre-commit mise.toml .tool-versions
    docs/x.agent.md \uff0egit/config own/run-specialist/trusted/a.json
""".split()  # noqa: SIM905 - easier to read
ALLOWED = """
    a.md sub/deep/a.md git/config .gitkeep specialist/a.md specialists.md github/x .environment keys.md agents/a.md
    .env.example docs/pyproject.toml.md
""".split()  # noqa: SIM905 - easier to read


@pytest.fixture
def open_run(root):
    """Return a run that may change everything below its root but one folder."""
    return EditingRun(root, ".", closed=((root / "own").resolve(),))


def test_what_decides_about_agents_and_programs_is_closed(open_run):
    """Git, secrets, agent files and settings of any program, in any spelling, although all is writable."""
    for path in CLOSED:
        assert "may not be changed: " in refused(open_run, path=path, content="x"), path


def test_files_with_similar_names_are_open(open_run):
    """Only whole names count."""
    for path in ALLOWED:
        open_run.call("write", path=path, content="x")
        assert (open_run.root / path).read_text() == "x"


def test_paths_that_lead_out_or_are_none_are_refused(open_run):
    """`..`, absolute paths, NUL, line breaks, the root itself, and paths that are too long."""
    outside = ["../x.md", "/etc/x.md", "sub/../../x.md", "~/x.md/../../../x.md"]
    for path in (*outside, "a\0b", "a\nb", "", ".", "x" * 5_000):
        assert refused(open_run, path=path, content="x")


@pytest.mark.parametrize(
    ("writable", "allowed", "others"),
    [
        (("docs/",), "docs/a.md", ["a.md", "docs", "docs.md", "Docs/a.md", "other/docs/a.md"]),
        (("docs/a.md",), "docs/a.md", ["docs/b.md", "docs/a.md/x"]),
        (("src/**/*.py",), "src/x/y.py", ["src/x/y.md", "y.py"]),
        (("*.md",), "a.md", ["a.py"]),
        ((), None, ["a.md", "docs/a.md"]),
    ],
)
def test_only_writable_paths_are_changed(root, writable, allowed, others):
    """Folders, files and globs, as in `paths`; an empty list is nothing."""
    open_run = EditingRun(root, *writable)
    if allowed:
        open_run.call("write", path=allowed, content="x")
    for path in others:
        why = refused(open_run, path=path, content="x")
        assert "you may change" in why or "cannot be changed" in why


def test_a_writable_folder_that_leads_out_is_refused(root, tmp_path):
    """By a link that exists when the run begins."""
    (root / "docs").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"writable: 'docs/' is outside the root"):
        EditingRun(root, "docs/")


def test_links_are_followed_and_then_checked(open_run, write, tmp_path):
    """To a file outside, into `.git`, to a secret, and to one that may be changed, which stays a link."""
    write({"a.md": "a\n", ".git/config": "x", "docs/b.md": "b\n"})
    targets = {"out": "../secret.txt", "git": ".git", "ok.md": "a.md", "gone": "../new.txt"}
    for name, target in targets.items():
        (open_run.root / name).symlink_to(target)
    assert "outside the root" in refused(open_run, path="out", content="x")
    assert "outside the root" in refused(open_run, path="gone", content="x")
    assert "belongs to git" in refused(open_run, path="git/config", content="x")
    open_run.call("read", path="ok.md")
    assert "Changed a.md" in open_run.call("edit", path="ok.md", old="a", new="b")
    assert (open_run.root / "ok.md").is_symlink()
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_only_regular_files_are_changed(open_run):
    """Folders, FIFOs, sockets, devices and kernel files are neither read nor written, and nothing blocks."""
    (open_run.root / "folder").mkdir()
    os.mkfifo(open_run.root / "fifo")
    there = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(open_run.root)
    there.bind("socket")
    os.chdir(here)
    for path in ("folder", "fifo", "socket", "fifo/x"):
        assert "cannot be changed" in refused(open_run, path=path, content="x"), path
    there.close()
    for root, paths in {"/dev": ("null", "zero"), "/proc/self": ("comm", "environ", "new", "cwd/new")}.items():
        kernel = EditingRun(Path(root), ".")
        for path in paths:
            with pytest.raises(ToolError):
                kernel.call("write", path=path, content="x")


def test_hard_links_and_read_only_files_are_not_replaced(open_run, write, tmp_path):
    """The other name would keep the old content; and read-only means that."""
    write({"a.md": "a\n", "b.md": "b\n"})
    os.link(open_run.root / "a.md", tmp_path / "other-name.md")
    (open_run.root / "b.md").chmod(0o444)
    for path, reason in {"a.md": "hard link", "b.md": "read-only"}.items():
        open_run.call("read", path=path)
        with pytest.raises(ToolError, match=reason):
            open_run.call("edit", path=path, old=path[0], new="x")
        assert (open_run.root / path).read_text() == f"{path[0]}\n"
    assert names_in(open_run.root) == ["a.md", "b.md"]


def test_files_that_are_too_large_or_not_text_are_refused(open_run, write):
    """Before and after the change; files that are not UTF-8 text stay unchanged."""
    write({"big.md": "x" * (MOST + 1), "latin.md": "ä".encode("latin-1"), "nul.md": b"a\0b" * 40, "a.md": "a"})
    write({"wide.md": "text".encode("utf-16")})
    for path in ("big.md", "latin.md", "wide.md", "a.md"):
        open_run.call("read", path=path)
    assert "larger than 2,000,000 bytes" in refused(open_run, "edit", path="big.md", old="x", new="y")
    for path in ("latin.md", "wide.md"):
        assert "not UTF-8" in refused(open_run, "edit", path=path, old="x", new="y")
    assert "read it first" in refused(open_run, path="nul.md", content="x")
    assert "at most 2,000,000" in refused(open_run, path="a.md", content="x" * (MOST + 1))
    assert "at most 2,000,000" in refused(open_run, "edit", path="a.md", old="a", new="x" * (MOST + 1))
    assert "NUL" in refused(open_run, path="new.md", content="a\0")
    assert "surrogate" in refused(open_run, path="new.md", content="a\ud800b")


SWAPS = {
    "the file by another content": lambda root, away: (root / "docs/a.md").write_text("mine\n"),
    "the file by a link": lambda root, away: ((root / "docs/a.md").unlink(), (root / "docs/a.md").symlink_to(away)),
    "the file by a folder": lambda root, away: ((root / "docs/a.md").unlink(), (root / "docs/a.md").mkdir()),
    "no file": lambda root, away: (root / "docs/a.md").unlink(),
    "the folder by a link": lambda root, away: (
        (root / "docs").rename(root / "moved"),
        (root / "docs").symlink_to(away.parent),
    ),
    "the folder by another one": lambda root, away: ((root / "docs").rename(root / "moved"), (root / "docs").mkdir()),
    "no folder": lambda root, away: (root / "docs").rename(root / "moved"),
}


@pytest.mark.parametrize("moment", ["recorded", "written"])
@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_before_the_replacement_is_noticed(root, write, tmp_path, monkeypatch, swap, moment):
    """After the change is recorded, and after the new content is on the disk: nothing is replaced, no rest is left."""
    away = tmp_path / "away" / "a.md"
    away.parent.mkdir()
    away.write_text("two\n")
    write({"docs/a.md": "two\n"})
    open_run, swapped_once = EditingRun(root, "docs/"), []
    open_run.call("read", path="docs/a.md")

    def swap_now():
        if not swapped_once:
            swapped_once.append(SWAPS[swap](root, away))

    if moment == "recorded":
        open_run.log.before_storing = swap_now
    else:
        original = safe_files._write_new
        monkeypatch.setattr(safe_files, "_write_new", lambda *given: (original(*given), swap_now()))
    with pytest.raises(ToolError, match="was not changed: "):
        open_run.call("edit", path="docs/a.md", old="two", new="2")
    assert (swapped_once != [], away.read_text(), open_run.log.events) == (True, "two\n", [])
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]
    assert "2\n" not in {path.read_text() for path in tmp_path.rglob("*.md") if path.is_file()}


def test_a_new_file_does_not_replace_one_that_appears(root, write, monkeypatch):
    """It is created only if there is none, also where the file system has no hard links."""
    write({"docs/x": ""})
    open_run = EditingRun(root, "docs/")
    open_run.log.before_storing = lambda: (root / "docs/a.md").write_text("mine\n")
    with pytest.raises(ToolError, match="was created in the meantime"):
        open_run.call("write", path="docs/a.md", content="theirs\n")
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(PermissionError))
    (root / "docs/a.md").unlink()
    with pytest.raises(ToolError, match="was created in the meantime"):
        open_run.call("write", path="docs/a.md", content="theirs\n")
    assert (root / "docs/a.md").read_text() == "mine\n"
    open_run.log.before_storing = lambda: None
    open_run.call("write", path="docs/b.md", content="b\n")
    assert names_in(root / "docs") == ["a.md", "b.md", "x"]


@pytest.mark.skipif(not can_swap(), reason="only Linux exchanges two names in one step")
def test_links_that_are_swapped_all_the_time_lead_no_change_out(root, write, tmp_path):
    """While another process exchanges a folder and a file with links to outside, nothing outside changes."""
    write({"folder/x.md": "word\n", "file.md": "word\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("word\n")
    (tmp_path / "one").symlink_to(outside)
    (tmp_path / "two").symlink_to(outside / "x.md")
    open_run, changed = EditingRun(root, "."), 0
    with swapped((root / "folder", tmp_path / "one"), (root / "file.md", tmp_path / "two")):
        for number in range(TRIES):
            for path in ("folder/x.md", "file.md", f"folder/new{number}.md"):
                with suppress(ToolError):
                    open_run.call("read", path=path)
                with suppress(ToolError):
                    open_run.call("write", path=path, content=f"word {number}\n")
                    changed += 1
    assert names_in(outside) == ["x.md"]
    assert (outside / "x.md").read_text() == "word\n"
    assert not [*tmp_path.rglob("*.tmp")]
