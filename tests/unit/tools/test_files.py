"""Output of `read`, `ls`, `glob` and `get_tool_response`, notes that report cut results, and names that are closed."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from run_specialist.errors import ToolError
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Output
from run_specialist.tools.files import file_tools, shown_lines, word_counts
from run_specialist.tools.ignore import compile_globs
from run_specialist.tools.secret_files import (
    PROTECTED_NAMES,
    holds_cases,
    is_protected_from_commands,
    is_secret,
    reason_to_protect,
)


def test_the_five_tools_are_repeatable_and_described(root):
    """The five tools have a description for every argument and may answer identical calls from the record."""
    tools = file_tools(root)
    assert sorted(tool.name for tool in tools) == ["glob", "grep", "ls", "read", "search"]
    for tool in tools:
        assert tool.repeatable
        assert all("description" in item for item in tool.input_schema["properties"].values())


def test_read_numbers_lines_and_gives_the_next_offset(call, write):
    """`read` numbers each line; the note gives the lines shown, the line count and the next offset."""
    write({"a.md": "".join(f"line {number}\n" for number in range(1, 913))})
    result = call("read", path="a.md").split("\n")
    assert result[0] == "     1\tline 1"
    assert result[199] == "   200\tline 200"
    assert result[200:] == ["[lines 1-200 of 912; read on with offset=201]"]
    assert call("read", path="a.md", offset=911, limit=5).split("\n") == [
        "   911\tline 911",
        "   912\tline 912",
        "[lines 911-912 of 912]",
    ]


def test_what_the_tools_print_is_read_back(call, write):
    """Lines with their path and number, counts of words and absent words are read as the tools have printed them."""
    write({"part-3- b.md": "In 2024 owls came.\nThey stayed.\n"})
    found = call("search", query="owls 2024 zebra")
    assert [*shown_lines(found)] == [
        ("part-3- b.md", 1, "In 2024 owls came."),
        ("part-3- b.md", 2, "They stayed."),
    ]
    assert word_counts(found) == ({"owls": 1, "2024": 1}, "zebra")
    assert [*shown_lines(call("read", path="part-3- b.md", offset=2), "b")] == [("b", 2, "They stayed.")]
    write({"c.md": "Owls\nand mice\n"})
    around = call("grep", pattern="mice", context=1)
    assert [line for _, line, _ in shown_lines(around)] == [2]
    assert [line for _, line, _ in shown_lines(around, around=True)] == [1, 2]


def test_read_past_the_end_is_an_error_and_an_empty_file_is_reported(call, write):
    """An offset past the end is an error that reports the line count; an empty file is reported as empty."""
    write({"a.md": "one\ntwo\n", "empty.md": ""})
    with pytest.raises(ToolError, match="ends before line 9; it has 2 lines"):
        call("read", path="a.md", offset=9)
    assert call("read", path="empty.md") == "[the file is empty]"


def test_read_suggests_similar_paths(call, write):
    """The error for a path that does not exist suggests similar paths."""
    write({"docs/release-plan.md": "x", "notes.md": "x"})
    with pytest.raises(ToolError, match=r"did you mean docs/release-plan\.md\?"):
        call("read", path="release-plan.md")
    with pytest.raises(ToolError, match=r"did you mean notes\.md\?"):
        call("read", path="note.md")
    with pytest.raises(ToolError, match=r"does not exist$"):
        call("read", path="zzzzzz")


def test_read_refuses_folders_and_binary_files(call, write):
    """Reading a folder is an error that suggests `ls`; reading a binary file is an error."""
    write({"docs/a.md": "x", "image.png": b"\x89PNG\0\0\0"})
    with pytest.raises(ToolError, match="is a folder; use ls"):
        call("read", path="docs")
    with pytest.raises(ToolError, match="is a binary file"):
        call("read", path="image.png")
    assert "image.png  7 B  binary" in call("ls")


def test_a_very_long_line_is_clipped_unless_read_alone(call, write):
    """A long line among others is clipped at 2,000 characters and marked; read alone, it fills the result."""
    write({"a.md": "short\n" + "y" * 1_000_000 + "\nend\n"})
    result = call("read", path="a.md").split("\n")
    assert result[1] == "     2\t" + "y" * 2_000 + " … [clipped: 1000000 characters; read it alone with limit=1]"
    assert result[2] == "     3\tend"
    alone = call("read", path="a.md", offset=2, limit=1)
    assert 19_000 < len(alone) <= 20_000


@pytest.mark.parametrize(("result_limit", "most"), [(20_000, 2_000), (4_000, 1_000), (2_000, 500), (800, 500)])
def test_a_clipped_line_takes_at_most_a_quarter_of_a_short_result(call, write, result_limit, most):
    """Where results are short, a line is clipped earlier, though never below 500 characters, and it says so."""
    write({"a.md": "y" * 3_000 + "\nend\n"})
    first, *others = call("read", path="a.md", result_limit=result_limit).split("\n")
    assert first == "     1\t" + "y" * most + " … [clipped: 3000 characters; read it alone with limit=1]"
    assert others == ["     2\tend", "[lines 1-2 of 2]"]


def test_a_huge_file_is_not_read_to_its_end(call, root):
    """The first lines of a huge file are returned without counting all its lines."""
    with (root / "huge.log").open("wb") as file:
        file.write(b"first\n" * 2000)
        file.truncate(500_000_000)
    assert call("read", path="huge.log", limit=2).endswith("[lines 1-2 of many; read on with offset=3]")
    assert "476.8 MB  many lines" in call("ls")
    assert "[large files not searched: 1, such as huge.log; use grep]" in call("search", query="first")


def test_line_ends_and_encodings_are_decoded(call, write):
    """CRLF is removed, UTF-16 with a byte order mark is decoded, and bytes that are not UTF-8 are replaced."""
    write({"a.txt": "one\r\ntwo\r\n", "b.txt": "sechzehn ü\n".encode("utf-16"), "c.txt": b"caf\xe9\n"})
    assert call("read", path="a.txt") == "     1\tone\n     2\ttwo\n[lines 1-2 of 2]"
    assert "sechzehn ü" in call("read", path="b.txt")
    assert "caf\ufffd" in call("read", path="c.txt")


def test_ls_puts_folders_first_and_counts(call, write):
    """`ls` lists folders first with their number of entries, then files with size and line count."""
    write({"a.md": "x\n" * 3, "z/one.md": "", "z/two.md": "", "big.txt": "x" * 2048})
    assert call("ls").split("\n") == ["z/  2 entries", "a.md  6 B  3 lines", "big.txt  2.0 KB  1 line"]
    assert call("ls", path="z") == "one.md  0 B  0 lines\ntwo.md  0 B  0 lines"
    with pytest.raises(ToolError, match="is no folder; use read"):
        call("ls", path="a.md")


def test_ls_reports_cut_and_empty_listings(call, write, root):
    """A cut listing reports the number of entries; an empty folder is reported as empty."""
    (root / "empty").mkdir()
    assert call("ls", path="empty") == "[the folder is empty, or all in it is hidden]"
    write({f"{number:03}.md": "" for number in range(300)})
    assert call("ls", result_limit=1000).endswith("of 301 entries; use glob to see others]")


def test_glob_matches_across_folders(call, write):
    """`**` spans folders, a bare name matches at any depth, and braces give alternatives; the result is sorted."""
    write(dict.fromkeys(["b/c/x.md", "b/y.md", "a.md", "b/z.txt", "#odd.md"], ""))
    assert call("glob", pattern="*.md").split("\n") == ["#odd.md", "a.md", "b/c/x.md", "b/y.md"]
    assert call("glob", pattern="b/**/*.md").split("\n") == ["b/c/x.md", "b/y.md"]
    assert call("glob", pattern="b/*.{md,txt}").split("\n") == ["b/y.md", "b/z.txt"]
    assert call("glob", pattern="#odd.md") == "#odd.md"
    assert call("glob", pattern="b") == "b/c/x.md\nb/y.md\nb/z.txt"


def test_glob_reports_its_limit_and_refuses_invalid_patterns(call, write):
    """A cut list has a note, `..` and patterns with too many wildcards are refused, and no match is not an error."""
    write({f"{number}.md": "" for number in range(9)})
    assert call("glob", pattern="*", limit=2) == "0.md\n1.md\n[the first 2; narrow the pattern to see others]"
    assert call("glob", pattern="*.rs").startswith("[no file matches")
    with pytest.raises(ToolError, match=r"outside the root|leads out"):
        call("glob", pattern="../*")
    for pattern in ("*a" * 20, "{a,b}" * 60):
        with pytest.raises(ToolError, match="too many wildcards"):
            call("glob", pattern=pattern)


@pytest.mark.exhaustive
@pytest.mark.parametrize("result_limit", [1, 50, 200, 1000])
def test_every_result_stays_below_its_limit(call, write, result_limit):
    """No tool exceeds the result limit, however small it is."""
    write({f"folder/note {number}.md": f"needle {'word ' * 300}\n" * 20 for number in range(30)})
    for name, arguments in [
        ("search", {"query": "needle nowhere"}),
        ("grep", {"pattern": "needle", "context": 2}),
        ("glob", {"pattern": "**"}),
        ("read", {"path": "folder/note 1.md"}),
        ("ls", {"path": "folder"}),
    ]:
        assert len(call(name, result_limit=result_limit, **arguments)) <= result_limit


@pytest.mark.parametrize("number", [-(2**63), -1, 0, 2**31, 2**63 + 1, 10**40])
def test_any_number_gives_a_result_or_a_one_line_error(call, write, number):
    """Any number gives a result or a one-line ToolError, never a Python exception such as ValueError."""
    write({"a.md": "owls eat mice\ntoads sleep\n"})
    takes = [
        *(("search", {"query": "owls"}, "limit"), ("glob", {"pattern": "*"}, "limit")),
        *(("grep", {"pattern": "owls"}, name) for name in ("context", "limit")),
        *(("read", {"path": "a.md"}, name) for name in ("offset", "limit")),
    ]
    for tool, arguments, name in takes:
        try:
            text, errors = call(tool, **arguments, **{name: number}), 0
        except ToolError as error:
            text, errors = str(error), 1
        assert text
        assert not errors or len(text.splitlines()) == 1
        assert "ValueError" not in text
        assert errors or 0 <= number <= 2**31


PIECES = st.sampled_from(["*", "*", "**", "/", "/**/", "a", "b", "?", "[ab]", "\\*", ".", " x"])
PATTERNS = st.lists(PIECES, min_size=1, max_size=9).map("".join)
PATHS = st.lists(st.text("aab.*x ", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join)


@given(PATTERNS, st.lists(PATHS, max_size=4), st.sampled_from(["", "/"]))
@example("****//?**", ["b/.*a*"], "")
@example("*/**/", ["a/a"], "")
@example("**/a*/**/*b", ["xa/a/b/ab", "a/b/b", "ba/b"], "")
def test_a_glob_selects_the_same_paths_as_in_pathspec(pattern, paths, end):
    """A glob selects the same paths as pathspec does, whose expressions may backtrack."""
    with suppress(ValueError):
        (reference,) = GitIgnoreSpec.from_lines([pattern]).patterns
        for path in paths if reference.regex else ():
            found = reference.regex.search(path + end)
            assert bool(compile_globs([pattern]).fullmatch(f"/{path}{end}")) == bool(found), path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "*b", "a" * 248 + "bc"),
        ("**/a" * 40 + "/b", "a/" * 1_000 + "bc"),
        ("**/*a*" * 30 + "/x", "aa/" * 1_300 + "xy"),
        ("[a-z]*" * 50 + "!", "a" * 250),
        ("**/*a*a*a*/**/*a*a/**/b*a*b", "aaaaaa/" * 500 + "b"),
    ],
)
def test_no_pattern_backtracks_exponentially(pattern, path):
    """Patterns that backtrack exponentially in pathspec finish; `re` would block all threads meanwhile."""
    assert not compile_globs([pattern]).fullmatch(f"/{path}")


def test_character_classes_match_as_in_git(call, write):
    """`[!a]` matches no `/`, `[[:alpha:]]` causes no warning, and `[]*`, a class that has no end, hides nothing."""
    write({".gitignore": "x[!a]y\n[[:alpha:]]z\n[]*\n[!]*\n", "x/y": "needle", "xby": "needle"})
    assert call("grep", pattern="needle") == "x/y:1: needle"


def filled(**texts: str) -> Archive:
    """Return an archive with outputs by id."""
    archive = Archive()
    for execution_id, text in texts.items():
        archive.add(execution_id, text)
    return archive


async def read(archive: Archive, execution_id: str, slice_limit: int = 4, **arguments) -> Output:
    """Call `get_tool_response` as the loop does."""
    tool = get_tool_response_tool(archive, slice_limit)
    return await tool.call({"execution_id": execution_id, **arguments})


async def test_s2_8_a_slice_is_exact_and_names_the_next_offset():
    """The note is separate from the slice and gives the next offset; with the last slice, it reports the end."""
    archive = filled(call_1="abcdefghij", whole="abcd", empty="")
    assert await read(archive, "call_1") == Output("abcd", "[characters 0-4 of 10; go on with offset=4]")
    assert await read(archive, "call_1", offset=8) == Output("ij", "[characters 8-10 of 10; this is the end]")
    assert await read(archive, "whole") == Output("abcd", "[characters 0-4 of 4; this is the end]")
    assert await read(archive, "empty") == Output("", "[characters 0-0 of 0; this is the end]")


@given(text=st.text(), slice_limit=st.integers(1, 9))
async def test_s2_8_following_the_notes_gives_the_original(text, slice_limit):
    """For any output, the slices joined give the original, and no slice exceeds the limit."""
    archive, read_so_far, offset = filled(a=text), "", 0
    while offset is not None:
        output = await read(archive, "a", slice_limit, offset=offset)
        assert len(output.text) <= slice_limit
        read_so_far += output.text
        onwards = re.search(r"offset=(\d+)\]$", output.note)
        offset = int(onwards[1]) if onwards else None
    assert read_so_far == text


async def test_s2_8_an_unknown_id_is_an_error_that_lists_ids():
    """The error for an unknown ID lists similar IDs, or else the newest, and counts the others."""
    archive = filled(**{f"call_{number}": "x" for number in range(12)}, zebra="x")
    with pytest.raises(ToolError, match=r"no output of the id 'zebr'; there are zebra and 12 more$"):
        await read(archive, "zebr")
    with pytest.raises(ToolError, match=r"'\?'; there are call_8, call_9, call_10, call_11, zebra and 8 more$"):
        await read(archive, "?")
    with pytest.raises(ToolError, match=r"there is only$"):
        await read(filled(only="x"), "other")
    with pytest.raises(ToolError, match="no tool has returned anything yet"):
        await read(Archive(), "call_1")


@pytest.mark.parametrize(
    ("text", "offset", "why"),
    [
        ("abc", 3, "offset 3 is beyond the end of a, which has 3 characters"),
        ("abc", 99, "beyond the end"),
        ("", 1, "which has 0 characters"),
        ("abc", -1, "offset: .*greater than or equal to 0"),
    ],
)
async def test_s2_8_an_offset_outside_of_the_output_is_an_error(text, offset, why):
    """An offset outside the output is an error; past the end, the error reports the output's length."""
    with pytest.raises(ToolError, match=why):
        await read(filled(a=text), "a", offset=offset)


async def test_two_outputs_with_one_id_are_both_stored():
    """Two outputs with the same ID are both stored, one after the other; `add` returns the start of each."""
    archive = Archive()
    starts = [archive.add("same", "first"), archive.add("same", "second")]
    assert starts[0] == 0
    whole = (await read(archive, "same", 1_000)).text
    assert whole.startswith("first\n[")
    assert whole[starts[1] :] == "second"
    assert ([*archive], filled(a="text").add("a", "text")) == (["same"], 0)


PROTECTED = """
    .git git~1 .gitmodules .githooks .husky .hg .claude .github .gemini .opencode .codex .cursor .copilot .agents
    .run-specialist .kiro .roo .qwen .windsurf .windsurfrules .clinerules .cursorrules .mcp.json opencode.json
    opencode.jsonc AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md SKILL.md specialists
    pyproject.toml .vscode .idea .zed .devcontainer .devcontainer.json x.code-workspace x.agent.md x.chatmode.md .envrc
    .mise.toml .mise.local.toml mise.toml mise.local.toml .config/mise .config/mise.toml .tool-versions
""".split()  # noqa: SIM905 - easier to read
CREATED_BY_COMMANDS = [".gitignore", ".gitattributes"]
HIDDEN_FROM_COMMANDS = [".env", ".ssh", "key.pem", ".npmrc"]
OPEN = ["a.md", "agents", "specialist", "git", ".gitkeep", "opencode.yaml", "mise", "envrc", ".config", "zed", "hgrc"]


def refusals(name):
    """Return whether the file tools, commands, and the sandbox of macOS refuse to change a file or folder."""
    path = f"out/{name}"
    by_macos = re.search(f"/{PROTECTED_NAMES}(/|$)", f"/root/{path}")
    return bool(reason_to_protect(path)), is_protected_from_commands(path), by_macos is not None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (PROTECTED, (True, True, True)),
        (CREATED_BY_COMMANDS, (True, False, False)),
        (HIDDEN_FROM_COMMANDS, (True, False, False)),
        (OPEN, (False, False, False)),
    ],
)
def test_each_tool_refuses_its_names(names, expected):
    """All tools refuse the important names, and commands may create the rules of what git ignores."""
    assert {name: refusals(name) for name in names} == dict.fromkeys(names, expected)


def test_case_and_hidden_folders_do_not_matter_to_commands():
    """Some file systems ignore case; a hidden folder may hold what agents obey."""
    for name in PROTECTED:
        assert is_protected_from_commands(name.upper())
        assert is_protected_from_commands(name.lower())
    assert is_protected_from_commands(".ssh/AGENTS.md")


SECRETS = [
    *(".env", ".env.local", ".env.production", ".env-prod", "prod.env", ".envrc", "deploy/.env", ".ENV"),
    *(".Env.Local", ".ssh/config", ".ssh/known_hosts", "home/.ssh/keys/work", ".aws/credentials", ".gnupg/x"),
    *(".azure/x.json", "id_rsa", "id_ed25519", "ID_RSA", "keys/id_ecdsa", "ssh_host_rsa_key", "a.ppk", "server.pem"),
    *("SERVER.PEM", "tls/server.key", "x.p12", "x.pfx", "x.jks", "x.keystore", "passwords.kdbx", ".npmrc", ".pypirc"),
    *(".netrc", "_netrc", ".git-credentials", ".pgpass", ".my.cnf", ".htpasswd", ".vault-token", ".kube/config"),
    *(".docker/config.json", ".config/gcloud/x.db", ".config/gh/hosts.yml", ".cargo/credentials.toml"),
    *("terraform.tfstate", "terraform.tfstate.backup", "terraform.tfvars", "prod.auto.tfvars", "credentials.json"),
    *("service-account.json", "service_account-prod.json", "client_secret_1.json", "secrets.yml"),
    *("chart/secrets.yaml", "secrets.toml", ".bash_history", ".env.", ".env ", ".env::$DATA", "id_rsa::$data"),
    *(".env~", "#.env#", ".#.env", ".env.swp", ".env.bak", ".env.~1~", ".flaskenv", ".flaskenv.old", ".dev.vars"),
    *("id_ed25519_work", "id_rsa-github", "id_rsa.work", "id_rsa.old", "id_rsa~", ".id_rsa.swp", "#id_rsa#"),
    *("id_rsa (copy)", "kubeconfig", "kubeconfig.yaml", "kubeconfig-prod", "admin.kubeconfig", ".kube/config.bak"),
    *(".docker/config.json~", ".vault_pass", ".vault_pass.txt", "vault-password", ".vault_password_file"),
    *("ansible_vault_pass", "server.key.bak", "server.pem~", "prod.env.old", ".netrc-old", ".npmrc.orig"),
    *("credentials.json.1", ".netrc.swo", "secrets.yml.2024-05-01", "terraform.tfvars~", "Copy of credentials.json"),
    *(".zsh_history", ".node_repl_history", "http.keytab", "rclone.conf", ".bash_history~", ".id_ed25519_work.un~"),
]
SECRET_OPEN = [
    *(".env.example", ".env.sample", ".env.template", ".env.dist", ".env.production.example", "example.env"),
    *("id_card.md", "id_rsa.pub", "id_rsa.md", "keys/x.md", "server.crt", "ca.cer", "keyboard.md", "key"),
    *("secrets.md", "credentials.md", "environment.md", "env", "env.py", "config/settings.json", "pem.md"),
    *(".docker/Dockerfile", ".kube/x.md", ".config/x.toml", "auth.json", "service-account.yaml", "ssh/config"),
    *("id_rsa_work.pub", "id_ed25519-notes.md", "kubeconfig.md", "vault.md", "vault_passage.md", "history.md"),
    *("copy of x.md", "example.env.bak", "notes.md~", "#notes.md#", ".notes.md.swp", "keys.1", "chapter-2", "1", "~"),
    *("#", "terraform.tf", "variables.tfvars.example", ".gitignore", ".envoy.yaml", "monkey.md", "a.key.md"),
]


CASES = ["a.evals.yaml", "specialists/A.Evals.YML", "evals/evals.json", "skills/x/evals/EVALS.json"]
NO_CASES = ["evals.yaml", "docs/evals.md", "evals.json", "devals/evals.json", "evals/other.json", "a.evals.yaml.md"]
NOTES = [".run-specialist/memory/finder/MEMORY.md", ".run-specialist/memory-local/finder/topics/MEMORY.md"]
NO_NOTES = ["memory/x.md", ".run-specialist/other.md", "notes/.run-specialist/x/memory/a.md"]


def test_names_of_closed_files():
    """They are closed at any depth and in any case; notes, templates, certificates and public keys stay open."""
    assert [
        path for path in (*SECRETS, *CASES, *NOTES) if not is_secret(path) or not is_secret(f"deep/er/{path}")
    ] == []
    assert [path for path in (*SECRET_OPEN, *NO_CASES, *NO_NOTES) if is_secret(path)] == []
    assert [path for path in (*CASES, *NO_CASES) if holds_cases(path)] == CASES


@given(st.text("-1~.# ()bako", max_size=255))
def test_a_name_of_any_length_is_judged_at_once(name):
    """A name that repeats endings of copies is judged without trying every way to divide it."""
    assert is_secret(f"{name}/.env")
    is_secret(name + "-1" * 100 + "x")


def test_no_tool_shows_a_secret(call, write):
    """No tool shows a secret file's content or lists its name."""
    write({".env": "needle", "sub/.ssh/config": "needle", "tls/server.key": "needle", "tls/x.md": "needle"})
    assert call("grep", pattern="needle") == "tls/x.md:1: needle"
    assert call("glob", pattern="**") == "tls/x.md"
    assert "1 best of 1" in call("search", query="needle")
    assert call("ls") == "sub/  0 entries\ntls/  1 entry"
    assert "hidden" in call("ls", path="sub")


@pytest.mark.parametrize(
    ("closed", "what"),
    [(CASES[0], "the expected answers of an eval"), *((path, "notes of specialists") for path in NOTES)],
)
def test_no_tool_shows_expected_answers_or_notes(call, write, closed, what):
    """No tool finds them, and reading them is refused with the reason and the remedy."""
    write(dict.fromkeys((closed, "x.md"), "needle"))
    assert call("grep", pattern="needle") == "x.md:1: needle"
    assert "1 best of 1" in call("search", query="needle")
    with pytest.raises(ToolError, match=f"is closed: it holds {what}; `paths` in"):
        call("read", path=closed)
    assert f"{closed}:1: needle" in call("grep", paths=(closed,), pattern="needle")
    assert call("grep", paths=(".",), pattern="needle") == "x.md:1: needle"


@pytest.mark.parametrize("path", [".ENV.local", "sub/.ssh/config", "sub/.ssh"])
def test_the_refusal_gives_the_reason_and_the_remedy(call, write, path):
    """Each tool refuses a secret file with a one-line error that gives the reason and how to open it."""
    write({".ENV.local": "needle", "sub/.ssh/config": "needle"})
    for tool, arguments in (("read", {}), ("ls", {}), ("grep", {"pattern": "x"})):
        with pytest.raises(ToolError, match=f"'{path}' is closed: .* secrets, and only `paths` .* opens them") as error:
            call(tool, path=path, **arguments)
        assert "\n" not in str(error.value)


def test_the_error_for_a_missing_file_suggests_no_secret_file(call, write):
    """The error for a missing file suggests only names of visible files."""
    write({".env.local": "needle"})
    with pytest.raises(ToolError, match=r"does not exist$"):
        call("read", path=".env.locale.md")


def test_a_link_to_a_secret_file_opens_nothing(call, write, root):
    """A link to a secret file or folder opens nothing; a link with a secret name to a plain note can be read."""
    write({".env": "needle", ".ssh/config": "needle", "x.md": "plain"})
    (root / "notes.md").symlink_to(".env")
    (root / "folder").symlink_to(".ssh")
    (root / "id_rsa").symlink_to("x.md")
    for path in ("notes.md", "folder/config", "folder"):
        with pytest.raises(ToolError, match="is closed"):
            call("read", path=path)
    assert "notes.md -> (leads to what you may not read)" in call("ls")
    assert "plain" in call("read", path="id_rsa")


@pytest.mark.parametrize(
    ("paths", "opened"),
    [
        ([".env"], [".env"]),
        ([".env*"], [".env", ".env.local", ".envoy"]),
        (["**/.env"], [".env", "sub/.env"]),
        (["**", ".env"], [".env", ".envoy", "x.md"]),
        ([".", "sub/.env"], [".envoy", "sub/.env", "x.md"]),
        ([".ssh/"], [".ssh/config", ".ssh/id_rsa"]),
        ([".ssh/*"], [".ssh/config", ".ssh/id_rsa"]),
        ([".", ".ssh/config"], [".envoy", ".ssh/config", "x.md"]),
        (["tls/*.pem"], ["tls/a.pem"]),
        (["*.pem"], []),
        (["tls/*"], []),
        (["*"], [".envoy", "x.md"]),
        (["."], [".envoy", "x.md"]),
        (["[.]*"], [".envoy"]),
        (["**/config"], []),
        (["sub/../.env"], [".env"]),
    ],
    ids=" ".join,
)
def test_paths_open_a_secret_file_only_by_its_name(call, write, paths, opened):
    """`paths` opens a secret file by its name or by a glob for such names."""
    names = (".env", ".env.local", ".envoy", "x.md", "sub/.env", ".ssh/config", ".ssh/id_rsa", "tls/a.pem")
    write(dict.fromkeys(names, "needle"))
    found = [line.split(":")[0] for line in call("grep", paths=tuple(paths), pattern="needle").splitlines()]
    assert [line for line in found if line[0] != "["] == opened
    for name in names:
        if name in opened:
            assert "needle" in call("read", paths=tuple(paths), path=name)
        else:
            with pytest.raises(ToolError, match=r"is closed|not among the paths"):
                call("read", paths=tuple(paths), path=name)


def test_a_link_among_paths_opens_no_secret_file(call, write, root):
    """A link in `paths` does not open a secret file under another name."""
    write({".ssh/config": "needle", ".env": "needle", ".aws/credentials": "needle"})
    (root / "docs").symlink_to(".ssh")
    (root / "notes.md").symlink_to(".env")
    (root / "prod.env").symlink_to(".aws/credentials")
    for paths, path in (("docs", "docs/config"), ("notes.md", "notes.md"), ("prod.env", "prod.env")):
        with pytest.raises(ToolError, match="is closed"):
            call("read", paths=(paths,), path=path)


def test_an_ignored_file_stays_hidden_even_if_named_in_paths(call, write):
    """A name in `paths` does not open a file that .gitignore hides."""
    write({".gitignore": ".env\n", ".env": "needle"})
    with pytest.raises(ToolError, match=r"hidden by \.gitignore"):
        call("read", paths=(".env",), path=".env")


def test_a_root_with_a_secret_name_can_be_read(tmp_path: Path):
    """Files in a root with a secret name can be read, since the user chose it; a key in it must still be named."""
    root = tmp_path / ".ssh"
    root.mkdir()
    (root / "config").write_text("needle")
    (root / "id_rsa").write_text("needle")
    grep = {tool.name: tool for tool in file_tools(root)}["grep"]
    assert asyncio.run(grep.call({"pattern": "needle"})).text == "config:1: needle"
