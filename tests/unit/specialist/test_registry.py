"""Where specialists are searched for, in which order, and whose settings hold."""

import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from run_specialist.errors import SpecialistNotFound, UsageError
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.loader import SpecialistFile, load_text
from run_specialist.specialist.project import packaged, places, project_root
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import Origin, resolve

IN_PROJECT = (
    *("specialists", ".claude/agents", ".github/agents", ".gemini/agents", ".opencode/agents", ".opencode/agent"),
    *(".codex/agents", ".cursor/agents"),
)


def write(path: Path, name: str | None = None, description: str = "d") -> Path:
    """Write a specialist's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"name: {name}\n" if name else ""
    path.write_text(f"---\n{head}description: {description}\n---\nBody\n", "utf-8")
    return path


def paths(*arguments: Path) -> tuple[Path, ...]:
    """Return the paths of the places that are searched for specialists."""
    return tuple(place.path for place in places(*arguments))


def test_the_project_root_is_the_nearest_folder_with_git(tmp_path: Path) -> None:
    """The nearest folder with a `.git` folder or file is the root; without one it is the current folder."""
    deep = tmp_path / "project" / "a" / "b"
    deep.mkdir(parents=True)
    assert project_root(deep) == deep
    (tmp_path / "project" / ".git").write_text("gitdir: elsewhere")
    assert project_root(deep) == tmp_path / "project"


def test_folders_are_searched_from_near_to_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The given folder is searched first, then the project's, the user's and the packaged ones."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "given").mkdir()
    assert paths(tmp_path / "project", tmp_path / "given") == (
        tmp_path / "given",
        *(tmp_path / "project" / folder for folder in IN_PROJECT),
        tmp_path / "config" / "run-specialist" / "specialists",
        tmp_path / "home" / ".claude" / "agents",
        tmp_path / "home" / ".copilot" / "agents",
        tmp_path / "home" / ".gemini" / "agents",
        tmp_path / "config" / "opencode" / "agents",
        tmp_path / "config" / "opencode" / "agent",
        tmp_path / "home" / ".codex" / "agents",
        tmp_path / "home" / ".cursor" / "agents",
        packaged(),
    )
    assert packaged().name == "specialists"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert tmp_path / "home" / ".config" / "run-specialist" / "specialists" in paths(tmp_path)


def test_a_relative_home_or_config_path_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative HOME or config path is ignored, because a project's files would then pass as the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for config in ("config", ".", "~nobody-of-this-name/config"):
        monkeypatch.setenv("XDG_CONFIG_HOME", config)
        assert paths(tmp_path)[len(IN_PROJECT)] == tmp_path / "home" / ".config" / "run-specialist" / "specialists"
    monkeypatch.setenv("HOME", "home")
    assert paths(tmp_path)[len(IN_PROJECT) :] == (packaged(),)


def test_rule_9_the_nearer_file_wins_and_the_other_is_reported(tmp_path: Path) -> None:
    """Rule 9: of two files with one name the nearer one is used; the other reports which file hides it."""
    near, far = write(tmp_path / "near" / "a.md", "x"), write(tmp_path / "far" / "b.md", "x")
    registry = Registry([tmp_path / "near", tmp_path / "far"])
    first, second = registry.files()
    assert (first.path, second.path, first.status, second.status) == (near, far, "ok", "warning")
    assert str(second.problems[-1]) == f"{far}:2:1: name: hidden by a nearer file with the same name, {near}"
    assert registry.find("x").path == near


def test_find_by_name_stem_case_and_path(tmp_path: Path) -> None:
    """A specialist is found by name, then by file stem, then case-insensitively, then by path."""
    a, b = write(tmp_path / "a.agent.md", "Note Finder"), write(tmp_path / "sub" / "b.md", "a")
    registry = Registry([tmp_path])
    assert registry.find("a").path == b
    assert registry.find("b").path == b
    assert registry.find("Note Finder").path == a
    assert registry.find("note finder").path == a
    assert registry.find(str(b)).path == b


def test_an_unknown_name_lists_similar_names_and_folders(tmp_path: Path) -> None:
    """An unknown name gives a one-line error with similar names and the folders searched."""
    write(tmp_path / "codebase-locator.md")
    with pytest.raises(SpecialistNotFound) as caught:
        Registry([tmp_path, tmp_path / "nowhere"]).find("codebase-locater")
    assert str(caught.value) == (
        f"no specialist named codebase-locater; did you mean codebase-locator? (searched: {tmp_path})"
    )
    with pytest.raises(SpecialistNotFound, match="available: codebase-locator"):
        Registry([tmp_path]).find("xyz\n\x1b[31m")
    with pytest.raises(SpecialistNotFound, match="no existing folder"):
        Registry([tmp_path / "nowhere"]).find("gone")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_rule_8_forbidden_files_and_folders_are_reported(tmp_path: Path) -> None:
    """Rule 8: an unreadable file and an unreadable folder are still listed."""
    write(tmp_path / "a.md").chmod(0)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub").chmod(0)
    try:
        files = Registry([tmp_path]).files()
    finally:
        (tmp_path / "sub").chmod(0o700)
    assert [(file.name, file.status) for file in files] == [("a", "error"), ("sub", "error")]


LIMITS = ("tool_calls_limit", "turns_limit", "total_tokens_limit", "cost_limit", "time_limit", "tool_chars_limit")


def file_of(*lines: str) -> SpecialistFile:
    """Load a file with these lines of front matter, which begin on line 4."""
    front = "\n".join(["---", "name: finder", "description: Finds", *lines, "---", "You find notes.", ""])
    return load_text(front, Path("specialists/finder.md"))


def settings(*lines: str, **overrides: Any) -> Specialist:
    """Return the settings of a run."""
    return resolve(file_of(*lines), overrides).settings


def origin(key: str, *lines: str, **overrides: Any) -> str:
    """Return the text that names the origin of a value."""
    return str(resolve(file_of(*lines), overrides).origin(key))


# For each key: the values from the call, a preset, the file and the default; all different.
FOUR_WORDS = [
    ("landing", "order", "finalize", "finalize", "force", "auto"),
    ("parallel_tools_limit", 7, "finalize", 1, 3, 4),
    ("summarize_at", 5, "finalize", 150_000, 9, None),
    ("tool_chars_limit", 5, "soft-warning", 100_000, 9, None),
]


@pytest.mark.parametrize(("key", "by_call", "preset", "by_preset", "by_file", "default"), FOUR_WORDS)
def test_s3_4_precedence_of_every_combination(key, by_call, preset, by_preset, by_file, default):
    """In every combination, the first of call, call's preset, file and file's preset that sets the key wins."""
    for said in product([False, True], repeat=4):
        call, call_preset, file_key, file_preset = said
        lines = [f"{key}: {by_file}"] * file_key + [f"preset: {preset}"] * file_preset
        overrides = {key: by_call} if call else {}
        overrides |= {"preset": preset} if call_preset else {}
        order = [(by_call, "flag"), (by_preset, f"--preset {preset}"), (by_file, "line 4")]
        order += [(by_preset, f"preset {preset}"), (default, "default")]
        expected = order[[*said, True].index(True)]
        resolved = resolve(file_of(*lines), overrides)
        assert (getattr(resolved.settings, key), str(resolved.origin(key))) == expected
        assert (key in resolved.settings.model_fields_set) is any(said)


def test_s3_4_a_preset_of_the_call_replaces_that_of_the_file():
    """The call's preset replaces the file's preset completely; the two are not mixed."""
    resolved = resolve(file_of("preset: finalize", "summary_limit: 9"), {"preset": "soft-landing"})
    found = resolved.settings
    assert (found.preset, found.landing, found.summarize_at, found.parallel_tools_limit) == (
        "soft-landing",
        "auto",
        None,
        4,
    )
    assert (found.summary_limit, str(resolved.origin("summarize_at"))) == (9, "default")


@pytest.mark.parametrize("key", LIMITS)
def test_s3_4_none_takes_any_limit_away(key):
    """None in Python or `none` in a file or flag removes any limit, including one set by the file's preset."""
    lines = [f"{key}: 5", "preset: soft-warning"]
    assert getattr(settings(*lines), key) == 5
    assert getattr(settings(*lines, **{key: None}), key) is None
    assert getattr(settings(*lines, **{key: "none"}), key) is None
    assert getattr(settings(f"{key}: none", "preset: soft-warning"), key) is None


def test_s3_4_an_explicit_default_value_counts_as_given():
    """An explicit 30 is distinguished from the default 30, and a run does not change the file's values."""
    thirty = {"tool_calls_limit": 30}
    for lines, overrides, given in (((), {}, False), (("tool_calls_limit: 30",), {}, True), ((), thirty, True)):
        found = settings(*lines, **overrides)
        assert found.tool_calls_limit == 30
        assert ("tool_calls_limit" in found.model_fields_set) is given
    file = file_of("tool_calls_limit: 9", "preset: finalize")
    resolve(file, {"tool_calls_limit": 1, "preset": "openai-loop", "countdown": {"from": 1}})
    assert (file.specialist.tool_calls_limit, file.specialist.preset, file.specialist.landing) == (
        9,
        "finalize",
        "auto",
    )


REMAINING, BUDGET, JSON = "remaining", "budget", "json"


@pytest.mark.parametrize(
    ("lines", "overrides", "countdown"),
    [
        ([], {}, (0.5, REMAINING, None)),
        (["countdown: none"], {}, (None, REMAINING, None)),
        (["preset: soft-warning", "countdown: {from: 3}"], {}, (3, REMAINING, 1)),
        (["preset: openai-loop", "countdown: {from: 0.5}"], {}, (0.5, JSON, None)),
        (["countdown: {from: 3, warn_at: 1}"], {"countdown": Countdown(style=JSON)}, (3, JSON, 1)),
        (["countdown: {from: 3, warn_at: 2}"], {"preset": "finalize"}, (None, REMAINING, None)),
        (["countdown: {style: budget}"], {"preset": "soft-warning"}, (None, BUDGET, 1)),
    ],
    ids=str,
)
def test_s3_4_a_countdown_map_replaces_only_its_own_keys(lines, overrides, countdown):
    """A countdown map replaces only the keys it contains; `none` means no countdown and no warning."""
    found = settings(*lines, **overrides).countdown
    assert (found.from_, found.style, found.warn_at) == countdown


def test_s3_4_each_countdown_key_has_its_own_origin():
    """Each countdown key has its own origin: the file with its line, the preset, or the default."""
    resolved = resolve(file_of("preset: soft-warning", "countdown:", "  from: 3"), {})
    origins = [resolved.origin(f"countdown.{key}") for key in ("from", "warn_at", "style")]
    assert origins == [Origin("file", 5), Origin("preset", 4, "soft-warning"), Origin("default")]
    assert origin("preset", "preset: soft-warning") == "line 4"
    assert origin("preset", preset="finalize") == "--preset finalize"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"tool_call_limit": 2}, "unknown setting: tool_call_limit; did you mean tool_calls_limit?"),
        ({"tool_calls_limit": -1}, "tool_calls_limit: must be an integer of at least 0, or none, got -1"),
        ({"agents": "finder"}, "agents: must be a list of names, got 'finder'"),
        ({"landing": "softly"}, "landing: must be auto, force, order, schema, none, finalize or stop, got 'softly'"),
        (
            {"countdown": {"from": 1.5}},
            "countdown.from: must be a share from 0.0 to 1.0, an integer number of calls left, or none, got 1.5",
        ),
        ({"parallel_tools_limit": None}, "parallel_tools_limit: must be an integer of at least 1, got None"),
    ],
    ids=str,
)
def test_s3_4_an_invalid_explicit_setting_is_refused(overrides, said):
    """An unknown or invalid setting is refused with one line that gives the expected value."""
    with pytest.raises(UsageError) as caught:
        resolve(file_of(), overrides)
    assert str(caught.value) == said
