"""Which command lines the rules of a file allow: tables, and random lines that a real shell runs."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.tools.shell.tool import CommandRules
from tests.plugins.tiers import examples

ONLY_GIT = CommandRules(["read", "Bash(git log:*, git show:*)", "Bash(npm run build)", "Bash(make * check)"], [])
NO_RM = CommandRules(["Bash"], ["Bash(rm:*)"])


@pytest.mark.parametrize(
    "line",
    [
        "git log",
        "git  log\t--oneline -5",
        "git show HEAD && git log | git show; git log & git show",
        "git log\ngit show",
        "git \\\n log",
        "g''it 'log' \"--format=%s $(git show)\"",
        "git log $X $(git show)",
        "git log *.md {a,b} ~",
        "git log 2>&1 >/dev/null",
        "git log &> /dev/null",
        "git log 'a; rm x' \"b && c\" d\\;e",
        "npm run build",
        "make -k x check",
    ],
)
def test_what_only_consists_of_allowed_commands_is_allowed(line):
    """However it is quoted, joined and redirected to nowhere."""
    assert ONLY_GIT.refusal(line) == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("git logx", "`git logx` is not allowed"),
        ("git", "`git` is not allowed"),
        ("/usr/bin/git log", "is not allowed"),
        ("'git log'", "is not allowed"),
        ("npm run build now", "is not allowed"),
        ("npm 'run build'", "is not allowed"),
        ("make $X check", "is not allowed"),
        *((f"git log {joint} rm x", "`rm x` is not allowed") for joint in (";", "&&", "||", "|", "|&", "&", "\n")),
        ("git log $(rm x)", "`rm x` is not allowed"),
        ('git log "$(git show; rm x)"', "`rm x` is not allowed"),
        ("git log `rm x`", "expansion that is not understood"),
        ("git log ${x:-$(rm x)}", "expansion that is not understood"),
        ("git log $((x)) $'a'", "expansion that is not understood"),
        ("git log > file", "`>` is a redirection"),
        ("git log >/dev/nullx", "`>` is a redirection"),
        ("git log < file", "`<` is a redirection"),
        ("git log <<x\nx", "`<` is a redirection"),
        ("git log <(rm x)", "`<` is a redirection"),
        ("(git log)", "`(` is a redirection, a group or a function"),
        ("git() { rm x; }; git log", "is a redirection, a group or a function"),
        ("{ git log; }", "known only when it runs"),
        ("$X log", "known only when it runs"),
        ("gi? log", "known only when it runs"),
        ("{git,log}", "known only when it runs"),
        ("if git log; then git show; fi", "`if` is more than a simple command"),
        ("time git log", "`time` is more than a simple command"),
        ("! git log", "`!` is more than a simple command"),
        ("GIT_PAGER=x git log", "it sets a variable"),
        ("git log # x", "it has a comment"),
        ("git log ;; x", "`;;` is not understood"),
        ("git log 'x", "a quote is not closed"),
        ('git log "x', "a quote is not closed"),
        ("git log $(git show", "a parenthesis is not closed"),
        ("git log \r rm x", "control characters"),
        ("git log " + "$(" * 30 + ")" * 30, "nested too deep"),
    ],
)
def test_everything_else_is_refused_with_what_is_allowed(line, reason):
    """Other commands, and what cannot be decided by reading."""
    refusal = ONLY_GIT.refusal(line)
    assert reason in refusal
    assert "Only these commands may be run: `git log:*`, `git show:*`, `npm run build`, `make * check`." in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize("line", ["ls; echo rm", "git log *.md $X", "true && ls 2>/dev/null"])
def test_what_is_not_disallowed_is_allowed(line):
    """A rule in `disallowed_tools` removes only its commands."""
    assert NO_RM.refusal(line) == ""


@pytest.mark.parametrize(
    "line",
    ["rm x", "/bin/rm x", "\\rm x", "r''m x", "ls; rm x", "ls $(rm x)", "xargs rm", "sh -c 'rm x'",
     "i\\\nf true; then rm x; fi", "find . -delete", "r? x", "command rm x", "$R x", "r$X x", "true&rm x", "rm"],
)  # fmt: skip
def test_what_is_or_could_be_disallowed_is_refused(line):
    """By any path and spelling, and by programs that run others."""
    assert "These must not be run: `rm:*`." in NO_RM.refusal(line)


@pytest.mark.parametrize(
    ("tools", "disallowed", "allowed", "refused"),
    [
        (["Bash"], [], "anything > x", None),
        (["Bash(*)"], [], "anything", None),
        (["Bash(:*)"], [], "anything", None),
        (["Bash", "Bash(git log)"], [], "anything", None),
        (["Bash(awk -F, *)"], [], "awk -F", "awk x"),
        (["Bash(, *)"], [], None, "anything"),
        (["Bash()"], [], None, "anything"),
        (["run_shell_command(git)"], [], "git log", "gitk"),
        (["shell(git *)"], [], "git log", "gitk"),
        (["Bash(ls*)"], [], "lsof", "cat"),
        (["Bash"], ["Bash(*)"], None, "anything"),
        (["Bash"], ["Bash(git push *)", "Bash(git reset)"], "git log", "git reset --hard"),
        (["Bash(git:*)"], ["Bash(git push:*)"], "git log $X", "git $X"),
    ],
)
def test_rules_mean_what_they_mean_in_other_programs_or_less(tools, disallowed, allowed, refused):
    """Prefixes with a whole word, several rules, and no rule that allows everything by a stray comma."""
    rules = CommandRules(tools, disallowed)
    assert allowed is None or rules.refusal(allowed) == ""
    assert refused is None or rules.refusal(refused)


PARTS = st.sampled_from(
    [*"'\"\\$`;&|(){}<>!#=~*? \n\t-", "evil", "echo", "$(", "${x:-", "&&", "||", "if ", "then ", "fi", "x", "x=",
     "\\\n", ">/dev/null", "2>&1", "echo ", " evil ", ";evil", "<<E\n", "function ", "time ", "$'", "[[ ", "\r",
     "a[$(evil)]="]
)  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@settings(max_examples=examples(120))
@given(parts=st.lists(PARTS, max_size=9))
def test_a_shell_runs_nothing_but_what_is_allowed(tmp_path_factory, parts):
    """A real bash runs each line that is allowed; a command that is not allowed would leave a mark."""
    line = "echo " + "".join(parts)
    if "\0" in line or CommandRules(["Bash(echo:*)"], []).refusal(line):
        return
    folder = tmp_path_factory.getbasetemp() / "marked"
    if not folder.exists():
        folder.mkdir()
        (folder / "evil").write_text(f"#!/bin/sh\n: > {folder}/mark\n")
        (folder / "evil").chmod(0o755)
    subprocess.run(
        [shutil.which("bash") or "bash", "-c", "--", line], env={"PATH": str(folder)}, cwd=folder, timeout=20,
        check=False, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    assert not (folder / "mark").exists(), line
