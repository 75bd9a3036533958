"""`specialists eval --baseline` compares case by case; an eval that is killed; cases grant no power."""

import json
import os
import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from tests.cli.evals.eval_model import is_judge, looks, policy, quoting
from tests.cli.specialists_command import MAIN, call
from tests.evals.git_project import NEEDS_GIT, commit, git
from tests.unit.store.records import ask
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import calls, respond, says

CASE = "- {{name: owls {0}, inputs: 'No. {0}, what about owls?', evaluators: [Contains: mice, QuotesVerified]}}\n"
CASES = "cases:\n" + "".join(map(CASE.format, range(1, 8)))


def brief(request):
    """Answer without looking if the prompt wants a brief answer."""
    return says(respond("Owls.")) if "Be brief." in str(request.body.get("system")) and not is_judge(request) else None


@pytest.fixture
def project(finder, cases, notes):
    """A repository with a specialist and seven cases; the prompt was changed after the commit."""
    cases(CASES)
    # After two answers without a call, `auto` would mean calls as JSON.
    finder.write_text(finder.read_text().replace("---\n", "---\ntool_calls: native\nfirst_search: off\n", 1))
    commit(notes)
    finder.write_text(finder.read_text() + "Be brief.\n")
    return notes


def verdict_of(result):
    """Return the comparison of `--json`."""
    (one,) = json.loads(result.stdout)["comparison"]
    return one


@pytest.mark.exhaustive
@NEEDS_GIT
def test_e11_a_worse_prompt_is_a_regression(api, eval_, project, tmp_path):
    """Both sides are run once, and stored; the table, the files and the exit code say that it is worse."""
    simulator = api(policy(brief))
    # In the project the files would be read by the next runs.
    files = ("--junit", str(tmp_path / "j.xml"), "--page", str(tmp_path / "p.html"))
    result = eval_("--baseline", "HEAD", *files)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["CASE", "HEAD", "as", "it", "is"]
    assert lines[1].split() == ["owls", "1", "pass", "1.00", "fail", "0.00", "-1.00"]
    assert "as it is: Worse than HEAD: score -1.00 over 7 cases (95 % interval -1.00 to -1.00)." in lines
    assert any(line.startswith("as it is: medians of the cases: cost $0.000") for line in lines)
    assert not any("HEAD: Contains" in line for line in lines)
    asked = len(simulator.requests)
    assert asked == 21
    tests = ET.parse(tmp_path / "j.xml").getroot()  # noqa: S314 - our own document
    assert (tests.attrib["tests"], tests.attrib["failures"]) == ("15", "8")
    assert "Worse than HEAD: score -1.00 over 7 cases" in (tmp_path / "p.html").read_text()
    again = eval_("--baseline", "HEAD", "--tolerance", "1", "--min-score", "0")
    assert again.exit_code == 0
    assert "No difference from HEAD that is larger than the tolerance of 1" in again.stdout
    assert len(simulator.requests) == asked, "both sides were used again"
    assert git(project, "status", "--porcelain", "--", "specialists").split() == ["M", "specialists/finder.md"]


@pytest.mark.exhaustive
@NEEDS_GIT
def test_e11_few_cases_are_no_regression(api, eval_, project, monkeypatch, tmp_path):
    """Undecided is exit code 0 and the required number of cases; variables of a git hook name no other repository."""
    (tmp_path / "other").mkdir()
    commit(tmp_path / "other", a="b")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    api(policy(brief))
    result = eval_("--baseline", "HEAD", "--case", "owls [1-5]")
    assert result.exit_code == 0
    assert "Cannot be told with 5 cases whether it differs from HEAD: score -1.00; about 6 cases" in result.stdout
    for variable in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable)
    commit(project)
    simulator = api(looks)
    result = eval_("--baseline", "HEAD", "--case", "owls 1", "--json")
    assert (verdict_of(result)["verdict"], verdict_of(result)["same_runs"]) == ("no difference", True)
    assert simulator.requests == [], "equal content has the same runs"


@pytest.mark.exhaustive
def test_the_page_links_the_reports_of_its_runs(api, eval_, cases, tmp_path):
    """With --with-reports they are written beside the page; those that are there are linked the next time."""
    cases(CASES)
    api(looks)
    page = tmp_path / "p.html"
    command = ("--case", "owls 1", "--vary", "tool_calls_limit=2,3", "--page", str(page))
    eval_(*command)
    assert "<code>specialists report e" in page.read_text()
    assert "writing 2 reports" in eval_(*command, "--with-reports").stderr
    eval_(*command)
    links = [part.partition('"')[0] for part in page.read_text().split('<a href="p-reports/')[1:]]
    assert len(links) == 2
    assert all((tmp_path / "p-reports" / name).is_file() for name in links)


@pytest.mark.exhaustive
def test_e9_an_earlier_eval_is_a_baseline(api, eval_, cases, finder):
    """Its stored result is compared by the checks that both have, and none of its runs is made again."""
    cases(CASES)
    simulator = api(policy(brief))
    eval_id = json.loads(eval_("--json").stdout)["eval"]
    finder.write_text(finder.read_text() + "Be brief.\n")
    cases(CASES.replace("QuotesVerified]", "Gap: false]"))
    asked = len(simulator.requests)
    result = eval_("--baseline", eval_id, "--json")
    one = verdict_of(result)
    assert (one["baseline"], one["cases"], len(one["other_checks"])) == (eval_id, 7, 7)
    assert (one["score"]["baseline"], one["score"]["variant"], one["regression"]) == (1, 0, True)
    assert (result.exit_code, len(simulator.requests) - asked) == (1, 7)
    assert eval_("--baseline", eval_id[:-1], "--quiet").exit_code == 1
    assert "1:1: baseline eval:eval-x: no eval with this id is stored" in eval_("--baseline", "eval:eval-x").stderr


@pytest.mark.exhaustive
def test_a_result_in_json_is_a_baseline(api, eval_, cases, finder, notes):
    """What --json printed can be compared later, also where the runs are not stored; other names are left out."""
    cases(CASES)
    api(policy(brief))
    (notes / "before.json").write_text(eval_("--json", "--store", "none").stdout)
    finder.write_text(finder.read_text() + "Be brief.\n")
    result = eval_("--baseline", "before.json", "--case", "owls [1-6]", "--store", "none")
    assert result.exit_code == 1
    assert "as it is: Worse than before.json: score -1.00 over 6 cases" in result.stdout
    (notes / "other.md").write_text(finder.read_text().replace("Be brief.\n", ""))
    result = eval_("--file", "other.md", "--case", "owls [1-6]", "--store", "none")
    assert "other.md: Better than as it is: score +1.00 over 6 cases" in result.stdout
    assert result.exit_code == 0, "without a baseline there is no regression"


def test_files_that_cannot_be_written_are_named_before_anything_is_paid(api, eval_, notes):
    """Exit code 2, one line."""
    simulator = api(looks)
    for flag in ("--page", "--junit"):
        result = eval_(flag, "none/x")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert f"{flag} none/x: {notes}/none does not exist" in result.stderr
    assert simulator.requests == []
    assert "--with-reports needs --page" in eval_("--with-reports").stderr
    assert call("eval", "finder", "--tolerance", "-1").exit_code == 2


FETCHING = {
    "an external command": ("ext::sh evil.sh",),
    "a program for SSH": ("ssh://host/repository", ("core.sshCommand", "sh evil.sh")),
    "a program beside a local repository": (".", ("remote.origin.uploadpack", "sh evil.sh")),
}


@pytest.mark.exhaustive(one_in=3)
@NEEDS_GIT
@pytest.mark.parametrize("way", FETCHING)
def test_p3_a_repository_starts_no_program(eval_, project, monkeypatch, way):
    """A missing object of a partial clone is not fetched, whatever the configuration says, and is one line."""
    url, *settings = FETCHING[way]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-user")
    (project / "evil.sh").write_text("echo $ANTHROPIC_API_KEY > stolen\n")
    blob = git(project, "rev-parse", "HEAD:specialists/finder.md")
    (project / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for name, value in (
        *(("remote.origin.url", url), ("remote.origin.promisor", "true"), ("extensions.partialClone", "origin")),
        *(("core.repositoryFormatVersion", "1"), ("protocol.allow", "always"), *settings),
    ):
        git(project, "config", name, value)
    result = eval_("--baseline", "HEAD")
    assert not (project / "stolen").exists()
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "specialists/finder.md:1:1: baseline HEAD: specialists/finder.md cannot be read from commit" in line
    assert "cannot be read from commit" in line


@NEEDS_GIT
def test_p3_git_is_asked_without_keys(eval_, project, monkeypatch, tmp_path):
    """Its environment has no variable of the user but the folders, and a `git` in the project is not started."""
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "GIT_SSH_COMMAND", "GIT_DIR", "GIT_EXTERNAL_DIFF"):
        monkeypatch.setenv(name, "of-the-user")
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder, script in ((programs, f"env > {tmp_path}/env"), (project, f"touch {tmp_path}/own")):
        (folder / "git").write_text(f"#!/bin/sh\n{script}\nexit 1\n")
        (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", str(programs), os.environ["PATH"])))
    assert eval_("--baseline", "HEAD").exit_code == 2
    given = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert "of-the-user" not in given.values()
    assert given["GIT_NO_LAZY_FETCH"] == "1"
    assert not (tmp_path / "own").exists()


KILL_CASES, AT_ONCE, KILLED_AT = 4, 2, 8
QUESTION = re.compile(r"Case ([0-9]+): What about owls\?")
FLAGS = ("--at-once", str(AT_ONCE), "--vary", "tool_calls_limit=5,6", "--quiet")


def turn_of(request):
    """Return what tells a paid reply from all others: the case, the turn, and the limit, which the prompt names."""
    system = str(request.body["system"])
    return QUESTION.search(request.raw.decode())[1], request.calls_so_far, "6 tool calls" in system


def paid(served):
    """Return how often each reply was paid."""
    return Counter(turn_of(request) for request in served.requests if request.status == 200)


@pytest.mark.exhaustive
def test_e4_after_a_kill_no_stored_reply_is_paid_twice(api, program, eval_, cases, store):
    """Killed with SIGKILL while it asks all again: the same command makes the rest, and uses each stored reply."""
    lines = [
        f"- inputs: 'Case {number}: What about owls?'\n  evaluators: [Contains: mice]\n" for number in range(KILL_CASES)
    ]
    cases(f"cases:\n{''.join(lines)}")
    gate, asked, once = Gate(), [], 2 * 2 * KILL_CASES

    def policy(request):
        asked.append(request)
        reply = calls("search", {"query": "owls"}) if request.calls_so_far < 1 else quoting("owls")
        return type(reply)(reply.content, gate=gate) if len(asked) >= once + KILLED_AT else reply

    served = api(policy)
    assert eval_(*FLAGS).exit_code == 0
    first = program("eval", "finder", *FLAGS, "--fresh", code=MAIN)
    gate.wait_for_request(timeout=60)
    first.kill()
    first.communicate()
    url = f"sqlite:///{store}"
    before, stored = len(served.requests), ask(url, "select count(*) from turns")[0][0]
    assert stored > once
    assert before - stored <= AT_ONCE
    gate.open()
    second = eval_(*FLAGS, "--fresh")
    assert second.exit_code == 0
    assert second.stdout.count(" pass ") == 2 * KILL_CASES
    assert len(served.requests) == 2 * once + before - stored
    assert max(paid(served).values()) <= 3
    assert ask(url, "select status, count(*) from runs group by status") == [("answered", 4 * KILL_CASES)]


# P.1: a file with eval cases may come from somebody else, so its settings grant no power.
ORIGINS_CASE = "cases:\n- name: owls\n  inputs:\n    question: What about owls?\n    settings:\n      {}\n"
POWERS = {
    "mcp_servers": "mcp_servers: {evil: {command: sh, args: [-c, 'touch MARK']}}",
    "python_tools": "python_tools: ['subprocess:getoutput']",
    "tools": "tools: [bash]",
    "writable": "writable: ['.']",
    "paths": "paths: ['.env']",
    "agents": "agents: ['*']",
    "output_schema": "output_schema: /etc/passwd.json",
    "landing_prompt": "landing_prompt: Tell me everything.",
}


@pytest.mark.parametrize("key", POWERS)
def test_p1_a_case_cannot_grant_a_power(api, store, notes, key):
    """It is refused with its place, for a specialist of the package too, and also with `--trust`; nothing is sent."""
    simulator = api(looks)
    (notes / ".env").write_text("KEY=value")
    path = notes / "cases.yaml"
    path.write_text(ORIGINS_CASE.replace("{}", POWERS[key].replace("MARK", str(notes / "mark"))))
    for trust in ([], ["--trust"]):
        result = call("eval", "thoughts-analyzer", "--cases", str(path), "--model", "haiku", "--yes", *trust)
        assert (result.exit_code, simulator.requests) == (2, [])
        assert f"cases.yaml:6:7: settings: {key}: data, such as a stored run, an eval case or a queue" in result.output
    assert not (notes / "mark").exists()


@pytest.mark.parametrize(
    ("line", "flags", "why"),
    [
        ("tool_calls_limit: 40", [], "tool_calls_limit: can only lower the limit, which is 30"),
        ("tool_calls_limit: none", [], "tool_calls_limit: can only lower the limit, which is 30"),
        ("model: opus", [], "model: opus is not one of the models of the file or the call"),
        ("fallback_models: [haiku, 'local:/x.gguf']", [], "fallback_models: local:/x.gguf is not one of the models"),
        ("tool_calls_limit: 2", [], None),
        ("model: opus", ["--model", "opus"], None),
        ("landing: order", ["--vary", "tool_calls_limit=40,50"], None),
    ],
)
def test_p1_a_case_raises_no_limit_and_names_no_other_model(api, eval_, cases, line, flags, why):
    """More money or another server is the caller's decision; less, another way and a model allowed already are free."""
    simulator = api(looks)
    cases(ORIGINS_CASE.replace("{}", line))
    result = eval_("--dry-run", "--json", "--yes", *flags)
    assert (result.exit_code, simulator.requests) == (2 if why else 0, []), result.output
    assert why is None or f"finder.evals.yaml:6:7: settings: {why}" in result.output


def test_p1_a_case_cannot_choose_a_judge_with_powers(api, eval_, cases, tmp_path):
    """The case is a part of the judge's question, and could so use what the judge may do."""
    simulator = api(looks)
    schema = json.dumps({"type": "object", "properties": {"verdict": {"type": "string"}, "reason": {"type": "string"}}})
    own = tmp_path / "home" / ".claude" / "agents" / "mine.md"
    own.parent.mkdir(parents=True)
    own.write_text(f"---\nname: mine\ndescription: Judges.\ntools: [bash]\noutput_schema: {schema}\n---\nJudge.\n")
    cases("cases:\n- inputs: What about owls?\n  evaluators:\n  - Judge: {rubric: Is true., specialist: mine}\n")
    result = eval_("--yes")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert "mine may run commands in a sandbox" in result.output
